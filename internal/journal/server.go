package journal

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

const (
	// MaxEvent is the largest event, in bytes as stored. Larger ones are refused with ErrTooBig.
	MaxEvent   = maxPayload - headerRoom
	maxPayload = 8 << 20
	headerRoom = 4 << 10

	startTimeout = 2 * time.Minute // a large store without its index is read whole
	// What the server may store in all. It must be said: left out, it is three quarters of what is free at the
	// start, and a store that filled the disk could then not be opened again.
	maxStore = 1 << 50
)

// startServer runs JetStream in this process: no listener, no signal handlers, no system account.
func startServer(dir string, sync time.Duration, log *slog.Logger) (*server.Server, error) {
	o := &server.Options{
		ServerName:         "tapedeck",
		DontListen:         true,
		NoSigs:             true,
		NoLog:              true,
		NoSystemAccount:    true,
		JetStream:          true,
		StoreDir:           dir,
		JetStreamMaxMemory: 1 << 20,
		JetStreamMaxStore:  maxStore,
		MaxPayload:         maxPayload,
		SyncInterval:       sync,      // 0, the server's default, beside groupSync
		PingInterval:       time.Hour, // the one connection is a pipe
	}
	s, err := server.NewServer(o)
	if err != nil {
		return nil, fmt.Errorf("make server: %w", err)
	}
	s.SetLoggerV2(serverLog{log}, false, false, false)
	s.Start()
	if !s.ReadyForConnections(startTimeout) || !s.JetStreamEnabled() {
		stopServer(s)
		return nil, errors.New("start server: JetStream did not come up")
	}
	return s, nil
}

// stopServer waits until the store is written: a process that leaves earlier damages it.
func stopServer(s *server.Server) {
	s.Shutdown()
	s.WaitForShutdown()
}

func connect(s *server.Server) (*nats.Conn, error) {
	nc, err := nats.Connect("", nats.InProcessServer(s), nats.NoReconnect(), nats.PingInterval(time.Hour),
		nats.Timeout(10*time.Second), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		return nil, fmt.Errorf("connect to the embedded server: %w", err)
	}
	return nc, nil
}

// serverLog passes on what the server has to say; its notices are for debugging.
type serverLog struct{ log *slog.Logger }

func (l serverLog) Noticef(f string, v ...any) { l.log.Debug(fmt.Sprintf(f, v...), "part", "nats") }
func (l serverLog) Warnf(f string, v ...any)   { l.log.Warn(fmt.Sprintf(f, v...), "part", "nats") }
func (l serverLog) Errorf(f string, v ...any)  { l.log.Error(fmt.Sprintf(f, v...), "part", "nats") }
func (l serverLog) Fatalf(f string, v ...any)  { l.log.Error(fmt.Sprintf(f, v...), "part", "nats") }
func (l serverLog) Debugf(string, ...any)      {}
func (l serverLog) Tracef(string, ...any)      {}
