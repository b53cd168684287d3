package bpfmap

import (
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/sources/sourcetest"
	"golang.org/x/sys/unix"
)

func output(t *testing.T, name string, args ...string) []byte {
	t.Helper()
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		t.Fatalf("%s %s: %v", name, strings.Join(args, " "), err)
	}
	return out
}

func TestLabCheck(t *testing.T) {
	sourcetest.NeedLab(t)
	for _, f := range New(Config{}).Check(t.Context()) {
		if f.Err != nil {
			t.Errorf("%s: %v", f.Thing, f.Err)
		}
		t.Logf("%s: %s", f.Thing, f.Seen)
	}
}

// frontends are the entries of the services map as `cilium-dbg bpf lb list` names them.
func (r *replica) frontends() []string {
	var names []string
	for key, value := range r.maps[svcName] {
		if s, err := cilium.DecodeService([]byte(key), []byte(value)); err == nil {
			names = append(names, s.String())
		}
	}
	slices.Sort(names)
	return names
}

// TestLabServices: on a real node readers know the frontends that cilium-dbg lists, also after a Service came and
// after it went.
func TestLabServices(t *testing.T) {
	sourcetest.NeedLab(t)
	const namespace, address = "t-bpfmap", "10.43.77.77"
	r := newReplica()
	start(t, Config{}, r)
	listed := func() []string {
		var list map[string][]string
		if err := json.Unmarshal(output(t, "cilium-dbg", "bpf", "lb", "list", "-o", "json"), &list); err != nil {
			t.Fatal(err)
		}
		return slices.Sorted(maps.Keys(list))
	}
	agree := func(when string, there bool) {
		r.expect(t, when, func(r *replica) bool {
			return slices.ContainsFunc(r.frontends(), func(s string) bool { return strings.HasPrefix(s, address+":") }) == there
		})
		for range 20 { // others may change Services between the two looks
			want := listed()
			r.mu.Lock()
			got := r.frontends()
			r.mu.Unlock()
			if slices.Equal(want, got) {
				return
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Logf("%s (-cilium-dbg +events):\n%s", when, diff)
			}
		}
		t.Errorf("%s: never the same", when)
	}
	agree("at the start", false)
	t.Cleanup(func() { _ = exec.Command("kubectl", "delete", "namespace", namespace, "--wait=false").Run() })
	output(t, "kubectl", "create", "namespace", namespace)
	output(t, "kubectl", "-n", namespace, "create", "service", "clusterip", "one", "--clusterip="+address, "--tcp=80:8080")
	agree("after a Service came", true)
	output(t, "kubectl", "-n", namespace, "delete", "service", "one")
	agree("after it went", false)
	if len(r.problems) > 0 {
		t.Error(r.problems)
	}
}

// TestLabMaps: readers hold every entry of the maps that do not change by themselves, as bpftool dumps them.
func TestLabMaps(t *testing.T) {
	sourcetest.NeedLab(t)
	r := newReplica()
	start(t, Config{}, r)
	for _, name := range []string{"cilium_lb4_reverse_nat", "cilium_lxc", "cilium_ipcache_v2", backendName} {
		var dump []struct{ Key, Value []string }
		text := output(t, "bpftool", "-j", "map", "dump", "pinned", filepath.Join(defaultBPFFS, pinFolder, name))
		if err := json.Unmarshal(text, &dump); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{}
		for _, e := range dump {
			want[unhex(t, e.Key)] = unhex(t, e.Value)
		}
		r.mu.Lock()
		got := maps.Clone(r.maps[name])
		r.mu.Unlock()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-bpftool +events):\n%s", name, diff)
		}
	}
}

func unhex(t *testing.T, list []string) string {
	var b []byte
	for _, s := range list {
		var n byte
		if _, err := fmt.Sscan(s, &n); err != nil {
			t.Fatal(err)
		}
		b = append(b, n)
	}
	return string(b)
}

// TestLabIdleCost says what polling a node's maps costs while little happens to them. It depends on what else the
// machine does, so it is a figure and no condition.
func TestLabIdleCost(t *testing.T) {
	sourcetest.NeedLab(t)
	r := newReplica()
	start(t, Config{}, r)
	began, used := time.Now(), cpuTime(t)
	<-time.After(20 * time.Second)
	share := float64(cpuTime(t)-used) / float64(time.Since(began))
	r.mu.Lock()
	events := len(r.events)
	r.mu.Unlock()
	t.Logf("%.2f %% of a core, %d events", 100*share, events)
}

func cpuTime(t testing.TB) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
