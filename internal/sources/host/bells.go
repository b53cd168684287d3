package host

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/sources"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// bells are the kernel's notifications. They say only that it is time to look: what there is, the look finds.
type bells struct {
	route  sources.Trigger // devices, qdiscs, tc filters
	neigh  sources.Trigger // neighbours
	nft    sources.Trigger // nf_tables, which iptables-nft writes
	broken chan error

	sockets []*nl.NetlinkSocket
	wait    sync.WaitGroup

	mu     sync.Mutex
	closed bool
	lost   []*eventpb.Gap
}

// listen subscribes. A kernel without nf_tables has no nft bell; its rules are then found by polling.
func listen(log *slog.Logger) (*bells, error) {
	b := &bells{route: sources.NewTrigger(), neigh: sources.NewTrigger(), nft: sources.NewTrigger(), broken: make(chan error, 3)}
	err := b.subscribe("devices", unix.NETLINK_ROUTE, func(syscall.NetlinkMessage) { b.route.Fire() }, unix.RTNLGRP_LINK, unix.RTNLGRP_TC)
	if err != nil {
		return nil, &events.Trouble{Thing: "notifications of devices", Cause: err, Mend: "run as root or with CAP_NET_ADMIN"}
	}
	err = b.subscribe("neighbours", unix.NETLINK_ROUTE, func(syscall.NetlinkMessage) { b.neigh.Fire() }, unix.RTNLGRP_NEIGH)
	if err != nil {
		log.Warn("no notifications of neighbours, they are polled", "error", err)
	}
	err = b.subscribe("rules", unix.NETLINK_NETFILTER, b.nftMessage, unix.NFNLGRP_NFTABLES)
	if err != nil {
		log.Warn("no notifications of rules, they are polled", "error", err)
	}
	return b, nil
}

func (b *bells) subscribe(name string, protocol int, hear func(syscall.NetlinkMessage), groups ...uint) error {
	s, err := nl.Subscribe(protocol, groups...)
	if err != nil {
		return err
	}
	b.sockets = append(b.sockets, s)
	b.wait.Go(func() {
		for {
			messages, _, err := s.Receive()
			switch {
			case errors.Is(err, unix.ENOBUFS):
				b.overrun(name)
			case errors.Is(err, unix.EINTR), errors.Is(err, syscall.EINVAL):
				// A message that cannot be taken apart still says that something changed.
				hear(syscall.NetlinkMessage{})
			case err != nil:
				b.failed(fmt.Errorf("receive notifications of %s: %w", name, err))
				return
			}
			for _, m := range messages {
				hear(m)
			}
		}
	})
	return nil
}

// nftMessage rings at the end of a transaction. A save command may itself make one (it creates the tables that
// it finds missing), which must not lead to the next save.
func (b *bells) nftMessage(m syscall.NetlinkMessage) {
	if m.Header.Type != unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWGEN && m.Header.Type != 0 {
		return
	}
	if !strings.HasSuffix(generationBy(m.Data), "-save") {
		b.nft.Fire()
	}
}

// generationBy is the name of the program that made a new generation of rules; empty when not told.
func generationBy(data []byte) string {
	const nfgenmsg = 4
	if len(data) < nfgenmsg {
		return ""
	}
	// Attributes are length (with these four bytes), type, value; padded to four bytes.
	for data = data[nfgenmsg:]; len(data) >= unix.SizeofNlAttr; {
		size := int(nl.NativeEndian().Uint16(data))
		if size < unix.SizeofNlAttr || size > len(data) {
			return ""
		}
		if nl.NativeEndian().Uint16(data[2:]) == unix.NFTA_GEN_PROC_NAME {
			name, _, _ := bytes.Cut(data[unix.SizeofNlAttr:size], []byte{0})
			return string(name)
		}
		data = data[min((size+3)&^3, len(data)):]
	}
	return ""
}

// overrun notes that the kernel dropped notifications: what came and went in between is not known.
func (b *bells) overrun(name string) {
	now, detail := time.Now().UnixNano(), "the kernel dropped notifications of "+name
	b.mu.Lock()
	if i := slices.IndexFunc(b.lost, func(g *eventpb.Gap) bool { return g.Detail == detail }); i >= 0 {
		b.lost[i].ToNs = now
	} else {
		b.lost = append(b.lost, &eventpb.Gap{FromNs: now, ToNs: now, Reason: eventpb.GapReason_GAP_REASON_LOST, Detail: detail})
	}
	b.mu.Unlock()
	b.route.Fire()
	b.neigh.Fire()
	b.nft.Fire()
}

// gaps returns what was lost since the last call.
func (b *bells) gaps() []*eventpb.Gap {
	b.mu.Lock()
	defer b.mu.Unlock()
	lost := b.lost
	b.lost = nil
	return lost
}

func (b *bells) failed(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.broken <- err
	}
}

// close ends the subscriptions and waits for their goroutines.
func (b *bells) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	for _, s := range b.sockets {
		_ = s.Close()
	}
	b.wait.Wait()
}
