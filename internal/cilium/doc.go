// Package cilium decodes what Cilium keeps in its BPF maps: keys, values and the maps' names. It does no I/O and
// imports nothing of the project. Layouts are those of Cilium 1.16 to 1.20; Lookup says which maps it can read.
//
// Every decoder takes the key's and the value's raw bytes as the kernel returns them, tells IPv4 from IPv6 by their
// sizes and returns a small struct by value, without allocating. The only error is ErrSize. Bytes of the right size
// always decode: a state, a flag or a protocol that this version does not know keeps its number.
//
// Ports, rev-NAT ids and addresses lie in network byte order; all else in the node's, which is little endian on
// every architecture that Cilium is built for.
package cilium
