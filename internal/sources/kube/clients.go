package kube

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	discoveryv1 "k8s.io/client-go/kubernetes/typed/discovery/v1"
	"k8s.io/client-go/rest"
)

// listTimeout bounds what is not a watch: a server that accepts and never answers counts as unreachable.
const listTimeout = 15 * time.Second

// clients speak to one API server over one HTTP client.
type clients struct {
	server    string
	node      string
	nodeIPs   []string
	http      *http.Client
	core      *corev1.CoreV1Client
	discovery *discoveryv1.DiscoveryV1Client
	cilium    *rest.RESTClient
}

func newClients(config *rest.Config) (*clients, error) {
	// Protobuf is a third of JSON's bytes and decodes faster; servers without it answer in JSON.
	fast := rest.CopyConfig(config)
	fast.ContentType = "application/vnd.kubernetes.protobuf"
	fast.AcceptContentTypes = fast.ContentType + ",application/json"

	c := &clients{server: config.Host}
	var err error
	if c.http, err = rest.HTTPClientFor(fast); err != nil {
		return nil, &events.Trouble{Thing: "kubeconfig of " + config.Host, Cause: err, Mend: "correct its certificates and credentials"}
	}
	if c.core, err = corev1.NewForConfigAndClient(fast, c.http); err != nil {
		return nil, fmt.Errorf("make core client: %w", err)
	}
	if c.discovery, err = discoveryv1.NewForConfigAndClient(fast, c.http); err != nil {
		return nil, fmt.Errorf("make discovery client: %w", err)
	}
	if c.cilium, err = newCiliumClient(config, c.http); err != nil {
		return nil, fmt.Errorf("make cilium client: %w", err)
	}
	return c, nil
}

func (c *clients) close() { utilnet.CloseIdleConnectionsFor(c.http.Transport) }

// version asks the server for its version, the cheapest question there is.
func (c *clients) version(ctx context.Context) ([]byte, error) {
	return c.core.RESTClient().Get().AbsPath("/version").DoRaw(ctx)
}

// trouble says of a failed request which act mends it. What is the resource's plural, or "" for the server.
func trouble(server, what string, err error) error {
	thing := "API server " + server
	switch {
	case apierrors.IsForbidden(err):
		return &events.Trouble{Thing: what + " at " + thing, Cause: err, Mend: "grant this user list and watch on " + what}
	case apierrors.IsUnauthorized(err):
		return &events.Trouble{Thing: thing, Cause: err, Mend: "renew the credentials in the kubeconfig"}
	case apierrors.ReasonForError(err) != "":
		return &events.Trouble{Thing: what + " at " + thing, Cause: err, Mend: "look into the API server's log"}
	}
	return &events.Trouble{Thing: thing, Cause: err, Mend: "start it, or correct the address and certificates in the kubeconfig"}
}
