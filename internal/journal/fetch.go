package journal

import (
	"context"
	"encoding/json"
	"errors"
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
func (s *store) fetch(ctx context.Context, from, limit uint64) ([]Record, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchWait)
	defer cancel()
	inbox := nats.NewInbox()
	sub, err := s.conn.SubscribeSync(inbox)
	if err != nil {
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	defer sub.Unsubscribe()
	req, _ := json.Marshal(directGet{Seq: from, Batch: fetchItems, MaxBytes: fetchBytes})
	if err := s.conn.PublishRequest("$JS.API.DIRECT.GET."+streamName, inbox, req); err != nil {
		return nil, fmt.Errorf("ask for records: %w", err)
	}
	return collect(ctx, sub, limit)
}

type directGet struct {
	Seq      uint64 `json:"seq"`
	Batch    int    `json:"batch"`
	MaxBytes int    `json:"max_bytes"`
}

func collect(ctx context.Context, sub *nats.Subscription, limit uint64) ([]Record, error) {
	var recs []Record
	for {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return nil, fmt.Errorf("read records: %w", err)
		}
		switch status := m.Header.Get("Status"); status {
		case "":
		case "204", "404": // the batch's end; nothing at or after the position
			return recs, nil
		default:
			return nil, fmt.Errorf("read records: status %s %s", status, m.Header.Get("Description"))
		}
		seq, err := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
		if err != nil {
			return nil, errors.New("read records: an answer without a position")
		}
		if seq <= limit {
			recs = append(recs, Record{Seq: seq, Data: m.Data})
		}
	}
}
