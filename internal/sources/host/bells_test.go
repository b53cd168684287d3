package host

import (
	"testing"
)

// The bytes are those of NFT_MSG_NEWGEN: struct nfgenmsg, then NFTA_GEN_ID, NFTA_GEN_PROC_PID, NFTA_GEN_PROC_NAME.
func generation(name string) []byte {
	b := []byte{0, 0, 0, 7, 8, 0, 1, 0, 0, 0, 0, 7, 8, 0, 2, 0, 0, 0, 0x12, 0x34}
	n := len(name) + 1
	b = append(b, byte(4+n), 0, 3, 0)
	b = append(b, name...)
	return append(b, make([]byte, 1+(4-n%4)%4)...)
}

func TestWhoMadeAGeneration(t *testing.T) {
	for name, data := range map[string][]byte{
		"iptables-save":   generation("iptables-save"),
		"iptables-restor": generation("iptables-restor"),
		"":                {0, 0, 0, 7},
	} {
		if got := generationBy(data); got != name {
			t.Errorf("%q, want %q", got, name)
		}
	}
	for n := range generation("iptables-save") {
		generationBy(generation("iptables-save")[:n]) // torn messages do not panic
	}
}
