package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/tapedeck-io/tapedeck/internal/cli"
	"github.com/tapedeck-io/tapedeck/internal/profile"
	"github.com/tapedeck-io/tapedeck/internal/recorder"
)

const (
	defaultSession = "/var/lib/tapedeck/session"
	defaultOut     = "/run/tapedeck"
)

func sessionFlag(f *pflag.FlagSet) *string {
	return f.String("session", defaultSession, "folder of the session; a session that is there goes on")
}

// aimFlags say what to look at; run and check share them.
type aimFlags struct {
	profile string
	sources []string
	aim     recorder.Aim
}

func (a *aimFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&a.profile, "profile", "", "write a lab's files: the name of a profile ("+strings.Join(profile.Names(), ", ")+") or a file")
	f.StringVar(&a.aim.Kubeconfig, "kubeconfig", "", "kubeconfig file (default: $KUBECONFIG, ~/.kube/config, /etc/rancher/k3s/k3s.yaml, in-cluster)")
	f.StringVar(&a.aim.Node, "node", "", "name of this node in Kubernetes (default: $NODE_NAME, else found by host name)")
	f.StringVar(&a.aim.BPFFS, "bpffs", "/sys/fs/bpf", "BPF file system with Cilium's pinned maps")
	f.StringVar(&a.aim.Hubble, "hubble", "unix:///var/run/cilium/hubble.sock", "Hubble observer: unix://PATH or host:port")
	f.StringVar(&a.aim.Agent, "agent", "unix:///var/run/cilium/cilium.sock", "Cilium agent's API socket")
	f.StringSliceVar(&a.sources, "sources", recorder.SourceNames, "what to record from")
	complete(c, "sources", recorder.SourceNames...)
	_ = c.RegisterFlagCompletionFunc("profile", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return profile.Names(), cobra.ShellCompDirectiveDefault // files too
	})
}

// complete makes the shell offer a flag's values.
func complete(c *cobra.Command, flag string, values ...string) {
	_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// load reads the profile and checks the names of the sources.
func (a *aimFlags) load(o *recorder.Options) error {
	for _, s := range a.sources {
		if !slices.Contains(recorder.SourceNames, s) {
			return cli.Misuse(fmt.Errorf("--sources: %q is none of %s", s, strings.Join(recorder.SourceNames, ", ")))
		}
	}
	a.aim.Only = a.sources
	if a.aim.Node == "" {
		a.aim.Node = os.Getenv("NODE_NAME")
	}
	o.Aim = a.aim
	if a.profile == "" {
		return nil
	}
	p, text, err := profile.Load(a.profile)
	o.Profile, o.ProfileText = p, text
	return err
}

// syncValue is --sync: a duration, or "always".
type syncValue time.Duration

func (v *syncValue) String() string {
	if *v == 0 {
		return "always"
	}
	return time.Duration(*v).String()
}

func (v *syncValue) Set(s string) error {
	if s == "always" {
		*v = 0
		return nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return errors.New(`want "always" or a duration such as 1s`)
	}
	*v = syncValue(d)
	return nil
}

func (v *syncValue) Type() string { return "always|duration" }

func logger(format string, level slog.Level) (*slog.Logger, error) {
	o := &slog.HandlerOptions{Level: level}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(os.Stderr, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(os.Stderr, o)), nil
	}
	return nil, cli.Misuse(fmt.Errorf("--log-format: %q is neither text nor json", format))
}
