package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tapedeck-io/tapedeck/internal/cli"
	"github.com/tapedeck-io/tapedeck/internal/projections"
	"github.com/tapedeck-io/tapedeck/internal/replay"
)

func findingsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "findings TAPE",
		Short: "List what was found to be wrong with the service datapath, and what it means",
		Long: `List what was found to be wrong with the service datapath up to a moment: what lasts then, and what had ended. Of each:
when it was first the case, when it had lasted long enough to be told, when it ended, the events that it rests on,
what it means for connections and what to do. A filter given again, or with commas, takes either; different filters
must all match.

Exit code 0: nothing of level error that is listed lasts at that moment, 1: something does, 2: misused. What has
ended, and warnings, are listed and change no exit code.`,
		Example: `  replay findings incident.tape --at 10:37:06
  replay findings incident.tape --subject shop/cart --level error
  replay findings incident.tape --rule stale-backend,missing-backend -o jsonl`,
		Args:              oneTape,
		ValidArgsFunction: completeTape,
	}
	at := atFlag(c)
	selected := findingFlags(c)
	form := formatFlag(c, "table", "table", "json", "jsonl", "yaml")
	c.RunE = func(c *cobra.Command, args []string) error {
		s, err := open(c, args[0])
		if err != nil {
			return err
		}
		defer s.Close()
		take, err := selected(s)
		if err != nil {
			return err
		}
		state, _, err := stateAt(c, s, at.Moment)
		if err != nil {
			return err
		}
		list := slices.DeleteFunc(state.Findings(), func(f *projections.Finding) bool { return !take(f) })
		err = printFindings(c.OutOrStdout(), *form, state, list)
		if err == nil && slices.ContainsFunc(list, func(f *projections.Finding) bool { return f.Lasts() && f.Level() == projections.LevelError }) {
			err = cli.ErrFound
		}
		return err
	}
	return c
}

// findingFlags adds the flags that select findings, and returns what makes a filter of them.
func findingFlags(c *cobra.Command) func(*replay.Session) (func(*projections.Finding) bool, error) {
	rules := c.Flags().StringSlice("rule", nil, "of this rule: "+strings.Join(projections.RuleNames(), ", "))
	levels := []string{projections.LevelError, projections.LevelWarning, projections.LevelInfo}
	level := c.Flags().StringSlice("level", nil, "of this level: "+strings.Join(levels, ", "))
	subjects := c.Flags().StringArray("subject", nil, "about this address, port, Service, pod or other name, whole, in the subject or the text")
	since := momentFlag(c, "since", "that lasted at this moment, or came after it: "+replay.MomentForms)
	lasting := c.Flags().Bool("open", false, "that last at the moment of --at")
	complete := func(flag string, names []string) {
		_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
	}
	complete("rule", projections.RuleNames())
	complete("level", levels)
	return func(s *replay.Session) (func(*projections.Finding) bool, error) {
		for _, r := range *rules {
			if err := oneOf(r, projections.RuleNames()); err != nil {
				return nil, cli.Misuse(fmt.Errorf("--rule %q: %w", r, err))
			}
		}
		for _, l := range *level {
			if err := oneOf(l, levels); err != nil {
				return nil, cli.Misuse(fmt.Errorf("--level %q: %w", l, err))
			}
		}
		sinceNs := int64(0)
		if c.Flags().Changed("since") {
			at, err := s.Position(c.Context(), since.Moment)
			if err != nil {
				return nil, fmt.Errorf("--since: %w", err)
			}
			sinceNs = at.Ns
		}
		return func(f *projections.Finding) bool {
			return (len(*rules) == 0 || slices.Contains(*rules, f.Rule)) && (len(*level) == 0 || slices.Contains(*level, f.Level())) &&
				(len(*subjects) == 0 || slices.ContainsFunc(*subjects, f.Names)) &&
				(f.Lasts() || !*lasting && f.EndedNs >= sinceNs)
		}, nil
	}
}

func printFindings(w io.Writer, form string, state *projections.State, list []*projections.Finding) error {
	if form == "table" {
		return findingsTable(w, state, list)
	}
	v := state.FindingsFile(list)
	if form == "jsonl" {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		for _, r := range slices.Concat(v.Open, v.Ended) {
			if err := e.Encode(r); err != nil {
				return err
			}
		}
		return nil
	}
	return printAs(w, form, v)
}
