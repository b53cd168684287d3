package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tapedeck-io/tapedeck/internal/sources"
)

// Check asks for the status, and whether the tables are streamed.
func (s *Source) Check(ctx context.Context) []sources.Finding {
	c := newClient(s.cfg.Socket)
	defer c.close()
	api := sources.Finding{Thing: "agent API " + c.socket}
	status, err := c.status(ctx)
	if err != nil {
		api.Err = c.trouble(err)
		return []sources.Finding{api}
	}
	api.Seen = status.String()
	return []sources.Finding{api, s.checkTables(ctx, c)}
}

func (s *Source) checkTables(ctx context.Context, c *client) sources.Finding {
	f := sources.Finding{Thing: "agent tables " + c.socket}
	for _, t := range newTables() {
		body, rows, err := c.openTable(ctx, t)
		if errors.Is(err, errNoStream) {
			f.Seen = "no change stream (an older agent): services are known by polling only"
			return f
		}
		if err != nil {
			f.Err = c.trouble(err)
			return f
		}
		body.Close()
		if f.Seen != "" {
			f.Seen += ", "
		}
		f.Seen += fmt.Sprintf("%d %s", len(rows), t.name)
	}
	return f
}

// agentStatus is the little of /v1/healthz that a check tells.
type agentStatus struct {
	Cilium *struct {
		State string `json:"state"`
		Msg   string `json:"msg"`
	} `json:"cilium"`
	KubeProxyReplacement *struct {
		Mode string `json:"mode"`
	} `json:"kube-proxy-replacement"`
}

func (a *agentStatus) String() string {
	text := fmt.Sprintf("cilium %s %s", a.Cilium.State, a.Cilium.Msg)
	if a.KubeProxyReplacement != nil {
		text += fmt.Sprintf(", kube-proxy replacement %s", a.KubeProxyReplacement.Mode)
	}
	return text
}

func (c *client) status(ctx context.Context) (*agentStatus, error) {
	body, err := c.get(ctx, "/v1/healthz", nil)
	if err != nil {
		return nil, err
	}
	var a agentStatus
	if err := json.Unmarshal(body, &a); err != nil {
		return nil, fmt.Errorf("decode status: %w", err)
	}
	if a.Cilium == nil {
		return nil, errNotAgent
	}
	return &a, nil
}
