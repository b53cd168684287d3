package host

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// These tests use the real kernel, in network namespaces of their own.

const patience = 10 * time.Second

// inNetns runs fn on a thread with a new network namespace, which ends with the thread.
func inNetns(t *testing.T, fn func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to make a network namespace")
	}
	done := make(chan bool)
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlock: the thread must not serve others
		ns, err := netns.New()
		if err != nil {
			t.Errorf("new network namespace: %v", err)
			return
		}
		defer ns.Close()
		fn()
	}()
	<-done
}

// tape collects what a running source emits.
type tape struct {
	mu     sync.Mutex
	events []*eventpb.Event
	more   chan struct{}
}

func (r *tape) emit(_ context.Context, events ...*eventpb.Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, events...)
	close(r.more)
	r.more = make(chan struct{})
	return nil
}

// wait returns the first event that fits, of those that are or come.
func (r *tape) wait(t *testing.T, what string, fits func(*eventpb.HostState) bool) *eventpb.HostState {
	t.Helper()
	deadline := time.After(patience)
	for {
		r.mu.Lock()
		events, more := r.events, r.more
		r.mu.Unlock()
		for _, e := range events {
			if e.GetHost() != nil && fits(e.GetHost()) {
				return e.GetHost()
			}
		}
		select {
		case <-more:
		case <-deadline:
			t.Errorf("%s: not seen after %v", what, patience)
			return &eventpb.HostState{}
		}
	}
}

// record runs the source in a new network namespace, and fn beside it in the same one.
func record(t *testing.T, cfg Config, fn func(r *tape)) {
	t.Helper()
	inNetns(t, func() {
		here, err := netns.Get()
		if err != nil {
			t.Error(err)
			return
		}
		defer here.Close()
		r := &tape{more: make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		ready := make(chan struct{})
		ended := make(chan error)
		go func() {
			runtime.LockOSThread()
			if err := netns.Set(here); err != nil {
				ended <- err
				return
			}
			ended <- New(cfg).Run(ctx, r.emit, func() { close(ready) })
		}()
		defer func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("run: %v", err)
			}
		}()
		select {
		case <-ready:
			fn(r)
		case <-time.After(patience):
			t.Errorf("not ready after %v", patience)
		}
	})
}

func TestFirstEventHoldsEveryTopic(t *testing.T) {
	record(t, Config{}, func(r *tape) {
		first := r.events[0].GetHost()
		if len(first.GetRuleSets()) < 2 || first.GetLinks() == nil || first.GetAttachments() == nil ||
			first.GetListeners() == nil || first.GetTcFilters() == nil || first.GetNeighbours() == nil {
			t.Errorf("first event: %v", r.events[0])
		}
		if len(r.events) != 1 {
			t.Errorf("%d events at first", len(r.events))
		}
	})
}

func TestDeviceComesAndItsPeerIsKnown(t *testing.T) {
	record(t, Config{}, func(r *tape) {
		add(t, veth("lxc1"))
		s := r.wait(t, "veth", func(s *eventpb.HostState) bool { return device(s, "lxc1") != nil && device(s, "lxc1-peer") != nil })
		lxc, peer := device(s, "lxc1"), device(s, "lxc1-peer")
		if lxc.GetType() != "veth" || lxc.GetPeerIndex() != peer.GetIndex() || lxc.GetUp() || lxc.GetMac() == "" {
			t.Errorf("%v and %v", lxc, peer)
		}
		if s.GetListeners() != nil || s.GetRuleSets() != nil {
			t.Errorf("topics that did not change: %v", s)
		}
	})
}

func TestProgramAtADeviceHasItsWholeName(t *testing.T) {
	const name = "cil_from_container_of_a_test"
	trigger := make(chan struct{}, 1)
	record(t, Config{Trigger: trigger}, func(r *tape) {
		dev := add(t, veth("lxc1"))
		for _, c := range []struct {
			attach ebpf.AttachType
			want   string
			name   string
			btf    bool
			kept   string
		}{
			{ebpf.AttachTCXIngress, "tcx/ingress", name, true, name},
			{ebpf.AttachTCXEgress, "tcx/egress", name, false, name[:15]},
		} {
			prog := load(t, ebpf.SchedCLS, c.name, c.btf)
			l, err := link.AttachTCX(link.TCXOptions{Interface: dev.Attrs().Index, Program: prog, Attach: c.attach})
			if err != nil {
				t.Errorf("attach: %v", err)
				return
			}
			defer l.Close()
			linkInfo, _ := l.Info()
			info, _ := prog.Info()
			id, _ := info.ID()
			trigger <- struct{}{}
			s := r.wait(t, c.want, func(s *eventpb.HostState) bool { return attachment(s, c.want) != nil })
			want := &eventpb.Attachment{Attach: c.want, Ifindex: int32(dev.Attrs().Index), Device: "lxc1", ProgramId: uint32(id),
				Program: c.kept, Tag: info.Tag, LinkId: uint32(linkInfo.ID)}
			if got := attachment(s, c.want); got.String() != want.String() {
				t.Errorf("got %v, want %v", got, want)
			}
		}
	})
}

