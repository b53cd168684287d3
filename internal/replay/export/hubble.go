package export

import (
	"bufio"
	"context"
	"io"

	flowpb "github.com/cilium/cilium/api/v1/flow"
	"github.com/tapedeck-io/tapedeck/internal/journal"
	"github.com/tapedeck-io/tapedeck/internal/replay/facts"
	"google.golang.org/protobuf/proto"
)

// hubbleLine is what `hubble observe --input-file` takes for one line, with its end: the buffer of its scanner.
const hubbleLine = bufio.MaxScanTokenSize

// Hubble counts what HubbleJSONL wrote.
type Hubble struct {
	Flows   int // written, those that were cut among them
	Cut     int // written without their HTTP headers, to keep to the line's length
	LeftOut int // too long even so
}

// HubbleJSONL writes the flows that the query takes, a line each, as `hubble observe -o jsonpb` prints them and
// `hubble observe --input-file` reads them.
func HubbleJSONL(ctx context.Context, w io.Writer, in journal.Reader, q facts.Query) (Hubble, error) {
	var n Hubble
	out := bufio.NewWriter(w)
	err := facts.Stream(ctx, in, q, func(f *facts.Fact, _ *facts.Book) error {
		flow := f.Flow()
		if flow == nil {
			return nil
		}
		line, cut, err := shortLine(flow)
		switch {
		case err != nil:
			return err
		case line == nil:
			n.LeftOut++
			return nil
		case cut:
			n.Cut++
		}
		n.Flows++
		_, err = out.Write(append(line, '\n'))
		return err
	})
	if err != nil {
		return n, err
	}
	return n, out.Flush()
}

// shortLine is nil for a flow that no cutting makes short enough.
func shortLine(flow *flowpb.Flow) (line []byte, cut bool, err error) {
	line, err = facts.HubbleLine(flow)
	if err != nil || len(line) < hubbleLine {
		return line, false, err
	}
	if flow.GetL7().GetHttp() == nil {
		return nil, false, nil
	}
	flow = proto.CloneOf(flow)
	flow.L7.GetHttp().Headers = nil
	line, err = facts.HubbleLine(flow)
	if err != nil || len(line) < hubbleLine {
		return line, true, err
	}
	return nil, false, nil
}
