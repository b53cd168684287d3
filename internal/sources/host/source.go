// Package host watches what decides about connections outside Kubernetes and the agent: packet filter rules,
// devices, neighbours, the programs attached to devices and cgroups, listening sockets, and the sockets inside pods.
//
//	netlink bells, trigger, cluster ─ring─▶ schedule ─look─▶ topics ─what changed─▶ one HostState event
//
// Each topic is one file: rules.go, links.go, neighbours.go, filters.go, attachments.go, listeners.go, pods.go.
package host

import (
	"context"
	"log/slog"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/sources"
)

// Config says where to look. The zero value of a path is the path on a usual node.
type Config struct {
	// Cluster knows the pods. Without it no pod's sockets are recorded.
	Cluster sources.Cluster
	// Node is this node's name: pods of other nodes have no process here. Empty looks for all.
	Node string
	// Pods and Select say whose sockets are recorded: those named and those selected; with All every pod's, these at
	// once and the others in a calmer rhythm. Pods with the node's own network are left out, their sockets are the
	// node's.
	Pods   []PodRef
	Select func(*eventpb.KubeObject) bool
	All    bool

	BPFFS      string // /sys/fs/bpf
	CgroupRoot string // /run/cilium/cgroupv2, where socket load balancing attaches
	Proc       string // /proc, of the node's process namespace

	Logger *slog.Logger
	// Trigger asks for a look at the sockets and programs now.
	Trigger sources.Trigger
}

// PodRef names one pod.
type PodRef struct{ Namespace, Name string }

// Source is the host source.
type Source struct{ cfg Config }

// New returns the source. It touches nothing yet.
func New(cfg Config) *Source {
	cfg.BPFFS = orDefault(cfg.BPFFS, "/sys/fs/bpf")
	cfg.CgroupRoot = orDefault(cfg.CgroupRoot, "/run/cilium/cgroupv2")
	cfg.Proc = orDefault(cfg.Proc, "/proc")
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Source{cfg: cfg}
}

func orDefault(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

func (s *Source) Name() string { return "host" }

// Run emits every topic at once, then each topic whole when it changes.
func (s *Source) Run(ctx context.Context, emit events.Emit, ready func()) error {
	bells, err := listen(s.cfg.Logger)
	if err != nil {
		return err
	}
	defer bells.close()
	r := newRun(s.cfg, bells)
	return r.loop(ctx, emit, ready)
}
