package recorder

import (
	"context"
	"log/slog"
	"os"
	"slices"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/profile"
	"github.com/tapedeck-io/tapedeck/internal/sources"
	"github.com/tapedeck-io/tapedeck/internal/sources/agent"
	"github.com/tapedeck-io/tapedeck/internal/sources/bpfmap"
	"github.com/tapedeck-io/tapedeck/internal/sources/host"
	"github.com/tapedeck-io/tapedeck/internal/sources/hubble"
	"github.com/tapedeck-io/tapedeck/internal/sources/kube"
	"github.com/tapedeck-io/tapedeck/internal/sources/podlog"
	"github.com/tapedeck-io/tapedeck/internal/sources/probe"
)

// SourceNames are all sources, in the order in which they are checked and started.
var SourceNames = []string{"kube", "bpfmap", "agent", "hubble", "host", "podlog", "probe"}

// Aim says what to look at.
type Aim struct {
	Kubeconfig string
	Node       string
	BPFFS      string
	Hubble     string
	Agent      string
	Only       []string // names of sources; empty for all
}

// resolveNode asks Kubernetes for this node's name. Without an answer Aim stays as it is, so that the kube source
// asks again, and events carry the host's name.
func (a *Aim) resolveNode(ctx context.Context, log *slog.Logger) (eventsNode string) {
	config, err := kube.Connect(a.Kubeconfig)
	if err == nil {
		var name string
		if name, err = kube.ResolveNode(ctx, config, a.Node); err == nil {
			a.Node = name
			return name
		}
	}
	log.Warn("node's name in Kubernetes not known yet", "error", err)
	if a.Node != "" {
		return a.Node
	}
	host, _ := os.Hostname()
	return host
}

// sources makes the chosen sources. Each goes on from what the session knows already. podlog and probe look only
// at what the profile names, so there are none without one.
func (a Aim) sources(o Options, past *past) []sources.Source {
	maps, traffic, hosts := sources.NewTrigger(), sources.NewTrigger(), sources.NewTrigger()
	all := []sources.Trigger{maps, hosts}
	cluster := kube.New(kube.Config{Kubeconfig: a.Kubeconfig, Node: a.Node, Logger: o.Log, Triggers: all})
	tables := agent.New(agent.Config{Socket: a.Agent, Triggers: all, Logger: o.Log})
	list := []sources.Source{
		cluster,
		bpfmap.New(bpfmap.Config{BPFFS: a.BPFFS, Trigger: maps, Traffic: traffic, Followed: tables.Following, Logger: o.Log}),
		tables,
		hubble.New(hubble.Config{Address: a.Hubble, Triggers: []sources.Trigger{traffic, hosts}, Logger: o.Log, Resume: past.hubble}),
		host.New(a.host(o, cluster, hosts)),
	}
	if p := o.Profile; p != nil {
		ends := past.state.LogEnds() // now: State goes on in another goroutine
		list = append(list,
			&later{name: "podlog", make: func() (sources.Source, error) { return a.podlog(o, p, cluster, ends) }},
			&later{name: "probe", make: func() (sources.Source, error) { return a.probe(o, p, cluster) }},
		)
	}
	return slices.DeleteFunc(list, func(s sources.Source) bool {
		return len(a.Only) > 0 && !slices.Contains(a.Only, s.Name())
	})
}

func (a Aim) host(o Options, cluster sources.Cluster, trigger sources.Trigger) host.Config {
	c := host.Config{Cluster: cluster, Node: a.Node, BPFFS: a.BPFFS, Trigger: trigger, Logger: o.Log, All: true}
	if o.Profile != nil {
		c.Pods = []host.PodRef{{Namespace: o.Profile.Namespace, Name: o.Profile.Holder.Pod}}
		c.Select = backendOf(cluster, o.Profile)
	}
	return c
}

// backendOf selects the pods of the profile's Service, whose sockets show whom the backend sees.
func backendOf(cluster sources.Cluster, p *profile.Profile) func(*eventpb.KubeObject) bool {
	return func(pod *eventpb.KubeObject) bool {
		selector := cluster.Object(eventpb.Kind_KIND_SERVICE, p.Namespace, p.Web.Service).GetService().GetSelector()
		if pod.Namespace != p.Namespace || len(selector) == 0 {
			return false
		}
		for k, v := range selector {
			if pod.Labels[k] != v {
				return false
			}
		}
		return true
	}
}

func (a Aim) podlog(o Options, p *profile.Profile, cluster sources.Cluster, ends map[string]int64) (sources.Source, error) {
	rest, err := kube.Connect(a.Kubeconfig)
	if err != nil {
		return nil, err
	}
	return podlog.New(podlog.Config{
		Rest: rest, Cluster: cluster, Resume: func(container string) int64 { return ends[container] }, Logger: o.Log,
		Redact: o.Redact,
		Pods:   []podlog.PodRef{{Namespace: p.Namespace, Name: p.Holder.Pod}},
	}), nil
}

func (a Aim) probe(o Options, p *profile.Profile, cluster sources.Cluster) (sources.Source, error) {
	rest, err := kube.Connect(a.Kubeconfig)
	if err != nil {
		return nil, err
	}
	return probe.New(probe.Config{Rest: rest, Cluster: cluster, Profile: p, Node: a.Node, Logger: o.Log}), nil
}

// later is a source that is made, once, when it is first run: what it needs may come after the recorder started.
type later struct {
	name string
	make func() (sources.Source, error)
	made sources.Source // keeps what it remembers of earlier runs
}

func (l *later) Name() string { return l.name }

func (l *later) source() (sources.Source, error) {
	var err error
	if l.made == nil {
		l.made, err = l.make()
	}
	return l.made, err
}

func (l *later) Check(ctx context.Context) []sources.Finding {
	s, err := l.source()
	if err != nil {
		return []sources.Finding{{Thing: "API server", Err: err}}
	}
	return s.Check(ctx)
}

func (l *later) Run(ctx context.Context, emit events.Emit, ready func()) error {
	s, err := l.source()
	if err != nil {
		return err
	}
	return s.Run(ctx, emit, ready)
}
