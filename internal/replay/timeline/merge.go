package timeline

import (
	"slices"
	"time"
)

// merger joins rows that tell the same of several Services: those of one event with the same words and cause.
type merger struct {
	give func(Row) error
	held []Row
}

func (m *merger) add(r Row) error {
	if len(m.held) > 0 && r.TimeNs-m.held[0].TimeNs > time.Millisecond.Nanoseconds() {
		if err := m.flush(); err != nil {
			return err
		}
	}
	for i := range m.held {
		if h := &m.held[i]; h.same(&r) {
			h.Services = append(slices.Clone(h.Services), r.Services...)
			slices.Sort(h.Services)
			h.Services = slices.Compact(h.Services)
			return nil
		}
	}
	m.held = append(m.held, r)
	return nil
}

func (r *Row) same(o *Row) bool {
	return r.Seq == o.Seq && r.Kind == o.Kind && r.Subject == o.Subject && r.Text == o.Text &&
		len(r.Services) > 0 && len(o.Services) > 0 &&
		(r.Cause == nil) == (o.Cause == nil) && (r.Cause == nil || r.Cause.Seq == o.Cause.Seq)
}

func (m *merger) flush() error {
	for _, r := range m.held {
		if err := m.give(r); err != nil {
			return err
		}
	}
	m.held = m.held[:0]
	return nil
}
