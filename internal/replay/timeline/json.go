package timeline

import (
	"encoding/json"
	"time"
)

const stampForm = "2006-01-02T15:04:05.000000000Z"

func stamp(ns int64) string { return time.Unix(0, ns).UTC().Format(stampForm) }

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// rowJSON is a row as programs read it.
type rowJSON struct {
	Time     string   `json:"time"`
	Clock    string   `json:"clock"` // source, or recorder: then time is when it was seen
	Seen     string   `json:"seen"`
	DelayMs  *float64 `json:"delay_ms"` // since the cause
	Services []string `json:"services"`
	Kind     Kind     `json:"kind"`
	Subject  string   `json:"subject"`
	Text     string   `json:"text"`
	Seq      uint64   `json:"seq"`
	CauseSeq *uint64  `json:"cause_seq"`
}

func (r Row) json() rowJSON {
	v := rowJSON{stamp(r.TimeNs), "recorder", stamp(r.SeenNs), nil, r.Services, r.Kind, r.Subject, r.Text, r.Seq, nil}
	if r.Own {
		v.Clock = "source"
	}
	if v.Services == nil {
		v.Services = []string{}
	}
	if d, ok := r.Delay(); ok {
		ms := milliseconds(d)
		v.DelayMs, v.CauseSeq = &ms, &r.Cause.Seq
	}
	return v
}

// MarshalJSON gives time, clock, seen, delay_ms, services, kind, subject, text, seq, cause_seq.
func (r Row) MarshalJSON() ([]byte, error) { return json.Marshal(r.json()) }

// MarshalJSON gives durations in milliseconds, null where nothing was measured.
func (c Convergence) MarshalJSON() ([]byte, error) {
	v := struct {
		Service   string   `json:"service"`
		Direction string   `json:"direction"`
		Count     int      `json:"count"`
		MinMs     *float64 `json:"min_ms"`
		MedianMs  *float64 `json:"median_ms"`
		P99Ms     *float64 `json:"p99_ms"`
		MapFirst  int      `json:"map_first"`
	}{Service: c.Service, Direction: c.Direction, Count: c.Count, MapFirst: c.MapFirst}
	if c.Count > 0 {
		a, b, d := milliseconds(c.Min), milliseconds(c.Median), milliseconds(c.P99)
		v.MinMs, v.MedianMs, v.P99Ms = &a, &b, &d
	}
	return json.Marshal(v)
}
