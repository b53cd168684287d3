package host

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"golang.org/x/sys/unix"
)

// without runs fn in a thread that has not the right, and is thrown away then.
func without(t *testing.T, right int, fn func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var data [2]unix.CapUserData
		if err := unix.Capget(&header, &data[0]); err != nil {
			t.Error(err)
		}
		if data[right/32].Effective&(1<<(right%32)) == 0 {
			t.Errorf("capability %d is not there to be taken", right)
		}
		data[right/32].Effective &^= 1 << (right % 32)
		if err := unix.Capset(&header, &data[0]); err != nil {
			t.Error(err)
		}
		fn()
	}()
	<-done
}

// A pod's process has another user, and capabilities of its own: its network is not everybody's to open or to enter.
func TestRightsThatPodsSocketsTake(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to take a right away")
	}
	other := exec.Command("sleep", "60")
	other.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, Pdeathsig: syscall.SIGKILL}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
	pid := other.Process.Pid

	want, cookie, err := podSockets("/proc", pid)
	if err != nil || cookie == 0 {
		t.Fatalf("with all rights: cookie %d, %v", cookie, err)
	}
	for right, mend := range map[int]string{unix.CAP_SYS_PTRACE: "CAP_SYS_PTRACE", unix.CAP_SYS_ADMIN: "CAP_SYS_ADMIN"} {
		without(t, right, func() {
			got, cookie, err := podSockets("/proc", pid)
			var less *cookieless
			if !errors.As(err, &less) || !strings.HasSuffix(less.trouble("pod a/b").Error(), "; give the recorder "+mend) {
				t.Errorf("without %s: %v", mend, err)
				return
			}
			if cookie != 0 || len(want) > 0 && len(got) == 0 {
				t.Errorf("without %s: %d sockets and cookie %d, want those that /proc tells", mend, len(got), cookie)
			}
		})
	}
}

// Cgroups are opened by their ids where programs stand elsewhere than at Cilium's root.
func TestRightsThatCgroupsTake(t *testing.T) {
	above := cgroup2(t)
	root, other := filepath.Join(above, "root"), filepath.Join(above, "other")
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
	s := New(Config{CgroupRoot: root})
	look := func() (*eventpb.HostState, string) {
		state := &eventpb.HostState{}
		if err := newAttachments(s.cfg, &links{}, &filters{}).look(t.Context(), state); err != nil {
			t.Error(err)
		}
		if f := s.cgroupFinding(state); f.Err != nil {
			return state, f.Err.Error()
		}
		return state, ""
	}
	if state, trouble := look(); atCgroup(state, other) == nil || trouble != "" {
		t.Errorf("with all rights: %v, %s", state.Attachments.GetUnreadable(), trouble)
	}
	without(t, unix.CAP_DAC_READ_SEARCH, func() {
		state, trouble := look()
		if !strings.HasSuffix(trouble, "; "+mendCgroups) {
			t.Errorf("without CAP_DAC_READ_SEARCH: %q", trouble)
		}
		id := cgroupID(t, other)
		if !slices.ContainsFunc(state.Attachments.Attachments, func(a *eventpb.Attachment) bool { return a.CgroupId == id }) {
			t.Error("a program whose link tells its cgroup's id is lost")
		}
	})
	without(t, unix.CAP_SYS_ADMIN, func() {
		if _, trouble := look(); !strings.HasSuffix(trouble, "; "+mendPrograms) {
			t.Errorf("without CAP_SYS_ADMIN: %q", trouble)
		}
	})
}
