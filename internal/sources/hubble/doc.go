// Package hubble is the source that follows a Hubble observer: the agent's, on the node's socket, or a relay's.
//
//	GetFlows follow ──▶ drop repeats ──▶ redact ──▶ 50 ms window ──▶ Flows
//	GetAgentEvents follow ─────────────────────────▶ 50 ms window ──▶ AgentEvents
//	lost events ──▶ summed per second and ring ──▶ Gap
//
// It begins with all that the observer's ring still has, or, on resuming, at the last flow that was recorded: if
// the ring does not reach back to it, that is a Gap too. Flows are kept as the protobuf messages they are; Expand
// restores one whole. Passwords, query values and credentials in HTTP flows never reach an event.
package hubble
