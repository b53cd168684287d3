package main

import (
	"bufio"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/tapedeck-io/tapedeck/internal/cli"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/projections"
	"github.com/tapedeck-io/tapedeck/internal/replay"
	"github.com/tapedeck-io/tapedeck/internal/term"
)

func playCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "play TAPE --out DIR",
		Short: "Rewrite the files as they changed while the session was recorded",
		Long: `Rewrite the files as they changed while the session was recorded, at its pace times --speed, or one change at a
time with --step: Enter goes on, q ends there. It ends with the files that rebuild makes.`,
		Example: `  replay play incident.tape --out /tmp/then --speed 10
  replay play incident.tape --out /tmp/then --from mark:before --step`,
		Args:              oneTape,
		ValidArgsFunction: completeTape,
	}
	from := momentFlag(c, "from", "where to start: "+replay.MomentForms+" (default: the start)")
	to := momentFlag(c, "to", "where to end (default: the end)")
	out := c.Flags().String("out", "", "folder for the files")
	_ = c.MarkFlagRequired("out")
	pace := speed(1)
	c.Flags().Var(&pace, "speed", "how many times as fast as it was recorded: a number, or instant")
	idle := c.Flags().Duration("idle-time-limit", 0, "longest wait between two events (default: no limit)")
	step := c.Flags().Bool("step", false, "go one change of a file at a time")
	c.MarkFlagsMutuallyExclusive("step", "speed")
	c.RunE = func(c *cobra.Command, args []string) error {
		s, err := open(c, args[0])
		if err != nil {
			return err
		}
		defer s.Close()
		first, last, err := playSpan(c, s, from.Moment, to.Moment)
		if err != nil {
			return err
		}
		folder, err := projections.OpenFolder(*out)
		if err != nil {
			return err
		}
		defer folder.Close()
		p := replay.Play{Speed: float64(pace), IdleLimit: *idle, Show: func(files []projections.File, _ *projections.State) error { return folder.Write(files) }}
		if *step {
			p.EachChange = stepper(c)
		}
		err = s.Play(c.Context(), first, last, p)
		if errors.Is(err, replay.ErrStopped) {
			fmt.Fprintf(c.ErrOrStderr(), "stopped; files as they were then are in %s\n", *out)
			return nil
		}
		if err == nil {
			fmt.Fprintf(c.ErrOrStderr(), "files are in %s\n", *out)
		}
		return err
	}
	return c
}

func playSpan(c *cobra.Command, s *replay.Session, from, to replay.Moment) (first, last replay.Position, err error) {
	if from == (replay.Moment{}) {
		from = replay.Start
	}
	if first, err = s.Position(c.Context(), from); err != nil {
		return first, last, err
	}
	last, err = s.Position(c.Context(), to)
	if err == nil && last.Seq < first.Seq {
		err = cli.Misuse(fmt.Errorf("--from %s is after --to %s", from, to))
	}
	return first, last, err
}

// stepper prints each change and waits for Enter; q or the input's end ends the play.
func stepper(c *cobra.Command) func(*eventpb.Event, *projections.State, []replay.Change) (bool, error) {
	in := bufio.NewScanner(c.InOrStdin())
	return func(e *eventpb.Event, st *projections.State, changes []replay.Change) (bool, error) {
		w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
		fmt.Fprintf(w, "%s  seq:%d  %s\n", stamp(st.SeenNs), st.Seq, term.Printable(e.Source))
		for _, change := range changes {
			replay.WriteFields(w, change)
		}
		if err := w.Flush(); err != nil {
			return false, err
		}
		fmt.Fprint(c.ErrOrStderr(), "Enter for the next, q to end: ")
		if !in.Scan() {
			return false, in.Err()
		}
		return !strings.EqualFold(strings.TrimSpace(in.Text()), "q"), nil
	}
}

// speed is the value of --speed.
type speed float64

func (s *speed) Set(text string) error {
	if text == "instant" {
		*s = replay.Instant
		return nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || v <= 0 || v > 1e9 {
		return errors.New("want a number above 0, or instant")
	}
	*s = speed(v)
	return nil
}

func (s *speed) String() string {
	if *s == replay.Instant {
		return "instant"
	}
	return strconv.FormatFloat(float64(*s), 'g', -1, 64)
}

func (s *speed) Type() string { return "speed" }
