package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/sources"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const checkTimeout = 3 * time.Second

// Check connects, finds this node and asks for one object of each kind. It stops at what the rest depends on.
func (s *Source) Check(ctx context.Context) []sources.Finding {
	ctx, cancel := context.WithTimeout(ctx, 4*checkTimeout)
	defer cancel()
	config, err := Connect(s.config.Kubeconfig)
	if err != nil {
		return []sources.Finding{{Thing: "kubeconfig", Err: err}}
	}
	c, err := newClients(config)
	if err != nil {
		return []sources.Finding{{Thing: "kubeconfig", Err: err}}
	}
	defer c.close()

	server := c.checkServer(ctx)
	if server.Err != nil {
		return []sources.Finding{server}
	}
	if err := c.findNode(ctx, s.config.Node); err != nil {
		return []sources.Finding{server, {Thing: "node", Err: err}}
	}
	list := []sources.Finding{server, {Thing: "node", Seen: c.node + " " + strings.Join(c.nodeIPs, ", ")}}
	for _, r := range c.resources() {
		list = append(list, c.checkList(ctx, r))
	}
	return list
}

func (c *clients) checkServer(ctx context.Context) sources.Finding {
	f := sources.Finding{Thing: "API server " + c.server}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	text, err := c.version(ctx)
	if err != nil {
		f.Err = trouble(c.server, "version", err)
		return f
	}
	var v struct {
		GitVersion string `json:"gitVersion"`
	}
	_ = json.Unmarshal(text, &v) // the version is for people only
	f.Seen = "Kubernetes " + v.GitVersion
	return f
}

func (c *clients) checkList(ctx context.Context, r resource) sources.Finding {
	f := sources.Finding{Thing: r.name}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	list, err := r.list(ctx, metav1.ListOptions{Limit: 1})
	switch {
	case err == nil:
		f.Seen = seen(list)
	case r.optional && apierrors.IsNotFound(err):
		f.Seen = "the cluster has no such type; none are recorded until it does"
	default:
		f.Err = trouble(c.server, r.name, err)
	}
	return f
}

// seen counts by what the server says is left after the one object that was asked for; with a field selector it
// does not say.
func seen(list runtime.Object) string {
	m, err := meta.ListAccessor(list)
	n := meta.LenList(list)
	switch {
	case err == nil && m.GetRemainingItemCount() != nil:
		return fmt.Sprintf("%d, can be listed", int64(n)+*m.GetRemainingItemCount())
	case err == nil && m.GetContinue() == "":
		return fmt.Sprintf("%d, can be listed", n)
	}
	return "can be listed"
}
