// Package probe is the source of the recorder's own requests, the only traffic that it makes: an HTTP GET from the
// node to a NodePort, and curl inside a pod to a Service without backends. What they ask is the profile's.
//
//	Cluster ──▶ subject (what to ask now; none: nothing is asked) ──▶ request ──▶ ProbeResult
//	             ▲ at each change, 100 ms after it                     ▲ every interval; soon again after a failure
package probe