// A device that lost one of its programs while the command that did it said nothing (cilium#21345), and one with a tcx
// and a classic program, of which older tools show one (bpftool#185): what there is, is told.
func TestProgramsThatAreThereAndNoOthers(t *testing.T) {
	inNetns(t, func() {
		dev := add(t, veth("lxc1"))
		prog := load(t, ebpf.SchedCLS, "cil_from_container", true)
		var egress link.Link
		for _, at := range []ebpf.AttachType{ebpf.AttachTCXIngress, ebpf.AttachTCXEgress} {
			l, err := link.AttachTCX(link.TCXOptions{Interface: dev.Attrs().Index, Program: prog, Attach: at})
			if err != nil {
				t.Error(err)
				return
			}
			defer l.Close()
			egress = l
		}
		classic(t, dev, prog)
		l := &links{}
		f := &filters{links: l}
		a := newAttachments(New(Config{}).cfg, l, f)
		hooks := func() (list []string) {
			s := &eventpb.HostState{}
			for _, look := range []looker{l, f, a} {
				if err := look.look(t.Context(), s); err != nil {
					t.Error(err)
				}
			}
			for _, at := range s.GetAttachments().GetAttachments() {
				if at.Device == "lxc1" {
					list = append(list, at.Attach)
				}
			}
			return list
		}
		if diff := cmp.Diff([]string{"tcx/ingress", "tcx/egress", "tc/ingress"}, hooks()); diff != "" {
			t.Error(diff)
		}
		egress.Close()
		if diff := cmp.Diff([]string{"tcx/ingress", "tc/ingress"}, hooks()); diff != "" {
			t.Errorf("after the egress program went: %s", diff)
		}
	})
}

func TestProgramAtACgroup(t *testing.T) {
	root := cgroup2(t)
	record(t, Config{CgroupRoot: root}, func(r *tape) {
		prog := load(t, ebpf.CGroupSockAddr, "cil_sock4_connect", true)
		l, err := link.AttachCgroup(link.CgroupOptions{Path: root, Attach: ebpf.AttachCGroupInet4Connect, Program: prog})
		if err != nil {
			t.Errorf("attach: %v", err)
			return
		}
		defer l.Close()
		info, _ := l.Info()
		s := r.wait(t, "program", func(s *eventpb.HostState) bool { return atCgroup(s, root) != nil })
		got := atCgroup(s, root)
		if got.GetProgram() != "cil_sock4_connect" || got.GetAttach() != "cgroup_inet4_connect" || got.GetIfindex() != 0 ||
			got.GetLinkId() != uint32(info.ID) || got.GetCgroupId() != cgroupID(t, root) {
			t.Errorf("got %v, link %d", got, info.ID)
		}
	})
}

