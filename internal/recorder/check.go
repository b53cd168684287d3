package recorder

import (
	"context"
	"fmt"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/projections"
	"github.com/tapedeck-io/tapedeck/internal/sources"
)

const checkTimeout = 10 * time.Second

// Checked is one finding and the source it is of.
type Checked struct {
	Source string
	sources.Finding
}

// Check tries what a run with these options would need.
func Check(ctx context.Context, o Options) []Checked {
	list := []Checked{
		{Self, checkFolder("output folder "+o.Out, o.Out, "--out")},
		{Self, checkFolder("session folder "+o.Session, o.Session, "--session")},
	}
	for _, s := range o.Aim.sources(o, &past{state: projections.NewState()}) {
		list = append(list, checkSource(ctx, s)...)
	}
	return list
}

func checkSource(ctx context.Context, s sources.Source) []Checked {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	var list []Checked
	for _, f := range s.Check(ctx) {
		list = append(list, Checked{s.Name(), f})
	}
	if len(list) == 0 {
		list = append(list, Checked{s.Name(), sources.Finding{Thing: s.Name(), Err: fmt.Errorf("not checked: %w", ctx.Err())}})
	}
	return list
}

func checkFolder(thing, dir, flag string) sources.Finding {
	f := sources.Finding{Thing: thing, Seen: "can be written"}
	if err := projections.CheckFolder(dir); err != nil {
		f.Err = &events.Trouble{Thing: thing, Cause: events.Cause(err), Mend: "name one that can be written with " + flag}
	}
	return f
}
