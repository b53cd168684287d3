package projections

import (
	"net/netip"
	"regexp"
	"strings"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// Log is what is known of a pod's newest container's log.
type Log struct {
	PodUID      string
	ContainerID string
	LastNs      int64  // the kubelet's stamp of the last line, where the source goes on
	Peer        string // the peer address that the app printed last, as ip:port
}

func (s *State) applyLog(b *eventpb.LogLines) {
	key := Name{b.Namespace, b.Pod}
	l := s.Logs[key]
	if l == nil || l.ContainerID != b.ContainerId {
		l = &Log{PodUID: b.PodUid, ContainerID: b.ContainerId}
		s.Logs[key] = l
	}
	for _, line := range b.Lines {
		l.LastNs = max(l.LastNs, line.TimeNs)
		if peer, ok := peerIn(line.Text); ok {
			l.Peer = peer
		}
	}
}

// forgetLogs drops the logs of pods that are gone, as a pod's name may come again.
func (s *State) forgetLogs() {
	for key, l := range s.Logs {
		if o := s.pod(key.Namespace, key.Name); o == nil || o.Uid != l.PodUID {
			delete(s.Logs, key)
		}
	}
}

// ip:port, [ip]:port, or a Python tuple ('ip', port).
var (
	addressText = regexp.MustCompile(`\[?([0-9a-fA-F:.]*[0-9a-fA-F])\]?:(\d{1,5})|\(\s*['"]([0-9a-fA-F:.]+)['"]\s*,\s*(\d{1,5})`)
	peerLabel   = regexp.MustCompile(`(?i)(peer(name)?|remote|getpeername\(\))\W{0,4}$`)
)

// peerIn finds the peer's address in a line that names it (peer=, getpeername(), remote). A local address may
// stand beside it.
func peerIn(line string) (string, bool) {
	if !strings.Contains(strings.ToLower(line), "peer") && !strings.Contains(strings.ToLower(line), "remote") {
		return "", false
	}
	for _, m := range addressText.FindAllStringSubmatchIndex(line, -1) {
		if !peerLabel.MatchString(line[:m[0]]) {
			continue
		}
		ip, port := m[2:4], m[4:6]
		if m[2] < 0 {
			ip, port = m[6:8], m[8:10]
		}
		a, err := netip.ParseAddrPort(joinHostPort(line[ip[0]:ip[1]], line[port[0]:port[1]]))
		if err == nil {
			return a.String(), true
		}
	}
	return "", false
}

func joinHostPort(ip, port string) string {
	if strings.Contains(ip, ":") {
		return "[" + ip + "]:" + port
	}
	return ip + ":" + port
}

// LogEnds returns the kubelet's stamp of the last line recorded of each container, Unix nanoseconds.
func (s *State) LogEnds() map[string]int64 {
	ends := make(map[string]int64, len(s.Logs))
	for _, l := range s.Logs {
		ends[l.ContainerID] = l.LastNs
	}
	return ends
}