// An agent in a cgroup namespace of its own attaches to a cgroup that no pod is below (cilium#13214 is about how such
// programs are not seen either): they must be told where they are, with and without a link.
func TestProgramAtAnotherCgroupThanTheRoot(t *testing.T) {
	above := cgroup2(t)
	root, other := filepath.Join(above, "root"), filepath.Join(above, "other.scope")
	for _, dir := range []string{root, other} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(dir)
	}
	prog := load(t, ebpf.CGroupSockAddr, "cil_sock4_connect", true)
	l, err := link.AttachCgroup(link.CgroupOptions{Path: other, Attach: ebpf.AttachCGroupInet4Connect, Program: prog})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir, err := os.Open(above)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	old := link.RawAttachProgramOptions{Target: int(dir.Fd()), Program: prog, Attach: ebpf.AttachCGroupInet4Connect}
	if err := link.RawAttachProgram(old); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = link.RawDetachProgram(link.RawDetachProgramOptions{Target: old.Target, Program: prog, Attach: old.Attach})
	}()

	a := newAttachments(New(Config{CgroupRoot: root}).cfg, &links{}, &filters{})
	look := func() *eventpb.HostState {
		s := &eventpb.HostState{}
		if err := a.look(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := look()
	info, _ := l.Info()
	for cgroup, linkID := range map[string]uint32{other: uint32(info.ID), above: 0} {
		got := atCgroup(s, cgroup)
		if got.GetProgramId() != programID(t, prog) || got.GetCgroupId() != cgroupID(t, cgroup) || got.GetLinkId() != linkID || got.GetProgram() != "cil_sock4_connect" {
			t.Errorf("at %s: %v, want link %d", cgroup, got, linkID)
		}
	}
	if got := atCgroup(s, root); got != nil {
		t.Errorf("at the root: %v", got)
	}

	// The agent's restart puts another program into the link.
	next := load(t, ebpf.CGroupSockAddr, "cil_sock4_connect", true)
	if err := l.Update(next); err != nil {
		t.Fatal(err)
	}
	if got := atCgroup(look(), other); got.GetProgramId() != programID(t, next) || got.GetLinkId() != uint32(info.ID) {
		t.Errorf("after an update: %v", got)
	}
	l.Close()
	if got := atCgroup(look(), other); got != nil {
		t.Errorf("after its end: %v", got)
	}
}

// Where the hierarchy is not mounted as a whole, a link still tells the cgroup's id.
func TestProgramAtACgroupThatCannotBeNamed(t *testing.T) {
	other := cgroup2(t)
	prog := load(t, ebpf.CGroupSockAddr, "cil_sock4_connect", true)
	l, err := link.AttachCgroup(link.CgroupOptions{Path: other, Attach: ebpf.AttachCGroupInet4Connect, Program: prog})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	info, _ := l.Info()
	links := &cgroupLinks{known: map[uint32]hooked{}}
	if err := links.look(); err != nil {
		t.Fatal(err)
	}
	want := &eventpb.Attachment{Attach: "cgroup_inet4_connect", CgroupId: cgroupID(t, other), ProgramId: programID(t, prog), LinkId: uint32(info.ID)}
	if got := links.at(want.CgroupId); len(got) != 1 || got[0].String() != want.String() {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestMissingCgroupIsNotAnEmptyOne(t *testing.T) {
	record(t, Config{CgroupRoot: "/nowhere"}, func(r *tape) {
		want := []string{"cgroup /nowhere: no such file or directory"}
		if diff := cmp.Diff(want, r.events[0].GetHost().GetAttachments().GetUnreadable()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestListenerComesAndGoes(t *testing.T) {
	record(t, Config{}, func(r *tape) {
		up(t, "lo")
		l, err := listenTCP(t, "127.0.0.1:30780")
		if err != nil {
			t.Error(err)
			return
		}
		want := (&eventpb.Socket{Protocol: "tcp", Local: "127.0.0.1:30780", Remote: "0.0.0.0:0", State: "LISTEN", Cookie: cookieOf(t, l.(*net.TCPListener))}).String()
		has := func(s *eventpb.HostState) bool {
			return slices.ContainsFunc(s.GetListeners().GetSockets(), func(s *eventpb.Socket) bool { return s.String() == want })
		}
		r.wait(t, "listener", has)
		r.mu.Lock()
		r.events = nil
		r.mu.Unlock()
		l.Close()
		r.wait(t, "its end", func(s *eventpb.HostState) bool { return s.Listeners != nil && !has(s) })
	})
}

// The kernel's two ways to list sockets must tell the same of IPv4, IPv6, and IPv4 within IPv6.
func TestSocketDiagnosisAgreesWithProc(t *testing.T) {
	inNetns(t, func() {
		up(t, "lo")
		for _, at := range []string{"127.0.0.1:0", "[::]:0", "[::1]:0"} {
			l, err := net.Listen("tcp", at)
			if err != nil {
				t.Error(err)
				return
			}
			defer l.Close()
			to := strings.Replace(l.Addr().String(), "[::]", "127.0.0.1", 1)
			c, err := net.Dial("tcp", to)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
		}
		diag, err := dumpSockets(anyState)
		if err != nil {
			t.Error(err)
		}
		proc, err := procSockets("/proc/thread-self/net", "tcp")
		if err != nil {
			t.Error(err)
		}
		if len(diag) != 9 {
			t.Errorf("%d sockets", len(diag))
		}
		if diff := cmp.Diff(shown(proc, 100), shown(diag, 100)); diff != "" {
			t.Error(diff)
		}
	})
}

// Session affinity names a pod by the cookie that the kernel gives its network namespace.
func TestNamespacesAreToldWithTheirOwnCookies(t *testing.T) {
	inNetns(t, func() {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
		if err != nil {
			t.Error(err)
			return
		}
		defer unix.Close(fd)
		want, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
		if err != nil {
			t.Error(err)
		}
		if _, got, err := podSockets("/proc", unix.Gettid()); got != want || err != nil {
			t.Errorf("the namespace's cookie is %d (%v), the kernel says %d", got, err, want)
		}
	})
	if got := ownCookie(); got == 0 {
		t.Error("the node's namespace has no cookie")
	}
}

// A socket's own cookie is what socket load balancing writes into its maps.
func TestSocketsAreToldWithTheirOwnCookies(t *testing.T) {
	inNetns(t, func() {
		up(t, "lo")
		for _, at := range []string{"127.0.0.1:0", "[::1]:0"} {
			l, err := listenTCP(t, at)
			if err != nil {
				t.Error(err)
				return
			}
			defer l.Close()
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			u, err := net.ListenPacket("udp", at)
			if err != nil {
				t.Error(err)
				return
			}
			defer u.Close()
			tcp, err := dumpSockets(anyState)
			if err != nil {
				t.Error(err)
			}
			udp, err := dumpUDP(anyState)
			if err != nil {
				t.Error(err)
			}
			for addr, want := range map[net.Addr]uint64{l.Addr(): cookieOf(t, l.(*net.TCPListener)), c.LocalAddr(): cookieOf(t, c.(*net.TCPConn)),
				u.LocalAddr(): cookieOf(t, u.(*net.UDPConn))} {
				i := slices.IndexFunc(append(tcp, udp...), func(s socket) bool {
					return s.protocol == addr.Network() && s.local.String() == addr.String() && (s.state != 1 || s.remote.String() == l.Addr().String())
				})
				if i < 0 || want == 0 || append(tcp, udp...)[i].cookie != want {
					t.Errorf("%v: want cookie %d of %v", addr, want, append(tcp, udp...))
				}
			}
		}
	})
}

// The kernel's two ways to list UDP sockets and ss must tell the same, and a connected one is no listener.
func TestUnconnectedUDPSocketsAreListeners(t *testing.T) {
	inNetns(t, func() {
		up(t, "lo")
		for _, at := range []string{"127.0.0.1:53", "[::]:8472", "[::1]:5353"} {
			l, err := net.ListenPacket("udp", at)
			if err != nil {
				t.Error(err)
				return
			}
			defer l.Close()
		}
		c, err := net.Dial("udp", "127.0.0.1:53")
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		diag, err := dumpUDP(1 << tcpClose)
		if err != nil {
			t.Error(err)
		}
		proc, err := inState("/proc/thread-self/net", "udp", tcpClose, nil)
		if err != nil {
			t.Error(err)
		}
		want := []string{
			"udp 127.0.0.1:53 0.0.0.0:0 UNCONN",
			"udp6 [::]:8472 [::]:0 UNCONN",
			"udp6 [::1]:5353 [::]:0 UNCONN",
		}
		for how, found := range map[string][]socket{"diagnosis": diag, "proc": proc} {
			if diff := cmp.Diff(want, shown(found, 100)); diff != "" {
				t.Errorf("%s: %s", how, diff)
			}
		}
		if ss, err := exec.LookPath("ss"); err == nil {
			text, err := exec.Command(ss, "-Huan", "state", "unconnected").Output()
			if n := strings.Count(string(text), "\n"); err != nil || n != len(want) {
				t.Errorf("ss, %v:\n%s", err, text)
			}
		}
	})
}

// A rule must be seen long before the next poll, and the save commands' own doing must not ring again.
func TestRuleComesAtOnceAndSavingDoesNotRing(t *testing.T) {
	iptables, err := exec.LookPath("iptables")
	if err != nil {
		t.Skip("iptables is not installed")
	}
	record(t, Config{}, func(r *tape) {
		if !strings.Contains(r.events[0].GetHost().GetRuleSets()[0].GetVersion(), "nf_tables") {
			return // legacy rules ring no bell
		}
		if text, err := exec.Command(iptables, "-A", "INPUT", "-p", "tcp", "--dport", "30780", "-j", "DROP").CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, text)
			return
		}
		r.wait(t, "rule", func(s *eventpb.HostState) bool {
			return len(s.RuleSets) > 0 && slices.ContainsFunc(s.RuleSets[0].Lines, func(l string) bool { return strings.Contains(l, "30780") })
		})
	})
}

func TestSavingRingsNoBell(t *testing.T) {
	inNetns(t, func() {
		b, err := listen(New(Config{}).cfg.Logger)
		if err != nil {
			t.Error(err)
			return
		}
		defer b.close()
		r := newRules(New(Config{}).cfg)
		for range 3 {
			if err := r.look(t.Context(), &eventpb.HostState{}); err != nil {
				t.Error(err)
			}
		}
		// A change by others comes after the saves' notifications, if there were any.
		s := add(t, veth("d0"))
		select {
		case <-b.route:
		case <-time.After(patience):
			t.Errorf("no bell for %s", s.Attrs().Name)
		}
		select {
		case <-b.nft:
			t.Error("saving rang")
		default:
		}
	})
}

func TestClassicFilterReadsAsTCPrintsIt(t *testing.T) {
	tc, err := exec.LookPath("tc")
	if err != nil {
		t.Skip("tc is not installed")
	}
	record(t, Config{}, func(r *tape) {
		dev := add(t, veth("eth0"))
		prog := load(t, ebpf.SchedCLS, "cil_from_netdev", true)
		classic(t, dev, prog)
		s := r.wait(t, "filter", func(s *eventpb.HostState) bool { return len(s.GetTcFilters().GetFilters()) > 0 })
		text, err := exec.Command(tc, "filter", "show", "dev", "eth0", "ingress").Output()
		if err != nil {
			t.Error(err)
			return
		}
		want := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
		got := s.GetTcFilters().GetFilters()
		if len(got) != 1 || got[0].Device != "eth0" || got[0].Direction != "ingress" {
			t.Errorf("filters %v", got)
			return
		}
		if diff := cmp.Diff(want, got[0].Lines); diff != "" {
			t.Error(diff)
		}
		found, err := listFilters([]netlink.Link{dev})
		if err != nil || len(found) != 1 {
			t.Errorf("filters by netlink: %v, %v", found, err)
			return
		}
		if diff := cmp.Diff(want, composeTC(found[0].filters)); diff != "" {
			t.Errorf("without tc: %s", diff)
		}
		r.wait(t, "its program", func(s *eventpb.HostState) bool { return attachment(s, "tc/ingress").GetProgram() == "cil_from_netdev" })
	})
}

func TestCheckSaysWhatItSees(t *testing.T) {
	inNetns(t, func() {
		up(t, "lo")
		text := ""
		for _, f := range New(Config{CgroupRoot: "/nowhere"}).Check(t.Context()) {
			if f.Err != nil {
				text += f.Thing + ": " + f.Err.Error() + "\n"
			} else {
				text += f.Thing + ": " + f.Seen + "\n"
			}
		}
		for _, want := range []string{"programs at devices: 0 programs at 0 of 1 devices\n", "listening sockets: 0\n",
			"cgroup /nowhere: cgroup /nowhere: no such file or directory; name the folder"} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in:\n%s", want, text)
			}
		}
	})
}

// Without the right to ask, "no programs" would be a lie.
func TestProgramsThatMayNotBeSeenAreNotNone(t *testing.T) {
	if os.Getenv("TAPEDECK_TEST_UNPRIVILEGED") != "" {
		s := &eventpb.HostState{}
		l, f := &links{}, &filters{}
		for _, look := range []looker{l, newAttachments(New(Config{CgroupRoot: os.Getenv("TAPEDECK_TEST_UNPRIVILEGED")}).cfg, l, f)} {
			if err := look.look(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
		if got := s.Attachments.GetUnreadable(); len(got) != 3 || !strings.Contains(strings.Join(got, "\n"), "not permitted") {
			t.Errorf("unreadable: %q", got)
		}
		return
	}
	root := cgroup2(t)
	self := exec.Command("/proc/self/exe", "-test.run=^TestProgramsThatMayNotBeSeenAreNotNone$")
	self.Env = append(os.Environ(), "TAPEDECK_TEST_UNPRIVILEGED="+root)
	self.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if text, err := self.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, text)
	}
}

// load makes a program that lets everything pass, with or without BTF.
func load(t *testing.T, kind ebpf.ProgramType, name string, withBTF bool) *ebpf.Program {
	t.Helper()
	first := asm.Mov.Imm(asm.R0, 1).WithSymbol(name)
	if withBTF {
		result := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
		first = btf.WithFuncMetadata(first, &btf.Func{Name: name, Linkage: btf.GlobalFunc,
			Type: &btf.FuncProto{Return: result, Params: []btf.FuncParam{{Name: "ctx", Type: &btf.Pointer{Target: &btf.Void{}}}}}})
	}
	spec := &ebpf.ProgramSpec{Name: name, Type: kind, Instructions: asm.Instructions{first, asm.Return()}, License: "GPL"}
	if kind == ebpf.CGroupSockAddr {
		spec.AttachType = ebpf.AttachCGroupInet4Connect
	}
	prog, err := ebpf.NewProgram(spec)
	if err != nil {
		t.Errorf("load %s: %v", name, err)
		runtime.Goexit()
	}
	t.Cleanup(func() { prog.Close() })
	return prog
}

// classic attaches a program to what comes in at a device, in the way before tcx.
func classic(t *testing.T, dev netlink.Link, prog *ebpf.Program) {
	t.Helper()
	clsact := &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: dev.Attrs().Index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}}
	filter := &netlink.BpfFilter{Fd: prog.FD(), Name: "cil_from_netdev-" + dev.Attrs().Name, DirectAction: true,
		FilterAttrs: netlink.FilterAttrs{LinkIndex: dev.Attrs().Index, Parent: netlink.HANDLE_MIN_INGRESS, Handle: 1, Protocol: unix.ETH_P_ALL, Priority: 1}}
	for _, err := range []error{netlink.QdiscAdd(clsact), netlink.FilterAdd(filter)} {
		if err != nil {
			t.Error(err)
		}
	}
}

// cgroup2 makes a cgroup of version 2.
func cgroup2(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to make a cgroup")
	}
	for _, root := range []string{"/sys/fs/cgroup/unified", "/sys/fs/cgroup"} {
		var st unix.Statfs_t
		if unix.Statfs(root, &st) == nil && uint32(st.Type) == unix.CGROUP2_SUPER_MAGIC {
			dir, err := os.MkdirTemp(root, "tapedeck-test-")
			if err != nil {
				t.Skipf("cannot make a cgroup: %v", err)
			}
			t.Cleanup(func() { os.Remove(dir) })
			return filepath.Clean(dir)
		}
	}
	t.Skip("no cgroup v2 is mounted")
	return ""
}

