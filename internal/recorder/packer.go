package recorder

import (
	"github.com/tapedeck-io/tapedeck/internal/journal"
	"github.com/tapedeck-io/tapedeck/internal/projections"
)

// Packer writes records to a tape, and between them keyframes, so that any moment of it opens fast.
type Packer struct {
	tape  *journal.TapeWriter
	state *projections.State // nil while what was known before is not
	base  *projections.State // what Resume gave, until its position comes
	spacing
}

// NewPacker makes a packer of a tape that starts with the session's first event.
func NewPacker(w *journal.TapeWriter) *Packer {
	return &Packer{tape: w, state: projections.NewState(), spacing: spacing{least: keyframeLeast, ratio: perState}}
}

// Resume says that the session's first events are gone and what is known instead: the State at a position, or nil.
func (p *Packer) Resume(base *projections.State) { p.state, p.base = nil, base }

// Write adds a record.
func (p *Packer) Write(r journal.Record) error {
	if p.base != nil && r.Seq > p.base.Seq {
		if err := p.begin(); err != nil {
			return err
		}
	}
	if err := p.tape.Write(r); err != nil || p.state == nil {
		return err
	}
	if err := p.state.ApplyRecord(r.Seq, r.Data); err != nil {
		return err
	}
	if p.add(r); p.due(p.state) {
		return p.keyframe()
	}
	return nil
}

// Finish is called after the last record. It does not close the tape.
func (p *Packer) Finish() error {
	if p.base != nil {
		return p.begin()
	}
	return nil
}

func (p *Packer) begin() error {
	p.state, p.base = p.base, nil
	return p.keyframe()
}

func (p *Packer) keyframe() error {
	b, err := p.state.Marshal()
	if err != nil {
		return err
	}
	p.wrote(p.state, len(b))
	return p.tape.Keyframe(p.state.Seq, projections.FoldVersion, b)
}
