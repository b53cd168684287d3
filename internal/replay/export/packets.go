package export

import (
	"io"
	"unicode/utf8"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// Field numbers of Perfetto's published schema: protos/perfetto/trace/trace.proto, trace_packet.proto,
// clock_snapshot.proto, track_event/track_descriptor.proto, track_event.proto and debug_annotation.proto.
const (
	tracePacket = 1

	packetClockSnapshot = 6
	packetTimestamp     = 8
	packetSequence      = 10
	packetTrackEvent    = 11
	packetSequenceFlags = 13
	packetClockID       = 58
	packetTrack         = 60

	snapshotClocks  = 1
	snapshotPrimary = 2
	clockID         = 1
	clockTimestamp  = 2

	trackUUID   = 1
	trackName   = 2
	trackParent = 5

	eventAnnotations = 4
	eventType        = 9
	eventTrack       = 11
	eventCategories  = 22
	eventName        = 23

	annotationUint   = 3
	annotationString = 6
	annotationName   = 10
)

// Values of its enums.
const (
	clockRealtime  = 1
	clockMonotonic = 3
	clockBoottime  = 6

	typeSliceBegin = 1
	typeSliceEnd   = 2
	typeInstant    = 3

	sequenceCleared = 1
)

// packets writes TracePackets, all of one sequence and by the wall clock.
type packets struct {
	out    io.Writer
	tracks map[string]uint64
	err    error
}

func (p *packets) write(m pbuf) {
	if p.err != nil {
		return
	}
	var b pbuf
	b.message(tracePacket, m)
	_, p.err = p.out.Write(b)
}

// clocks makes the wall clock the trace's own, and tells what the node's other clocks showed.
func (p *packets) clocks(c *eventpb.TapeClocks, startNs int64) {
	var snapshot, packet pbuf
	add := func(id uint64, ns int64) {
		if ns <= 0 {
			return
		}
		var clock pbuf
		clock.uint(clockID, id)
		clock.uint(clockTimestamp, uint64(ns))
		snapshot.message(snapshotClocks, clock)
	}
	if c.GetWallNs() > 0 {
		startNs = c.GetWallNs()
		add(clockMonotonic, c.GetMonotonicNs())
		add(clockBoottime, c.GetBoottimeNs())
	}
	add(clockRealtime, startNs)
	snapshot.uint(snapshotPrimary, clockRealtime)
	packet.message(packetClockSnapshot, snapshot)
	packet.uint(packetSequence, 1)
	packet.uint(packetSequenceFlags, sequenceCleared)
	p.write(packet)
}

// track is the id of a track below parent, which is 0 for none; it is described when first asked for.
func (p *packets) track(parent uint64, name string) uint64 {
	key := string(pbufOf(parent)) + name
	if id := p.tracks[key]; id != 0 {
		return id
	}
	id := uint64(len(p.tracks)) + 1
	p.tracks[key] = id
	var track, packet pbuf
	track.uint(trackUUID, id)
	track.text(trackName, valid(name))
	if parent != 0 {
		track.uint(trackParent, parent)
	}
	packet.message(packetTrack, track)
	packet.uint(packetSequence, 1)
	p.write(packet)
	return id
}

func pbufOf(id uint64) (b pbuf) {
	b.uint(1, id)
	return b
}

// note is an event's annotation: text, or a number where the text is empty.
type note struct {
	name, text string
	number     uint64
}

// event writes a slice's begin or end, or an instant.
func (p *packets) event(ns int64, typ, track uint64, category, name string, notes ...note) {
	var e, packet pbuf
	for _, n := range notes {
		var a pbuf
		if n.text != "" {
			a.text(annotationString, valid(n.text))
		} else {
			a.uint(annotationUint, n.number)
		}
		a.text(annotationName, n.name)
		e.message(eventAnnotations, a)
	}
	e.uint(eventType, typ)
	e.uint(eventTrack, track)
	if typ != typeSliceEnd {
		e.text(eventCategories, category)
		e.text(eventName, valid(name))
	}
	packet.uint(packetTimestamp, uint64(max(ns, 0)))
	packet.uint(packetSequence, 1)
	packet.message(packetTrackEvent, e)
	packet.uint(packetClockID, clockRealtime)
	p.write(packet)
}

// valid keeps what is no UTF-8 out of strings: a reader would refuse the whole packet.
func valid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}