// listenTCP makes a plain TCP listener. Of Go's default, multipath TCP, the kernel lists the TCP socket below it, which
// has a cookie of its own.
func listenTCP(t *testing.T, at string) (net.Listener, error) {
	plain := &net.ListenConfig{}
	plain.SetMultipathTCP(false)
	return plain.Listen(t.Context(), "tcp", at)
}

// cookieOf asks a socket itself.
func cookieOf(t *testing.T, s syscall.Conn) (cookie uint64) {
	t.Helper()
	raw, err := s.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { cookie, err = unix.GetsockoptUint64(int(fd), unix.SOL_SOCKET, unix.SO_COOKIE) })
	}
	if err != nil {
		t.Error(err)
	}
	return cookie
}

func veth(name string) netlink.Link {
	return &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: name + "-peer"}
}

func add(t *testing.T, l netlink.Link) netlink.Link {
	t.Helper()
	if err := netlink.LinkAdd(l); err != nil {
		t.Errorf("add device: %v", err)
		runtime.Goexit()
	}
	made, err := netlink.LinkByName(l.Attrs().Name)
	if err != nil {
		t.Errorf("find device: %v", err)
		runtime.Goexit()
	}
	return made
}

func up(t *testing.T, name string) {
	t.Helper()
	l, err := netlink.LinkByName(name)
	if err == nil {
		err = netlink.LinkSetUp(l)
	}
	if err != nil {
		t.Errorf("set %s up: %v", name, err)
	}
}

func device(s *eventpb.HostState, name string) *eventpb.Link {
	for _, l := range s.GetLinks().GetLinks() {
		if l.Name == name {
			return l
		}
	}
	return nil
}

// cgroupID is the id that bpf_get_current_cgroup_id gives: the folder's inode.
func cgroupID(t *testing.T, dir string) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		t.Error(err)
	}
	return st.Ino
}

func atCgroup(s *eventpb.HostState, cgroup string) *eventpb.Attachment {
	for _, a := range s.GetAttachments().GetAttachments() {
		if a.Cgroup == cgroup {
			return a
		}
	}
	return nil
}

func attachment(s *eventpb.HostState, attach string) *eventpb.Attachment {
	for _, a := range s.GetAttachments().GetAttachments() {
		if a.Attach == attach {
			return a
		}
	}
	return nil
}
