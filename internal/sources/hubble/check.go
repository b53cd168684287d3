package hubble

import (
	"context"
	"fmt"
	"strings"
	"time"

	observerpb "github.com/cilium/cilium/api/v1/observer"
	"github.com/tapedeck-io/tapedeck/internal/sources"
)

// Check asks the observer what it is and how far back its ring reaches.
func (s *Source) Check(ctx context.Context) []sources.Finding {
	f := sources.Finding{Thing: "hubble observer " + s.peer.address}
	conn, about, err := s.peer.dial(ctx)
	if err != nil {
		f.Err = s.peer.trouble(err)
		return []sources.Finding{f}
	}
	conn.Close()
	f.Seen = describe(about)
	return []sources.Finding{f}
}

func describe(a *observerpb.ServerStatusResponse) string {
	parts := []string{
		strings.TrimSpace("hubble " + a.GetVersion()),
		fmt.Sprintf("%d of %d flows in the ring", a.GetNumFlows(), a.GetMaxFlows()),
		fmt.Sprintf("%.1f flows/s", a.GetFlowsRate()),
		"up " + time.Duration(a.GetUptimeNs()).Round(time.Second).String(),
	}
	if n := a.GetNumConnectedNodes(); n != nil {
		parts = append(parts, fmt.Sprintf("relay of %d nodes, %d unavailable", n.GetValue(), a.GetNumUnavailableNodes().GetValue()))
	}
	return strings.Join(parts, ", ")
}
