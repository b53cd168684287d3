package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	fetchItems = 512
	fetchBytes = 4 << 20
	fetchWait  = 30 * time.Second
)

// fetch reads the records at from and after it, up to limit, as many as fit one request; none when there is none.
// It asks the stream directly: no consumer, so nothing is kept for a reader and an idle one costs nothing.
//
// Headers, which hold positions, cost more than the rest. So they are left out, and asked for again only where the
// last position says that there is a hole.
func (s *store) fetch(ctx context.Context, from, limit uint64) ([]Record, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchWait)
	defer cancel()
	recs, last, err := s.get(ctx, directGet{Seq: from, Batch: fetchItems, MaxBytes: fetchBytes, NoHeaders: true})
	if err == nil && len(recs) > 0 && last != from+uint64(len(recs))-1 {
		recs, _, err = s.get(ctx, directGet{Seq: from, Batch: fetchItems, MaxBytes: fetchBytes})
	}
	for len(recs) > 0 && recs[len(recs)-1].Seq > limit {
		recs = recs[:len(recs)-1]
	}
	return recs, err
}

// directGet is the server's request for a batch of messages; see ADR-31 of NATS.
type directGet struct {
	Seq       uint64 `json:"seq"`
	Batch     int    `json:"batch"`
	MaxBytes  int    `json:"max_bytes"`
	NoHeaders bool   `json:"no_hdr,omitempty"`
}

// get returns the records and the position of the last one, by the server's word. Without headers positions are
// counted from the one asked for.
func (s *store) get(ctx context.Context, req directGet) ([]Record, uint64, error) {
	inbox := nats.NewInbox()
	sub, err := s.conn.SubscribeSync(inbox)
	if err != nil {
		return nil, 0, fmt.Errorf("subscribe: %w", err)
	}
	defer sub.Unsubscribe()
	body, _ := json.Marshal(req)
	if err := s.conn.PublishRequest("$JS.API.DIRECT.GET."+streamName, inbox, body); err != nil {
		return nil, 0, fmt.Errorf("ask for records: %w", err)
	}
	return collect(ctx, sub, req)
}

func collect(ctx context.Context, sub *nats.Subscription, req directGet) (recs []Record, last uint64, err error) {
	for {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return nil, 0, fmt.Errorf("read records: %w", err)
		}
		switch status := m.Header.Get("Status"); status {
		case "":
		case "204": // the batch's end
			last, err := position(m, "Nats-Last-Sequence")
			return recs, last, err
		case "404": // nothing at or after the position
			return nil, 0, nil
		default:
			return nil, 0, fmt.Errorf("read records: status %s %s", status, m.Header.Get("Description"))
		}
		seq := req.Seq + uint64(len(recs))
		if !req.NoHeaders {
			if seq, err = position(m, "Nats-Sequence"); err != nil {
				return nil, 0, err
			}
		}
		recs = append(recs, Record{Seq: seq, Data: m.Data})
	}
}

func position(m *nats.Msg, header string) (uint64, error) {
	seq, err := strconv.ParseUint(m.Header.Get(header), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read records: an answer without %s", header)
	}
	return seq, nil
}
