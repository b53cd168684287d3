package host

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink/nl"
)

// procSockets lists the sockets of a protocol, tcp or udp, from a folder like /proc/PID/net. It takes twice as long
// as dumpSockets, needs fewer rights, and tells no cookies.
func procSockets(dir, protocol string) ([]socket, error) {
	var list []socket
	for _, v6 := range []bool{false, true} {
		name := protocol
		if v6 {
			name += "6"
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		if os.IsNotExist(err) && v6 {
			break // a kernel without IPv6
		}
		if err != nil {
			return nil, fmt.Errorf("read sockets: %w", err)
		}
		found, err := parseProc(string(text), protocol, v6)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		list = append(list, found...)
	}
	return list, nil
}

// parseProc reads the text of /proc/net/tcp, tcp6, udp or udp6: a heading, then lines whose second to fourth columns
// are local address, remote address and state, in hexadecimal.
func parseProc(text, protocol string, v6 bool) ([]socket, error) {
	var list []socket
	for n, line := range strings.Split(text, "\n") {
		columns := strings.Fields(line)
		if n == 0 || len(columns) == 0 {
			continue
		}
		if len(columns) < 4 {
			return nil, fmt.Errorf("line %d: %d columns", n+1, len(columns))
		}
		local, err1 := parseProcAddr(columns[1])
		remote, err2 := parseProcAddr(columns[2])
		state, err3 := strconv.ParseUint(columns[3], 16, 8)
		if err1 != nil || err2 != nil || err3 != nil {
			return nil, fmt.Errorf("line %d: %q", n+1, line)
		}
		list = append(list, socket{protocol: protocol, v6: v6, state: uint8(state), local: local, remote: remote})
	}
	return list, nil
}

// parseProcAddr reads "0100007F:1F90": the address as 32-bit words in the machine's byte order.
func parseProcAddr(s string) (netip.AddrPort, error) {
	addr, port, _ := strings.Cut(s, ":")
	b, err := hex.DecodeString(addr)
	if err != nil || len(b) != 4 && len(b) != 16 {
		return netip.AddrPort{}, fmt.Errorf("address %q", s)
	}
	for i := 0; i < len(b); i += 4 {
		binary.BigEndian.PutUint32(b[i:], nl.NativeEndian().Uint32(b[i:]))
	}
	p, err := strconv.ParseUint(port, 16, 16)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("port %q", s)
	}
	return addrPort(b, []byte{byte(p >> 8), byte(p)}), nil
}
