package main

import (
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/tapedeck-io/tapedeck/internal/cli"
	"github.com/tapedeck-io/tapedeck/internal/replay"
	"github.com/tapedeck-io/tapedeck/internal/replay/facts"
)

// pickFlags pick facts: filters, a span of time, and how many.
type pickFlags struct {
	command      *cobra.Command
	filters      *filterFlags
	since, until *moment
	first, last  *uint
	names        []string
}

func addPickFlags(c *cobra.Command) *pickFlags {
	had := map[string]bool{}
	c.Flags().VisitAll(func(f *pflag.Flag) { had[f.Name] = true })
	p := &pickFlags{
		command: c,
		filters: addFilterFlags(c),
		since:   momentFlag(c, "since", "from this moment on: "+replay.MomentForms),
		until:   momentFlag(c, "until", "up to this moment, in the same forms"),
		first:   c.Flags().Uint("first", 0, "at most so many, from the first"),
		last:    c.Flags().Uint("last", 0, "at most so many, the last ones"),
	}
	c.MarkFlagsMutuallyExclusive("first", "last")
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !had[f.Name] {
			p.names = append(p.names, f.Name)
		}
	})
	return p
}

// given says whether any of the flags was.
func (p *pickFlags) given() bool {
	for _, name := range p.names {
		if p.command.Flags().Changed(name) {
			return true
		}
	}
	return false
}

// query is what the flags say, for a session.
func (p *pickFlags) query(s *replay.Session) (facts.Query, error) {
	if p.filters.not {
		return facts.Query{}, cli.Misuse(errors.New("--not stands before no filter"))
	}
	q := facts.Query{Filter: p.filters.filter, First: int(*p.first), Last: int(*p.last)}
	var err error
	q.From, q.To, err = s.Span(p.command.Context(), p.moment("since", p.since), p.moment("until", p.until))
	return q, err
}

// moment is nil when the flag was not given.
func (p *pickFlags) moment(flag string, m *moment) *replay.Moment {
	if !p.command.Flags().Changed(flag) {
		return nil
	}
	return &m.Moment
}
