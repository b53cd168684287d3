package host

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The lines are the kernel's (Documentation/networking/proc_net_tcp.rst and a running node).
const (
	procTCP = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4026 1 0000000000000000 100 0 0 10 0
   1: 26002A0A:9DD4 09002A0A:1F90 01 00000000:00000000 02:000A8C1B 00000000     0        0 4031 2 0000000000000000 20 4 0 10 -1
   2: 26002A0A:9DD5 09002A0A:1F90 06 00000000:00000000 03:00000B8F 00000000     0        0 0 3 0000000000000000
`
	procTCP6 = `  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000000000000000000000000000:1F90 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 5026 1 0000000000000000 100 0 0 10 0
   1: 0000000000000000FFFF000009002A0A:1F90 0000000000000000FFFF000026002A0A:9DD4 01 00000000:00000000 00:00000000 00000000     0        0 5031 1 0000000000000000 20 4 0 10 -1
   2: B80D01200000000067452301EFCDAB89:01BB B80D0120000000000000000001000000:C001 08 00000000:00000000 00:00000000 00000000     0        0 5031 1 0000000000000000 20 4 0 10 -1
`
)

func TestSocketsOfProc(t *testing.T) {
	v4, err := parseProc(procTCP, "tcp", false)
	if err != nil {
		t.Fatal(err)
	}
	v6, err := parseProc(procTCP6, "tcp", true)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"tcp 10.42.0.38:40404 10.42.0.9:8080 ESTABLISHED",
		"tcp 10.42.0.38:40405 10.42.0.9:8080 TIME_WAIT",
		"tcp 127.0.0.1:8080 0.0.0.0:0 LISTEN",
		"tcp6 10.42.0.9:8080 10.42.0.38:40404 ESTABLISHED",
		"tcp6 [::]:8080 [::]:0 LISTEN",
		"tcp6 [2001:db8::123:4567:89ab:cdef]:443 [2001:db8::1]:49153 CLOSE_WAIT",
	}
	if diff := cmp.Diff(want, shown(append(v6, v4...), 100)); diff != "" {
		t.Error(diff)
	}
}

// The lines are a kernel's, as published with parsers of the file; the second address family and the closed socket
// are added as its code writes them.
func TestListenersOfSCTP(t *testing.T) {
	const text = ` ENDPT     SOCK   STY SST HBKT LPORT   UID INODE LADDRS
ffff88017e0a0200 ffff880299f7fa00 2   10  29   11165   200 299689357 10.0.0.102 10.0.0.70
       0        0 2   10  9    36412     0 465001933 2001:0db8:0000:0000:0000:0000:0000:0001
       0        0 2   7   25   38412     0 465001935 192.168.60.142
`
	dir := t.TempDir()
	if found, err := sctpListeners(dir); err != nil || found != nil {
		t.Errorf("without the module: %v, %v", found, err)
	}
	write(t, filepath.Join(dir, "sctp/eps"), text, 0o644)
	found, err := sctpListeners(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"sctp 10.0.0.70:11165  LISTEN", "sctp 10.0.0.102:11165  LISTEN", "sctp6 [2001:db8::1]:36412  LISTEN"}
	if diff := cmp.Diff(want, shown(found, 100)); diff != "" {
		t.Error(diff)
	}
	write(t, filepath.Join(dir, "sctp/eps"), strings.Replace(text, "10.0.0.70", "here", 1), 0o644)
	if found, err := sctpListeners(dir); err == nil {
		t.Errorf("foreign text: %v", found)
	}
}

func TestForeignTextIsAnErrorNotAPanic(t *testing.T) {
	for _, line := range []string{"0:", "0: 0100007F:1F90 00000000:0000", "0: 0100007F 00000000:0000 0A", "0: 01:1F90 00000000:0000 0A",
		"0: 0100007F:1F90 00000000:0000 ZZ", "0: 0100007F:11F90 00000000:0000 0A"} {
		if got, err := parseProc("heading\n"+line+"\n", "tcp", false); err == nil {
			t.Errorf("%q: %v", line, got)
		}
	}
	if _, ok := parseDiag(make([]byte, diagMessageSize-1), "tcp"); ok {
		t.Error("a short message was read")
	}
}

func TestManySocketsLeaveOutTimeWaitFirst(t *testing.T) {
	var all []socket
	for i := range uint16(10) {
		state := uint8(1)
		if i%2 == 0 {
			state = tcpTimeWait
		}
		at := netip.MustParseAddr("10.0.0.1")
		all = append(all, socket{protocol: "tcp", state: state, local: netip.AddrPortFrom(at, 80), remote: netip.AddrPortFrom(at, 1000+i)})
	}
	for limit, left := range map[int]int{100: 0, 6: 4, 3: 7} {
		kept, omitted := facts(all, limit)
		established := 0
		for _, s := range kept {
			if s.State == "ESTABLISHED" {
				established++
			}
		}
		if omitted != left || established != min(5, limit) || len(kept) != min(10, limit) {
			t.Errorf("at most %d: kept %d, %d of them established, %d left out", limit, len(kept), established, omitted)
		}
	}
}

func shown(all []socket, limit int) (lines []string) {
	kept, _ := facts(all, limit)
	for _, s := range kept {
		lines = append(lines, fmt.Sprintf("%s %s %s %s", s.Protocol, s.Local, s.Remote, s.State))
	}
	return lines
}

func FuzzProcTCP(f *testing.F) {
	f.Add(procTCP, false)
	f.Add(procTCP6, true)
	f.Fuzz(func(_ *testing.T, text string, v6 bool) {
		all, _ := parseProc(text, "tcp", v6)
		sctp, _ := parseSCTP(text)
		facts(append(all, sctp...), 10)
	})
}
