package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	ackWait     = 5 * time.Second // of one attempt
	windowItems = 512             // published before their acknowledgements are awaited
	windowBytes = 4 << 20
)

// item is one event on its way into the stream.
type item struct {
	id      string
	subject string
	data    []byte
}

// publish stores items at base+1, base+2, … and returns how many are acknowledged: the first n, always.
//
// Each message names the position before its own, and is refused when that is not the stream's last. So whatever
// is repeated, late or lost, an event is stored once and in order, or not at all.
func (s *store) publish(ctx context.Context, base uint64, items []item) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, ackWait)
	defer cancel()
	s.attempt++
	for i, it := range items {
		m := s.message(it, i)
		m.Header[hdrExpected] = []string{strconv.FormatUint(base+uint64(i), 10)}
		if err := s.conn.PublishMsg(m); err != nil {
			return 0, fmt.Errorf("publish: %w", err)
		}
	}
	n, err := s.awaitAll(ctx, base, len(items))
	if s.always != nil && n > 0 {
		if serr := s.always.sync(); serr != nil {
			return 0, serr
		}
	}
	return n, err
}

func (s *store) awaitAll(ctx context.Context, base uint64, count int) (int, error) {
	for i := range count {
		if err := s.await(ctx, i, base+uint64(i)+1); err != nil {
			return i, err
		}
	}
	return count, nil
}

const (
	hdrID       = nats.MsgIdHdr
	hdrExpected = nats.ExpectedLastSeqHdr
)

func (s *store) message(it item, i int) *nats.Msg {
	m := &nats.Msg{Subject: it.subject, Reply: s.reply(i), Data: it.data, Header: make(nats.Header, 2)}
	if it.id != "" {
		m.Header[hdrID] = []string{it.id}
	}
	return m
}

// reply names the attempt too, so that a late answer to an earlier one is not taken for this one's.
func (s *store) reply(i int) string {
	return s.replyPrefix() + strconv.Itoa(i)
}

func (s *store) replyPrefix() string {
	return s.inbox + "." + strconv.FormatUint(s.attempt, 36) + "-"
}

// await reads the answer to message i, which must say that it was stored at want. A refusal of any message of
// this attempt ends it.
func (s *store) await(ctx context.Context, i int, want uint64) error {
	for {
		m, err := s.acks.NextMsgWithContext(ctx)
		if err != nil {
			return fmt.Errorf("wait for acknowledgement: %w", err)
		}
		if !strings.HasPrefix(m.Subject, s.replyPrefix()) {
			continue
		}
		if m.Header.Get("Status") == "503" {
			return errors.New("publish: the stream does not answer")
		}
		var ack pubAck
		if err := json.Unmarshal(m.Data, &ack); err != nil {
			return fmt.Errorf("read acknowledgement: %w", err)
		}
		if done, err := ack.check(m.Subject == s.reply(i), want); done || err != nil {
			return err
		}
	}
}

type pubAck struct {
	Seq       uint64 `json:"seq"`
	Duplicate bool   `json:"duplicate"`
	Error     *struct {
		Code        int    `json:"err_code"`
		Description string `json:"description"`
	} `json:"error"`
}

// errDuplicate: the stream has an event of this id already, stored a moment ago.
var errDuplicate = errors.New("event is stored already")

func (a *pubAck) check(mine bool, want uint64) (done bool, err error) {
	switch {
	case a.Error != nil:
		return true, fmt.Errorf("publish refused: %s (%d)", a.Error.Description, a.Error.Code)
	case !mine:
		return false, nil
	case a.Duplicate:
		return true, errDuplicate
	case a.Seq != want:
		return true, fmt.Errorf("stored at %d instead of %d", a.Seq, want)
	}
	return true, nil
}
