package replay

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/journal"
)

// Looked is whether a source looked.
type Looked string

const (
	Seen      Looked = "seen"
	Missed    Looked = "missed"     // it looked, and did not see all
	NotLooked Looked = "not looked" // it did not run, or had not read all yet
)

// Interval is a part of a session in which a source was in one state. Times are Unix nanoseconds.
type Interval struct {
	FromNs, ToNs int64
	Looked       Looked
	Why          string
	Count        uint64 // how many facts are known to be lost
	Seq          uint64 // of the event that tells of it; 0 where none does
}

// SourceLedger is what one source saw of a session, from its first event to its last. Its intervals follow each
// other without a hole; only gaps that a source told of may overlap one another.
type SourceLedger struct {
	Source    string
	Intervals []Interval
}

// Ledger says for each source when it looked: so that "nothing happened" and "we were not looking" differ.
func (s *Session) Ledger(ctx context.Context) ([]SourceLedger, error) {
	l := &ledger{sources: map[string]*sourceBook{}}
	err := s.Tape.Read(ctx, 0, 0, func(r journal.Record) error {
		if l.first == 0 || hasField(r.Data, startField) || hasField(r.Data, statusField) || hasField(r.Data, gapField) {
			e, err := decode(r)
			if err != nil {
				return err
			}
			l.add(r.Seq, e)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	end := s.Tape.Header().LastNs
	if s.Tape.Torn() != nil {
		if at, err := s.Position(ctx, Moment{}); err == nil {
			end = at.Ns
		}
	}
	return l.end(end), nil
}

// Numbers of Event's bodies.
const (
	startField  = 16
	statusField = 17
)

type ledger struct {
	first   int64
	sources map[string]*sourceBook
}

// sourceBook is one source's intervals as they are told of.
type sourceBook struct {
	open   Interval // begun, without an end
	closed []Interval
	gaps   []Interval
}

func (l *ledger) add(seq uint64, e *eventpb.Event) {
	if l.first == 0 {
		l.first = e.SeenNs
	}
	switch b := e.Body.(type) {
	case *eventpb.Event_SessionStart:
		l.start(seq, e.SeenNs, b.SessionStart.Sources)
	case *eventpb.Event_Status:
		l.status(seq, e, b.Status)
	case *eventpb.Event_Gap:
		l.gap(seq, e.Source, b.Gap)
	}
}

func (l *ledger) book(name string) *sourceBook {
	b := l.sources[name]
	if b == nil {
		b = &sourceBook{open: Interval{FromNs: l.first, Looked: NotLooked, Why: "the source was not switched on"}}
		l.sources[name] = b
	}
	return b
}

// start is a start of the recorder, with the sources that it runs.
func (l *ledger) start(seq uint64, ns int64, sources []string) {
	for _, name := range sources {
		l.book(name).turn(Interval{FromNs: ns, Looked: NotLooked, Why: "starting: it had not read all yet", Seq: seq})
	}
	for name, b := range l.sources {
		if !slices.Contains(sources, name) {
			b.turn(Interval{FromNs: ns, Looked: NotLooked, Why: "the source was not switched on", Seq: seq})
		}
	}
}

func (l *ledger) status(seq uint64, e *eventpb.Event, b *eventpb.SourceStatus) {
	next := Interval{FromNs: e.SeenNs, Looked: NotLooked, Seq: seq}
	switch b.State {
	case eventpb.SourceState_SOURCE_STATE_UP:
		next.Looked = Seen
	case eventpb.SourceState_SOURCE_STATE_DOWN:
		next.Looked, next.Why = Missed, "down: "+b.Error
	case eventpb.SourceState_SOURCE_STATE_STOPPED:
		next.Why = "the recorder was told to stop"
	default:
		next.Why = "starting: it had not read all yet"
	}
	l.book(e.Source).turn(next)
}

// turn ends the open interval. What takes no time is left out.
func (b *sourceBook) turn(next Interval) {
	b.open.ToNs = next.FromNs
	if b.open.ToNs > b.open.FromNs {
		b.closed = append(b.closed, b.open)
	}
	b.open = next
}

// gap notes a gap. A time without a recorder is every source's; a time in which a source was down is told of twice.
func (l *ledger) gap(seq uint64, source string, g *eventpb.Gap) {
	why := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(g.Reason.String(), "GAP_REASON_")), "_", " ")
	if g.Detail != "" {
		why += ": " + g.Detail
	}
	in := Interval{FromNs: max(g.FromNs, l.first), ToNs: max(g.ToNs, l.first), Looked: Missed, Why: why, Count: g.Count, Seq: seq}
	switch g.Reason {
	case eventpb.GapReason_GAP_REASON_RESTART:
		if _, own := l.sources[source]; own {
			l.book(source).missed(in)
			return
		}
		in.Looked, in.Why = NotLooked, g.Detail
		for _, b := range l.sources {
			b.missed(in)
		}
	case eventpb.GapReason_GAP_REASON_JOURNAL:
		for _, b := range l.sources {
			b.missed(in)
		}
	default:
		if g.Reason != eventpb.GapReason_GAP_REASON_SOURCE_DOWN || !l.book(source).covers(in) {
			l.book(source).missed(in)
		}
	}
}

// covers says that the time is noted as missed already. A source is down a little before it says so.
func (b *sourceBook) covers(in Interval) bool {
	for _, c := range append(slices.Clone(b.closed), b.open) {
		if c.Looked == Missed && c.FromNs <= in.ToNs && (c.ToNs == 0 || c.ToNs >= in.FromNs) {
			return true
		}
	}
	return false
}

func (b *sourceBook) missed(in Interval) { b.gaps = append(b.gaps, in) }

// end closes the books.
func (l *ledger) end(last int64) []SourceLedger {
	var list []SourceLedger
	for _, name := range slices.Sorted(maps.Keys(l.sources)) {
		b := l.sources[name]
		b.turn(Interval{FromNs: last})
		list = append(list, SourceLedger{name, b.intervals(last)})
	}
	return list
}

// intervals cuts the gaps out of what was seen.
func (b *sourceBook) intervals(last int64) []Interval {
	rest := b.closed
	gaps := slices.SortedFunc(slices.Values(b.gaps), byTime)
	var out []Interval
	for i := range gaps {
		gaps[i].ToNs = min(gaps[i].ToNs, last)
		if gaps[i].FromNs > last {
			continue
		}
		out = append(out, gaps[i])
	}
	for _, in := range rest {
		for _, g := range gaps {
			if g.ToNs <= in.FromNs || g.FromNs >= in.ToNs {
				continue
			}
			if g.FromNs > in.FromNs {
				part := in
				part.ToNs = g.FromNs
				out = append(out, part)
			}
			in.FromNs = max(in.FromNs, g.ToNs)
		}
		if in.FromNs < in.ToNs {
			out = append(out, in)
		}
	}
	slices.SortStableFunc(out, byTime)
	return out
}

func byTime(a, b Interval) int {
	return cmp.Or(cmp.Compare(a.FromNs, b.FromNs), cmp.Compare(a.ToNs, b.ToNs))
}
