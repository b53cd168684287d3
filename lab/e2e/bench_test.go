package e2e

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/sources/kube"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// These run on the node itself: go test -exec lab/exec. See the script bench.

const benchNamespace = "t-bench"

const benchProfile = `apiVersion: tapedeck.io/v1
kind: Profile
name: bench
namespace: t-bench
web: {service: web, port: 80, replicas: 1, scaledTo: 2}
holder: {pod: holder, port: 40404}
nodePort: {service: web-np, port: 80}
ghost: {service: ghost, port: 80, probePod: probe, timeoutSeconds: 5}
`

// recorderOnNode runs the recorder until the benchmark ends, and returns its process and output folder.
func recorderOnNode(b *testing.B, args ...string) (pid int, out string) {
	if os.Getenv("TAPEDECK_LAB") == "" {
		b.Skip("needs the lab's node: run TAPEDECK_LAB=1 make bench")
	}
	program, err := filepath.Abs("../../bin/recorder")
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	out = filepath.Join(dir, "out")
	cmd := exec.Command(program, append([]string{"run", "--out", out, "--session", filepath.Join(dir, "session")}, args...)...)
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	return cmd.Process.Pid, out
}

// BenchmarkIdle says what a recorder of everything takes on a node at rest, over a minute: the session of the lab as
// it is, nothing done to it.
func BenchmarkIdle(b *testing.B) {
	pid, _ := recorderOnNode(b)
	time.Sleep(20 * time.Second) // the first snapshots
	const span = 60 * time.Second
	before := cpuOf(b, pid)
	time.Sleep(span)
	b.ReportMetric(100*(cpuOf(b, pid)-before).Seconds()/span.Seconds(), "%core")
	b.ReportMetric(rssOf(b, pid), "MB")
	b.ReportMetric(0, "ns/op")
}

// cpuOf is a process's user and system time, which the kernel tells in hundredths of a second.
func cpuOf(b *testing.B, pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

func rssOf(b *testing.B, pid int) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	kb, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		b.Fatal(err)
	}
	return float64(kb) / 1024
}

// BenchmarkMapToFile changes a Service's backends through the API and times how long after the kernel's map has
// changed, as a reader of the pinned map sees it, the file has.
func BenchmarkMapToFile(b *testing.B) {
	if os.Getenv("TAPEDECK_LAB") == "" {
		b.Skip("needs the lab's node: run TAPEDECK_LAB=1 make bench")
	}
	const changes = 120
	slices4, vip := benchService(b)
	profile := filepath.Join(b.TempDir(), "bench.yaml")
	if err := os.WriteFile(profile, []byte(benchProfile), 0o600); err != nil {
		b.Fatal(err)
	}
	for _, by := range []struct {
		name string
		args []string
	}{{"polling", []string{"--sources", "kube,bpfmap"}}, {"triggers", nil}} {
		b.Run(by.name, func(b *testing.B) {
			_, out := recorderOnNode(b, append([]string{"--profile", profile}, by.args...)...)
			m, err := ebpf.LoadPinnedMap("/sys/fs/bpf/tc/globals/cilium_lb4_services_v2", &ebpf.LoadPinOptions{ReadOnly: true})
			if err != nil {
				b.Fatal(err)
			}
			defer m.Close()
			var took []time.Duration
			for i := range changes {
				n := 1 + (i+1)%2
				if i == 0 {
					setBackends(b, slices4, n)
					within(b, "the file's first backends", func() bool { return inMap(b, m, vip) == n && inFile(out) == n })
					continue
				}
				setBackends(b, slices4, n)
				within(b, "the map", func() bool { return inMap(b, m, vip) == n })
				changed := time.Now()
				within(b, "the file", func() bool { return inFile(out) == n })
				took = append(took, time.Since(changed))
			}
			slices.Sort(took)
			ms := func(q float64) float64 { return took[int(q*float64(len(took)-1))].Seconds() * 1e3 }
			b.ReportMetric(ms(.5), "p50-ms")
			b.ReportMetric(ms(.99), "p99-ms")
			b.ReportMetric(ms(1), "max-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func within(b *testing.B, what string, ok func() bool) {
	b.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(300 * time.Microsecond) {
		if time.Now().After(end) {
			b.Fatalf("%s did not change within 30 s", what)
		}
	}
}

// benchService makes a Service whose backends are addresses of nobody, and returns its address.
func benchService(b *testing.B) (kubernetes.Interface, netip.Addr) {
	config, err := kube.Connect("")
	if err != nil {
		b.Fatal(err)
	}
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		b.Fatal(err)
	}
	ctx := context.Background()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: benchNamespace}}
	if _, err := api.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = api.CoreV1().Namespaces().Delete(ctx, benchNamespace, metav1.DeleteOptions{}) })
	svc, err := api.CoreV1().Services(benchNamespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	slice := backendSlice(1)
	if _, err := api.DiscoveryV1().EndpointSlices(benchNamespace).Create(ctx, slice, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	return api, netip.MustParseAddr(svc.Spec.ClusterIP)
}

func backendSlice(n int) *discoveryv1.EndpointSlice {
	port, ready := int32(8080), true
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Port: &port}},
	}
	for i := range n {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{fmt.Sprintf("10.42.200.%d", 10+i)}, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
		})
	}
	return s
}

func setBackends(b *testing.B, api kubernetes.Interface, n int) {
	b.Helper()
	_, err := api.DiscoveryV1().EndpointSlices(benchNamespace).Update(context.Background(), backendSlice(n), metav1.UpdateOptions{})
	if err != nil {
		b.Fatal(err)
	}
}

// inMap is the count in slot 0 of the Service's frontend.
func inMap(b *testing.B, m *ebpf.Map, vip netip.Addr) int {
	key := vip.AsSlice()
	key = binary.BigEndian.AppendUint16(key, 80)
	key = append(key, 0, 0, byte(cilium.TCP), 0, 0, 0)
	value, err := m.LookupBytes(key)
	if err != nil {
		b.Fatal(err)
	}
	if value == nil {
		return 0
	}
	e, err := cilium.DecodeService(key, value)
	if err != nil {
		b.Fatal(err)
	}
	return int(e.Count)
}

func inFile(out string) int {
	var f struct{ Backends []string }
	text, err := os.ReadFile(filepath.Join(out, "scale.json"))
	if err != nil || json.Unmarshal(text, &f) != nil {
		return -1
	}
	return len(f.Backends)
}
