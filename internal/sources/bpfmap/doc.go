// Package bpfmap is the bpfmap source: what Cilium's pinned BPF maps hold, and every change of it.
//
//	bpffs ─pins.go─▶ table.go ─walk.go─▶ snapshot ─diff.go─▶ change ─parts.go─▶ events
//	                    ▲                                        ▲
//	                 lane.go: which maps are due (schedule.go); services.go: those read together
//
// Maps are opened read-only and polled. A poll reads a map whole into one of its two snapshots and compares it with
// the other. There is no index of entries: the kernel walks a hash map bucket by bucket, so two walks meet the same
// entries in the same order but for what came and went, and the two are compared side by side in one pass.
// What is out of step is matched by a small open-addressing table (index.go).
//
// Services, backends and rev-NAT are read together, services before and after the others, and count only when
// both reads of the services are equal. They have a lane (a goroutine) of their own, so that a walk of a large CT map
// never delays them.
package bpfmap
