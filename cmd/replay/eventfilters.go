package main

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	flowpb "github.com/cilium/cilium/api/v1/flow"
	"github.com/spf13/cobra"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/recorder"
	"github.com/tapedeck-io/tapedeck/internal/replay/facts"
)

// filterFlags gathers a filter from flags whose order matters: --not turns the one behind it into its opposite.
type filterFlags struct {
	filter facts.Filter
	not    bool
}

// filterFlag is one flag of a filter. It may be given again, and a value may be a list with commas.
type filterFlag struct {
	all *filterFlags
	add func(*facts.Filter, string) error
	typ string
}

func (f *filterFlag) String() string { return "" }
func (f *filterFlag) Type() string   { return f.typ }

func (f *filterFlag) Set(s string) error {
	into := &f.all.filter
	if f.all.not {
		f.all.not = false
		f.all.filter.Not = append(f.all.filter.Not, facts.Filter{})
		into = &f.all.filter.Not[len(f.all.filter.Not)-1]
	}
	for _, v := range strings.Split(s, ",") {
		if err := f.add(into, strings.TrimSpace(v)); err != nil {
			return err
		}
	}
	return nil
}

// notFlag is --not.
type notFlag struct{ all *filterFlags }

func (n notFlag) String() string   { return "" }
func (n notFlag) Type() string     { return "bool" }
func (n notFlag) IsBoolFlag() bool { return true }
func (n notFlag) Set(s string) error {
	on, err := strconv.ParseBool(s)
	n.all.not = on
	return err
}

func addFilterFlags(c *cobra.Command) *filterFlags {
	all, f := &filterFlags{}, c.Flags()
	flag := func(name, short, typ, usage string, add func(*facts.Filter, string) error) {
		f.VarP(&filterFlag{all, add, typ}, name, short, usage)
	}
	flag("source", "", "source", "of this source: "+strings.Join(sourceNames(), ", "), func(f *facts.Filter, s string) error {
		f.Sources = append(f.Sources, s)
		return oneOf(s, sourceNames())
	})
	flag("kind", "", "kind[:type]", "of this kind: "+strings.Join(kindNames(), ", ")+"; with a type as kube:pod, host:link or agent:frontend", func(f *facts.Filter, s string) error {
		f.Kinds = append(f.Kinds, s)
		kind, _, _ := strings.Cut(s, ":")
		return oneOf(kind, kindNames())
	})
	flag("namespace", "n", "name", "about an object of this namespace", func(f *facts.Filter, s string) error {
		f.Namespaces = append(f.Namespaces, s)
		return given(s)
	})
	flag("pod", "", "[ns/]name", "about this pod, or one of its addresses; the beginning of its name is enough", func(f *facts.Filter, s string) error {
		f.Pods = append(f.Pods, s)
		return given(s)
	})
	flag("service", "", "[ns/]name", "about this Service: the object, its frontends, its slots, its backends", func(f *facts.Filter, s string) error {
		f.Services = append(f.Services, s)
		return given(s)
	})
	flag("ip", "", "address|CIDR", "with this address, or one of this CIDR", func(f *facts.Filter, s string) error {
		p, err := parseIP(s)
		f.IPs = append(f.IPs, p)
		return err
	})
	flag("port", "", "number", "with this port", func(f *facts.Filter, s string) error {
		n, err := strconv.ParseUint(s, 10, 16)
		f.Ports = append(f.Ports, uint16(n))
		if err != nil {
			return errors.New("want a number up to 65535")
		}
		return nil
	})
	flag("map", "", "name", "of this map; * stands for any characters", func(f *facts.Filter, s string) error {
		f.Maps = append(f.Maps, s)
		return given(s)
	})
	flag("verdict", "", "verdict", "flows with this verdict: "+strings.Join(verdictNames(), ", "), func(f *facts.Filter, s string) error {
		f.Verdicts = append(f.Verdicts, s)
		return oneOf(strings.ToUpper(s), verdictNames())
	})
	f.VarPF(notFlag{all}, "not", "", "leave out what the next filter matches").NoOptDefVal = "true"
	for name, list := range map[string][]string{"source": sourceNames(), "kind": kindNames(), "verdict": verdictNames()} {
		_ = c.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp))
	}
	return all
}

func oneOf(s string, names []string) error {
	if !slices.Contains(names, s) {
		return fmt.Errorf("want one of %s", strings.Join(names, ", "))
	}
	return nil
}

func given(s string) error {
	if s == "" {
		return errors.New("want a name")
	}
	return nil
}

func parseIP(s string) (netip.Prefix, error) {
	if p, err := netip.ParsePrefix(s); err == nil {
		return p.Masked(), nil
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Prefix{}, errors.New("want an address or a CIDR")
	}
	return netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), nil
}

func sourceNames() []string {
	return append(slices.Clone(recorder.SourceNames), recorder.Self, "journal")
}

// kindNames are the names of an event's bodies.
func kindNames() []string {
	fields := (&eventpb.Event{}).ProtoReflect().Descriptor().Oneofs().ByName("body").Fields()
	names := make([]string, fields.Len())
	for i := range names {
		names[i] = string(fields.Get(i).Name())
	}
	return names
}

func verdictNames() []string {
	var names []string
	d := flowpb.Verdict(0).Descriptor().Values()
	for i := range d.Len() {
		if d.Get(i).Number() != 0 {
			names = append(names, string(d.Get(i).Name()))
		}
	}
	return names
}
