// Package timeline makes the table of causes and effects of a session: what happened to each Service, when, and how
// long after the row that caused it.
//
//	events ──reader──▶ facts ──order──▶ linker ──order──▶ rows, convergence
//
// The reader folds events in the order in which they were stored and says what changed. Sources are stored side by
// side, and a flow is stored later than it happened, so facts are put in order of time before the linker looks for
// their causes. Deployments are not recorded: how many pods a Service has is counted from the pods themselves.
package timeline
