package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/tapedeck-io/tapedeck/internal/cli"
	"github.com/tapedeck-io/tapedeck/internal/journal"
	"github.com/tapedeck-io/tapedeck/internal/recorder"
	"golang.org/x/term"
)

func runCommand() *cobra.Command {
	var o recorder.Options
	var a aimFlags
	sync := syncValue(time.Second)
	var maxBytes bytesValue
	var format string
	c := &cobra.Command{
		Use:   "run",
		Short: "Record until interrupted, and keep the files true",
		Example: `  # the lab's seven files and its report, in /root/cca-datapath
  recorder run --profile cca-datapath

  # the whole pipeline without a cluster: a tape, played in as if live
  recorder run --from-tape lab.tape --speed 20 --out /tmp/files`,
		Args: noArgs,
	}
	f := c.Flags()
	a.add(c)
	session := sessionFlag(f)
	f.StringVar(&o.Out, "out", "", "folder for the files (default: the profile's, else "+defaultOut+")")
	f.Var(&sync, "sync", "when the journal is synced to disk: what a power cut can lose")
	f.Var(&maxBytes, "max-bytes", "largest size of the session's store; at it the oldest events go (default: as the session was begun, else 16GiB)")
	f.DurationVar(&o.MaxAge, "max-age", 0, "how long events are kept (default: as the session was begun, else for good)")
	f.StringVar(&o.Listen.Address, "listen", "", "answer GET /metrics, /healthz, /session and /files/NAME on this port of loopback, or ADDRESS:PORT (default: no port is open)")
	f.StringVar(&o.Listen.TokenFile, "listen-token-file", "", "with --listen: file of the token that requests must bring (default: a new one, in the session's folder)")
	f.Var((*patternsValue)(&o.Redact), "redact", "take what matches this regular expression out of log lines, besides the built-in patterns; may be repeated")
	f.StringVar(&o.FromTape, "from-tape", "", "play this tape in instead of observing a node")
	f.Float64Var(&o.Speed, "speed", 1, "with --from-tape: times the tape's pace")
	f.IntVar(&o.Keyframes, "keyframe-bytes", 0, "what is folded between keyframes, in bytes of flows (for tests)")
	_ = f.MarkHidden("keyframe-bytes")
	f.StringVar(&format, "log-format", "text", "text or json")
	complete(c, "log-format", "text", "json")
	complete(c, "sync", "always", "1s", "1m")
	c.RunE = func(c *cobra.Command, _ []string) error {
		switch {
		case o.Speed <= 0:
			return cli.Misuse(errors.New("--speed: want more than 0"))
		case f.Changed("speed") && o.FromTape == "":
			return cli.Misuse(errors.New("--speed: goes with --from-tape"))
		case o.MaxAge < 0 || f.Changed("max-age") && o.MaxAge < time.Minute:
			return cli.Misuse(errors.New("--max-age: want 1m or more"))
		case o.Listen.TokenFile != "" && o.Listen.Address == "":
			return cli.Misuse(errors.New("--listen-token-file: goes with --listen"))
		case o.FromTape != "" && o.Out == "":
			return cli.Misuse(errors.New("--from-tape: name a folder for the files with --out"))
		case o.FromTape != "" && f.Changed("session") && journal.CheckSession(*session) == nil:
			return cli.Misuse(fmt.Errorf("--from-tape: %s has a session already; name a new folder with --session", *session))
		}
		if err := a.load(&o); err != nil {
			return err
		}
		if o.Listen.Address != "" {
			var err error
			if o.Listen.Address, err = recorder.ListenAddress(o.Listen.Address); err != nil {
				return cli.Misuse(fmt.Errorf("--listen: %w", err))
			}
		}
		o.Sync, o.MaxBytes = time.Duration(sync), int64(maxBytes)
		o.Session = *session
		if o.FromTape != "" && !f.Changed("session") {
			dir, err := os.MkdirTemp("", "tapedeck-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(dir)
			o.Session = filepath.Join(dir, "session")
		}
		o.Out = outFolder(o)
		level := slog.LevelInfo
		if term.IsTerminal(int(os.Stdout.Fd())) {
			o.Shown = newScreen(os.Stdout, o.Session, o.Out).show
			level = slog.LevelError
		}
		log, err := logger(format, level)
		if err != nil {
			return err
		}
		o.Log = log
		if err := recorder.Run(c.Context(), o); err != nil {
			return err
		}
		fmt.Fprintf(c.ErrOrStderr(), "files are in %s\n", o.Out)
		return nil
	}
	return c
}

func outFolder(o recorder.Options) string {
	switch {
	case o.Out != "":
		return o.Out
	case o.Profile != nil && o.Profile.Out != "":
		return o.Profile.Out
	}
	return defaultOut
}
