package projections

import (
	"testing"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

func TestHealthServer(t *testing.T) {
	const target = "http://192.168.96.10:10256/healthz"
	for _, c := range []struct {
		name string
		code int32
		says string
	}{
		{"well", 200, ""},
		{"not well", 503, "answers with 503 at " + target},
		{"nobody answers", 0, "does not answer at " + target},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := tell(t)
			st.agent(readAgent(t, "default"))
			st.event("probe", &eventpb.ProbeResult{Name: "healthz", Kind: "http", Target: target, HttpCode: c.code})
			st.wait(4)
			st.quiet("before the bound")
			st.wait(2)
			if h := st.node().Health; h == nil || h.HTTPCode != c.code || h.Healthy != (c.says == "") || h.Target != target {
				t.Errorf("node.json says %+v", h)
			}
			if c.says == "" {
				st.quiet("when it is well")
				return
			}
			st.wantOpen("after the bound", "health-server "+target)
			st.wantText("health-server", c.says)
			st.event("probe", &eventpb.ProbeResult{Name: "healthz", Kind: "http", Target: target, HttpCode: 200})
			st.quiet("when it is well again")
		})
	}
}
