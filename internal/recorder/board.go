package recorder

import (
	"regexp"
	"slices"
	"sync"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/journal"
	"github.com/tapedeck-io/tapedeck/internal/projections"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// board holds what the live fold showed last and what it has counted since it started, for requests that come while
// it goes on.
type board struct {
	mu sync.Mutex
	shown
	events     map[eventKey]uint64
	lost       map[string]uint64  // by source
	gapSeconds map[string]float64 // by source
}

// shown is replaced as a whole and not changed.
type shown struct {
	files     map[string][]byte
	seq       uint64
	sources   []sourceShown
	findings  map[string]int // by rule, those that last
	maps      map[string]mapSize
	unwritten string // why the output folder cannot be written; "" while it can
}

type (
	eventKey    struct{ source, kind string }
	sourceShown struct{ name, status, err string }
	mapSize     struct{ entries, most uint64 }
)

func newBoard() *board {
	return &board{events: map[eventKey]uint64{}, lost: map[string]uint64{}, gapSeconds: map[string]float64{}}
}

func (b *board) look() shown {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.shown
}

func (b *board) show(files []projections.File, s *projections.State, unwritten string) {
	n := shown{files: make(map[string][]byte, len(files)), seq: s.Seq, findings: map[string]int{}, maps: map[string]mapSize{}, unwritten: unwritten}
	for _, f := range files {
		if f.Data != nil {
			n.files[f.Name] = f.Data
		}
	}
	for _, name := range SourceNames {
		if src := s.Sources[name]; src != nil {
			n.sources = append(n.sources, sourceShown{name, src.Status(), src.Error})
		}
	}
	for _, f := range s.Findings() {
		if f.EndedNs == 0 {
			n.findings[f.Rule]++
		}
	}
	for name, m := range s.Maps {
		if !m.Readable {
			continue // how many entries it has is not known
		}
		size := n.maps[family(name)]
		n.maps[family(name)] = mapSize{size.entries + uint64(len(m.Entries)), size.most + uint64(m.MaxEntries)}
	}
	b.mu.Lock()
	b.shown = n
	b.mu.Unlock()
}

var endpointNumber = regexp.MustCompile(`_\d{5}$`)

// family is a pin's name without an endpoint's number: the maps of all endpoints are one row.
func family(pin string) string { return endpointNumber.ReplaceAllString(pin, "") }

// count notes records that were folded.
func (b *board) count(batch []journal.Record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range batch {
		key := keyOf(r.Data)
		b.events[key]++
		if key.kind != "gap" {
			continue
		}
		e := &eventpb.Event{}
		if proto.Unmarshal(r.Data, e) != nil {
			continue
		}
		g := e.GetGap()
		if g.GetReason() == eventpb.GapReason_GAP_REASON_LOST {
			b.lost[key.source] += g.Count
		}
		if d := g.GetToNs() - g.GetFromNs(); d > 0 && g.GetFromNs() > 0 {
			b.gapSeconds[key.source] += float64(d) / 1e9
		}
	}
}

var bodies = (&eventpb.Event{}).ProtoReflect().Descriptor().Oneofs().ByName("body").Fields()

// keyOf reads the source and the kind off a stored event without decoding its body. A tape that is played may name
// any source: those that are no source of ours are one.
func keyOf(data []byte) eventKey {
	key := eventKey{"other", "unknown"}
	for len(data) > 0 {
		num, typ, n := protowire.ConsumeTag(data)
		if n < 0 {
			break
		}
		if num == sourceField && typ == protowire.BytesType {
			if v, m := protowire.ConsumeBytes(data[n:]); m > 0 && isSource(string(v)) {
				key.source = string(v)
			}
		}
		if body := bodies.ByNumber(num); body != nil {
			key.kind = string(body.Name())
		}
		m := protowire.ConsumeFieldValue(num, typ, data[n:])
		if m < 0 {
			break
		}
		data = data[n+m:]
	}
	return key
}

// sourceField is the number of Event.source.
const sourceField = 3

func isSource(name string) bool {
	return name == Self || name == "journal" || slices.Contains(SourceNames, name)
}
