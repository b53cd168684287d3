package main

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tapedeck-io/tapedeck/internal/cli"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/replay/explain"
)

func explainCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "explain TAPE service NAMESPACE/NAME | connection IP:PORT | port N",
		Short: "Set the views of one thing side by side, and say why they differ",
		Long: `Set side by side what the API, the agent, the maps, the node and the applications say of one thing, and say why
they differ. Every sentence names the events that it rests on (seq); what no event supports is not said, and what is
not known is listed with the source that would tell. A connection is named by its client's address.`,
		Example: `  replay explain incident.tape service shop/cart --at 10:37:06
  replay explain incident.tape connection 10.42.0.162:40404
  replay explain incident.tape port 30780 -o json`,
		Args:              func(_ *cobra.Command, args []string) error { _, err := subjectOf(args); return err },
		ValidArgsFunction: completeSubject,
	}
	at := atFlag(c)
	format := formatFlag(c, "table", "table", "json", "yaml")
	c.RunE = func(c *cobra.Command, args []string) error {
		subject, err := subjectOf(args)
		if err != nil {
			return err
		}
		s, err := open(c, args[0])
		if err != nil {
			return err
		}
		defer s.Close()
		state, _, err := stateAt(c, s, at.Moment)
		if err != nil {
			return err
		}
		e, err := explain.Of(c.Context(), s.Tape, state, subject)
		if err != nil {
			return err
		}
		if *format == "table" {
			return e.Text(c.OutOrStdout())
		}
		return printAs(c.OutOrStdout(), *format, e)
	}
	return c
}

// subjectOf reads what is to be explained.
func subjectOf(args []string) (explain.Subject, error) {
	if len(args) != 3 {
		return nil, cli.Misuse(errors.New("name one tape or session folder, and what to explain: service NAMESPACE/NAME, connection IP:PORT or port N"))
	}
	switch kind, name := args[1], args[2]; kind {
	case "service":
		namespace, short, ok := strings.Cut(name, "/")
		if !ok || namespace == "" || short == "" {
			return nil, cli.Misuse(fmt.Errorf("service %q: want NAMESPACE/NAME", name))
		}
		return explain.Service(namespace, short), nil
	case "connection":
		a, err := netip.ParseAddrPort(name)
		if err != nil {
			return nil, cli.Misuse(fmt.Errorf("connection %q: want the client's IP:PORT", name))
		}
		return explain.Connection(a), nil
	case "port":
		n, err := strconv.ParseUint(name, 10, 16)
		if err != nil || n == 0 {
			return nil, cli.Misuse(fmt.Errorf("port %q: want a number from 1 to 65535", name))
		}
		return explain.Port(uint16(n)), nil
	default:
		return nil, cli.Misuse(fmt.Errorf("cannot explain a %q: want service, connection or port", kind))
	}
}

// completeSubject offers the kinds of subjects, and the Services, clients and ports of the tape's end.
func completeSubject(c *cobra.Command, args []string, text string) ([]cobra.Completion, cobra.ShellCompDirective) {
	const plain = cobra.ShellCompDirectiveNoFileComp
	switch len(args) {
	case 1:
		return []cobra.Completion{"service", "connection", "port"}, plain
	case 2:
	default:
		return completeTape(c, args, text)
	}
	state := endOf(c.Context(), args[0])
	if state == nil {
		return nil, plain
	}
	var names []cobra.Completion
	if args[1] == "connection" {
		for _, a := range explain.Clients(state) {
			names = append(names, a.String())
		}
		return names, plain
	}
	for _, o := range state.Objects(eventpb.Kind_KIND_SERVICE) {
		switch args[1] {
		case "service":
			names = append(names, o.Namespace+"/"+o.Name)
		case "port":
			for _, p := range o.GetService().GetPorts() {
				if p.NodePort != 0 {
					names = append(names, cobra.CompletionWithDesc(strconv.Itoa(int(p.NodePort)), o.Namespace+"/"+o.Name))
				}
			}
		}
	}
	return names, plain
}
