package host

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// sctpListeners lists SCTP sockets that listen, one for each address, from a folder like /proc/PID/net. There are
// none before the kernel's module is loaded.
func sctpListeners(dir string) ([]socket, error) {
	text, err := os.ReadFile(filepath.Join(dir, "sctp/eps"))
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read SCTP sockets: %w", err)
	}
	found, err := parseSCTP(string(text))
	if err != nil {
		return nil, fmt.Errorf("read SCTP sockets: %w", err)
	}
	return slices.DeleteFunc(found, func(s socket) bool { return s.state != tcpListen }), nil
}

// parseSCTP reads the text of /proc/net/sctp/eps: a heading, then lines of ENDPT, SOCK, STY, SST (the state), HBKT,
// LPORT, UID, INODE and the local addresses, which are written out.
func parseSCTP(text string) (list []socket, err error) {
	const state, port, addresses = 3, 5, 8
	for n, line := range strings.Split(text, "\n") {
		columns := strings.Fields(line)
		if n == 0 || len(columns) == 0 {
			continue
		}
		if len(columns) < addresses {
			return nil, fmt.Errorf("line %d: %d columns", n+1, len(columns))
		}
		s, err1 := strconv.ParseUint(columns[state], 10, 8)
		p, err2 := strconv.ParseUint(columns[port], 10, 16)
		for _, text := range columns[addresses:] {
			a, err3 := netip.ParseAddr(text)
			if err1 != nil || err2 != nil || err3 != nil {
				return nil, fmt.Errorf("line %d: %q", n+1, line)
			}
			list = append(list, socket{protocol: "sctp", v6: a.Is6(), state: uint8(s), local: netip.AddrPortFrom(a, uint16(p))})
		}
	}
	return list, nil
}
