package host

import (
	"testing"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/sources"
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

func TestDroppedNotificationsAreOneGapAndLeadToALook(t *testing.T) {
	b := &bells{route: sources.NewTrigger(), neigh: sources.NewTrigger(), nft: sources.NewTrigger()}
	for range 1000 {
		b.overrun("devices")
	}
	b.overrun("rules")
	gaps := b.gaps()
	if len(gaps) != 2 || gaps[0].Reason != eventpb.GapReason_GAP_REASON_LOST || gaps[0].ToNs < gaps[0].FromNs || gaps[0].FromNs == 0 {
		t.Errorf("gaps %v", gaps)
	}
	if len(b.route) != 1 || len(b.neigh) != 1 || len(b.nft) != 1 || b.gaps() != nil {
		t.Error("no look follows, or the gap is told twice")
	}
}
