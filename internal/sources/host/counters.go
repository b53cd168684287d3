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
	// present moves when there are more or fewer connections or listeners than before, opened when some came and
	// perhaps went, carried with every segment and with the end of a TIME_WAIT. All are empty when the counters
	// cannot be read.
	present, opened, carried string
}

// call says whether the sockets are to be read, when they were read last that long ago and the counters were then.
func (c counters) call(then counters, ago time.Duration) bool {
	switch {
	case c.present == "" || c.present != then.present:
		return true
	case c.opened != then.opened:
		return ago >= readSoon
	case c.carried != then.carried:
		return ago >= readLazily
	}
	return ago >= readAnyway
}

// readCounters reads those of a process's network. Of the other numbers in the same files some are the whole
// machine's.
func readCounters(proc string, pid int) counters {
	dir := filepath.Join(proc, strconv.Itoa(pid), "net")
	snmp, err1 := os.ReadFile(filepath.Join(dir, "snmp"))
	stat, err2 := os.ReadFile(filepath.Join(dir, "sockstat"))
	if err1 != nil || err2 != nil {
		return counters{}
	}
	stat6, _ := os.ReadFile(filepath.Join(dir, "sockstat6")) // absent without IPv6
	tcp, v4, v6 := columns(string(snmp), "Tcp: "), pairs(string(stat), "TCP: "), pairs(string(stat6), "TCP6: ")
	return counters{
		present: strings.Join([]string{tcp["CurrEstab"], v4["inuse"], v6["inuse"]}, " "),
		opened:  strings.Join([]string{tcp["ActiveOpens"], tcp["PassiveOpens"], tcp["AttemptFails"], tcp["EstabResets"]}, " "),
		carried: strings.Join([]string{tcp["InSegs"], tcp["OutSegs"], v4["tw"]}, " "),
	}
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
