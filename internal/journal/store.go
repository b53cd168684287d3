package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/tapedeck-io/tapedeck/internal/events"
)

// streamName is what `nats stream ls` shows when a stock server opens the folder.
const streamName = "tape"

// store is one running server and the stream in it. After a write error the server takes no more writes until it
// is started again, so a journal may go through several stores.
type store struct {
	server  *server.Server
	conn    *nats.Conn
	stream  jetstream.Stream
	acks    *nats.Subscription
	inbox   string // of acks; one token more names the message
	attempt uint64
	always  *groupSync // nil: the server syncs at its interval
}

func openStore(dir, session string, o Options) (*store, error) {
	srv, err := startServer(filepath.Join(dir, "jetstream"), o.Sync, o.Logger)
	if err != nil {
		return nil, err
	}
	s := &store{server: srv}
	if o.Sync <= 0 {
		s.always = newGroupSync(dir)
	}
	if err := s.open(session, o); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *store) open(session string, o Options) error {
	var err error
	if s.conn, err = connect(s.server); err != nil {
		return err
	}
	js, err := jetstream.New(s.conn)
	if err != nil {
		return fmt.Errorf("open JetStream: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	o, err = keepConfig(ctx, js, session, o)
	if err != nil {
		return err
	}
	if s.stream, err = js.CreateOrUpdateStream(ctx, streamConfig(session, o)); err != nil {
		return fmt.Errorf("open stream: %w", err)
	}
	s.inbox = nats.NewInbox()
	if s.acks, err = s.conn.SubscribeSync(s.inbox + ".*"); err != nil {
		return fmt.Errorf("subscribe to acknowledgements: %w", err)
	}
	return nil
}

// keepConfig takes the bounds that o does not say from the stream that is there: who opens a session only to read
// it must not retire its oldest events. A stream of another session means that the file with the id was damaged.
func keepConfig(ctx context.Context, js jetstream.JetStream, session string, o Options) (Options, error) {
	old, err := js.Stream(ctx, streamName)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
	case err != nil:
		return o, fmt.Errorf("look at stream: %w", err)
	default:
		have := old.CachedInfo().Config
		if was := have.Metadata["session"]; was != "" && was != session {
			return o, &events.Trouble{
				Thing: "the file session in the session folder",
				Cause: fmt.Errorf("%w: says %s, and the events are of %s", ErrOtherSession, session, was),
				Mend:  "write " + was + " into it",
			}
		}
		o.MaxBytes, o.MaxAge = cmp.Or(o.MaxBytes, have.MaxBytes), cmp.Or(o.MaxAge, have.MaxAge)
	}
	o.MaxBytes = cmp.Or(o.MaxBytes, DefaultMaxBytes)
	return o, nil
}

func streamConfig(session string, o Options) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:         streamName,
		Description:  "Tapedeck session " + session,
		Metadata:     map[string]string{"session": session},
		Subjects:     []string{"tape.>"},
		Retention:    jetstream.LimitsPolicy,
		Storage:      jetstream.FileStorage,
		Discard:      jetstream.DiscardOld,
		MaxBytes:     o.MaxBytes,
		MaxAge:       o.MaxAge,
		MaxMsgs:      -1,
		MaxMsgSize:   maxPayload,
		MaxConsumers: -1,
		Replicas:     1,
		Duplicates:   ackWait,
		DenyDelete:   true,
		DenyPurge:    true,
		AllowDirect:  true,
	}
}

// close returns when the server has written all it holds.
func (s *store) close() {
	if s.conn != nil {
		s.conn.Close()
	}
	stopServer(s.server)
}

func (s *store) info(ctx context.Context) (*jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, ackWait)
	defer cancel()
	info, err := s.stream.Info(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask for the stream's state: %w", err)
	}
	return info, nil
}

// last is the position of the newest event in the stream, acknowledged or not, and as safe as an acknowledged one.
func (s *store) last(ctx context.Context) (uint64, error) {
	info, err := s.info(ctx)
	if err != nil {
		return 0, err
	}
	if s.always != nil {
		if err := s.always.sync(); err != nil {
			return 0, err
		}
	}
	return info.State.LastSeq, nil
}
