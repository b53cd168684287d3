package recorder

import (
	"time"

	"github.com/tapedeck-io/tapedeck/internal/journal"
	"github.com/tapedeck-io/tapedeck/internal/projections"
)

// spacing says when the next keyframe is due. Near keyframes make moments open fast, and each costs room: what is to
// be folded from one to the next is at least perState times as much as the keyframe itself.
type spacing struct {
	least int // bytes of flows, or what takes as long to fold
	ratio int // to the bytes of the keyframe
	every time.Duration

	since  int // folded since the last one
	state  int // bytes of the last one
	lastNs int64
}

const (
	keyframeLeast = 16 << 20
	perState      = 4
	// A recorder writes one after that time too, so that it starts again fast, and so that there is one when the
	// events before it are retired.
	keyframeEvery = 10 * time.Minute
)

func (p *spacing) add(r journal.Record) { p.since += projections.FoldCost(r.Data) }

func (p *spacing) due(s *projections.State) bool {
	if p.since >= max(p.least, p.ratio*p.state) {
		return true
	}
	if p.lastNs == 0 {
		p.lastNs = s.SeenNs
	}
	return p.every > 0 && p.since >= p.state && s.SeenNs-p.lastNs >= p.every.Nanoseconds()
}

func (p *spacing) wrote(s *projections.State, size int) {
	p.since, p.state, p.lastNs = 0, size, s.SeenNs
}
