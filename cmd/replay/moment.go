package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/tapedeck-io/tapedeck/internal/journal"
	"github.com/tapedeck-io/tapedeck/internal/projections"
	"github.com/tapedeck-io/tapedeck/internal/replay"
	"github.com/tapedeck-io/tapedeck/internal/term"
)

// moment is the value of --at, --from, --to, --since and --until.
type moment struct{ replay.Moment }

func (m *moment) Set(s string) (err error) {
	m.Moment, err = replay.ParseMoment(s)
	return err
}

func (m *moment) Type() string { return "moment" }

const atUsage = "the moment: " + replay.MomentForms + " (default: the end)"

// momentFlag adds a flag that takes a moment and completes the names of marks and steps.
func momentFlag(c *cobra.Command, name, usage string) *moment {
	m := &moment{}
	c.Flags().Var(m, name, usage)
	_ = c.RegisterFlagCompletionFunc(name, completeMoment)
	return m
}

// atFlag adds --at.
func atFlag(c *cobra.Command) *moment { return momentFlag(c, "at", atUsage) }

// stateAt folds up to a moment, and says what the answer may lack.
func stateAt(c *cobra.Command, s *replay.Session, m replay.Moment) (*projections.State, replay.Position, error) {
	at, err := s.Position(c.Context(), m)
	if err != nil {
		return nil, at, err
	}
	state, err := s.StateAt(c.Context(), at)
	if err != nil {
		return nil, at, err
	}
	notes, err := s.Unseen(c.Context(), at, state)
	for _, n := range notes {
		fmt.Fprintf(c.ErrOrStderr(), "replay: note at %s: %s\n", stamp(at.Ns), term.Printable(n))
	}
	if errors.Is(err, journal.ErrDamaged) {
		fmt.Fprintln(c.ErrOrStderr(), "replay: gaps that are told of later cannot be known:", err)
		err = nil
	}
	return state, at, err
}

// completeMoment offers the marks and steps of the tape that is named already, and the other forms.
func completeMoment(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var found []cobra.Completion
	if len(args) > 0 {
		if state := endOf(c.Context(), args[0]); state != nil {
			for _, m := range state.Marks {
				found = append(found, cobra.CompletionWithDesc("mark:"+term.Printable(m.Text), stamp(m.SeenNs)))
			}
			for _, step := range projections.Steps() {
				if state.StepComplete(step) {
					found = append(found, cobra.CompletionWithDesc(fmt.Sprintf("step:%d", step), "its file became complete"))
				}
			}
		}
	}
	found = append(found,
		cobra.CompletionWithDesc("seq:", "the position of an event"),
		cobra.CompletionWithDesc("+", "after the start, as in +90s"),
		cobra.CompletionWithDesc("-", "before the end, as in -30s"))
	return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveKeepOrder
}

// endOf reads a tape's last state for a completion; nil for what is no tape. A session's folder would have to be
// packed first, which is too much for a press of the tab key.
func endOf(ctx context.Context, path string) *projections.State {
	if info, err := os.Stat(path); err != nil || info.IsDir() {
		return nil
	}
	s, err := replay.Open(ctx, path)
	if err != nil {
		return nil
	}
	defer s.Close()
	state, err := s.State(ctx, replay.Moment{})
	if err != nil {
		return nil
	}
	return state
}

// completeTape offers tapes and folders for the first argument.
func completeTape(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return []cobra.Completion{"tape"}, cobra.ShellCompDirectiveFilterFileExt
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// completeTapeAndFile offers the tape's files for the second argument.
func completeTapeAndFile(c *cobra.Command, args []string, text string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) != 1 {
		return completeTape(c, args, text)
	}
	var names []cobra.Completion
	if state := endOf(c.Context(), args[0]); state != nil {
		for _, f := range state.Files() {
			names = append(names, f.Name)
		}
	}
	return slices.Sorted(slices.Values(names)), cobra.ShellCompDirectiveNoFileComp
}
