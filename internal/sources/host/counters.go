package host

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// counters are a network's TCP counters. Reading them takes a twentieth of the time that the sockets take.
type counters struct {
	// established moves when there are more or fewer connections than before, opened when some came and perhaps
	// went, carried with every segment. All three are empty when the counters cannot be read.
	established, opened, carried string
	// inuse moves with connections and listeners, waiting with sockets in TIME_WAIT.
	inuse, waiting string
}

// call says whether the sockets are to be read, when they were read last that long ago and the counters were then.
func (c counters) call(then counters, ago time.Duration) bool {
	switch {
	case c.established == "" || c.established != then.established || c.inuse != then.inuse:
		return true
	case c.opened != then.opened:
		return ago >= readSoon
	case c.carried != then.carried || c.waiting != then.waiting:
		return ago >= readLazily
	}
	return ago >= readAnyway
}

// read takes the first three anew, and returns whether it could.
func (c *counters) read(proc string, pid int) bool {
	c.established, c.opened, c.carried = "", "", ""
	snmp, err := os.ReadFile(netFile(proc, pid, "snmp"))
	if err != nil {
		return false
	}
	tcp := columns(string(snmp), "Tcp: ")
	c.established = tcp["CurrEstab"]
	c.opened = strings.Join([]string{tcp["ActiveOpens"], tcp["PassiveOpens"], tcp["AttemptFails"], tcp["EstabResets"]}, " ")
	c.carried = tcp["InSegs"] + " " + tcp["OutSegs"]
	return true
}

// readMore takes the others anew. Those that it leaves out of the same files are the whole machine's.
func (c *counters) readMore(proc string, pid int) {
	v4, _ := os.ReadFile(netFile(proc, pid, "sockstat"))
	v6, _ := os.ReadFile(netFile(proc, pid, "sockstat6")) // absent without IPv6
	tcp := pairs(string(v4), "TCP: ")
	c.inuse = tcp["inuse"] + " " + pairs(string(v6), "TCP6: ")["inuse"]
	c.waiting = tcp["tw"]
}

func netFile(proc string, pid int, name string) string {
	return filepath.Join(proc, strconv.Itoa(pid), "net", name)
}

// columns reads a line of names and a line of values, both with the prefix.
func columns(text, prefix string) map[string]string {
	var names []string
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, prefix)
		switch {
		case !ok:
		case names == nil:
			names = strings.Fields(rest)
		default:
			found := map[string]string{}
			for i, v := range strings.Fields(rest) {
				if i < len(names) {
					found[names[i]] = v
				}
			}
			return found
		}
	}
	return nil
}

// pairs reads a line with the prefix, of names each followed by its value.
func pairs(text, prefix string) map[string]string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			found := map[string]string{}
			words := strings.Fields(rest)
			for i := 1; i < len(words); i += 2 {
				found[words[i-1]] = words[i]
			}
			return found
		}
	}
	return nil
}
