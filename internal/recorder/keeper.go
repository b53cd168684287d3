package recorder

import (
	"cmp"
	"sync"

	"github.com/tapedeck-io/tapedeck/internal/journal"
	"github.com/tapedeck-io/tapedeck/internal/projections"
)

// keeper writes the live fold's keyframes now and then, and one when it stops. What goes wrong is said and costs
// nothing but time: the journal has everything.
type keeper struct {
	keyframes
	spacing
	newest journal.Record // folded last
	saved  uint64         // position of the last keyframe
	busy   chan struct{}  // holds one while a keyframe is being written
	wg     sync.WaitGroup
	wait   bool // for the one before, when its time has come; else it is put off
}

func newKeeper(k keyframes, s *projections.State, least int) *keeper {
	keep := &keeper{keyframes: k, saved: s.Seq, busy: make(chan struct{}, 1)}
	keep.spacing = spacing{least: keyframeLeast, ratio: perState, every: keyframeEvery}
	if least > 0 {
		keep.spacing, keep.wait = spacing{least: least}, true
	}
	return keep
}

// folded notes a record that is in State now. Only the encoding is done at once, as State goes on; to compress and
// write it takes longer.
func (k *keeper) folded(r journal.Record, s *projections.State) {
	k.add(r)
	k.newest = r
	if !k.due(s) {
		return
	}
	if k.wait {
		k.wg.Wait()
	}
	select {
	case k.busy <- struct{}{}:
		k.write(s)
	default: // the disk is slow: later
	}
}

// last writes the State in which the recorder stops and waits until it is on the disk.
func (k *keeper) last(s *projections.State) {
	if s.Seq > k.saved && k.newest.Seq == s.Seq {
		k.busy <- struct{}{}
		k.write(s)
	}
	k.wg.Wait()
}

func (k *keeper) write(s *projections.State) {
	b, err := s.Marshal()
	id, iderr := eventID(k.newest)
	if err = cmp.Or(err, iderr); err != nil {
		k.log.Error("keyframe cannot be made", "error", err)
		<-k.busy
		return
	}
	seq := s.Seq
	k.wrote(s, len(b))
	k.saved = seq
	k.wg.Go(func() {
		if err := k.save(seq, id, b); err != nil {
			k.log.Warn("keyframe not written; the journal goes on", "error", err)
		}
		<-k.busy
	})
}
