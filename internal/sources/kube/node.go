package kube

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/tapedeck-io/tapedeck/internal/events"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// ResolveNode returns the name of the node to record: the given one if the cluster has it; for "" the only node,
// or the one named as this host.
func ResolveNode(ctx context.Context, config *rest.Config, name string) (string, error) {
	c, err := newClients(config)
	if err != nil {
		return "", err
	}
	defer c.close()
	err = c.findNode(ctx, name)
	return c.node, err
}

func (c *clients) findNode(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	list, err := c.core.Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return trouble(c.server, "nodes", err)
	}
	host, _ := os.Hostname()
	node, err := pickNode(list.Items, name, host)
	if err != nil {
		return err
	}
	c.node = node.Name
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			c.nodeIPs = append(c.nodeIPs, a.Address)
		}
	}
	return nil
}

func pickNode(nodes []corev1.Node, name, host string) (*corev1.Node, error) {
	if name == "" && len(nodes) == 1 {
		return &nodes[0], nil
	}
	names := make([]string, len(nodes))
	for i := range nodes {
		n := &nodes[i]
		names[i] = n.Name
		if n.Name == name || name == "" && (n.Name == host || n.Labels[corev1.LabelHostname] == host) {
			return n, nil
		}
	}
	switch {
	case len(nodes) == 0:
		return nil, &events.Trouble{Thing: "node", Cause: errors.New("the cluster has no nodes"), Mend: "wait until this one has joined"}
	case name == "":
		return nil, &events.Trouble{
			Thing: "node", Cause: fmt.Errorf("%d nodes, none named as this host (%s)", len(nodes), host),
			Mend: "name this one with --node: " + strings.Join(names, ", "),
		}
	}
	return nil, &events.Trouble{
		Thing: "node " + name, Cause: errors.New("the cluster has no such node"),
		Mend: "name one of " + strings.Join(names, ", ") + " with --node",
	}
}
