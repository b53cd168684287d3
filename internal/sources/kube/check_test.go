package kube

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tapedeck-io/tapedeck/internal/sources/kube/kubetest"
	"github.com/tapedeck-io/tapedeck/internal/sources/sourcetest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestCheck(t *testing.T) {
	clear := func(t *testing.T) {
		t.Setenv("KUBECONFIG", "")
		t.Setenv("HOME", t.TempDir())
		t.Setenv("KUBERNETES_SERVICE_HOST", "")
	}
	for name, c := range map[string]struct {
		config func(t *testing.T, api *kubetest.API) Config
		want   []string // a part of each line, in order
	}{
		"healthy": {
			func(t *testing.T, api *kubetest.API) Config { return Config{Kubeconfig: api.Kubeconfig(t)} },
			[]string{"Kubernetes v1.34.4", "lab 192.168.96.10", "services: 0", "endpointslices: 0", "pods: 0", "nodes: 1", "ciliumendpoints: 0"},
		},
		"no kubeconfig": {
			func(t *testing.T, _ *kubetest.API) Config {
				if _, err := os.Stat(k3sConfig); err == nil {
					t.Skip("this machine has " + k3sConfig)
				}
				return Config{}
			},
			[]string{"not in a pod; name a file that can be read with --kubeconfig, or set KUBECONFIG"},
		},
		"kubeconfig that is not there": {
			func(*testing.T, *kubetest.API) Config { return Config{Kubeconfig: "/none/such"} },
			[]string{"kubeconfig /none/such: no such file, or no cluster in it; name a file"},
		},
		"nobody listens": {
			func(t *testing.T, _ *kubetest.API) Config {
				return Config{Kubeconfig: sourcetest.WriteKubeconfig(t, "http://"+closedPort(t))}
			},
			[]string{"connection refused; start it, or correct the address and certificates in the kubeconfig"},
		},
		"no such node": {
			func(t *testing.T, api *kubetest.API) Config {
				return Config{Kubeconfig: api.Kubeconfig(t), Node: "mars"}
			},
			[]string{"Kubernetes", "node mars: the cluster has no such node; name one of lab with --node"},
		},
		"a right is missing": {
			func(t *testing.T, api *kubetest.API) Config {
				api.Answer(http.StatusForbidden, "pods")
				return Config{Kubeconfig: api.Kubeconfig(t)}
			},
			[]string{"Kubernetes", "lab", "services", "endpointslices", "grant this user list and watch on pods", "nodes", "ciliumendpoints"},
		},
		"no Cilium types": {
			func(t *testing.T, api *kubetest.API) Config {
				api.Answer(http.StatusNotFound, "ciliumendpoints")
				return Config{Kubeconfig: api.Kubeconfig(t)}
			},
			[]string{"Kubernetes", "lab", "services", "endpointslices", "pods", "nodes", "the cluster has no such type"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			clear(t)
			got := New(c.config(t, kubetest.New(t))).Check(t.Context())
			if len(got) != len(c.want) {
				t.Fatalf("%d findings, want %d: %v", len(got), len(c.want), got)
			}
			for i, f := range got {
				text := f.Thing + ": " + f.Seen
				if f.Err != nil {
					text = f.Err.Error()
				}
				if !strings.Contains(text, c.want[i]) {
					t.Errorf("finding %q, want %q in it", text, c.want[i])
				}
			}
		})
	}
}

func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestConnectFindsTheKubeconfig(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("KUBECONFIG", "")
	inHome, named := sourcetest.WriteKubeconfig(t, "http://home:1"), sourcetest.WriteKubeconfig(t, "http://named:1")
	if err := os.Mkdir(filepath.Join(home, ".kube"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(inHome, filepath.Join(home, ".kube", "config")); err != nil {
		t.Fatal(err)
	}
	host := func(path string) string {
		t.Helper()
		c, err := Connect(path)
		if err != nil {
			t.Fatal(err)
		}
		return c.Host
	}
	if got := host(""); got != "http://home:1" {
		t.Errorf("without anything %s, want the one in the home folder", got)
	}
	t.Setenv("KUBECONFIG", sourcetest.WriteKubeconfig(t, "http://env:1"))
	if got := host(""); got != "http://env:1" {
		t.Errorf("with KUBECONFIG %s, want that one", got)
	}
	if got := host(named); got != "http://named:1" {
		t.Errorf("with a name %s, want that one", got)
	}
}

func TestPickNode(t *testing.T) {
	nodes := func(names ...string) (list []corev1.Node) {
		for _, n := range names {
			list = append(list, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n, Labels: map[string]string{"kubernetes.io/hostname": n + "-host"}}})
		}
		return list
	}
	for _, c := range []struct {
		nodes      []corev1.Node
		name, host string
		want, err  string
	}{
		{nodes("a"), "", "other", "a", ""},
		{nodes("a", "b"), "", "b", "b", ""},
		{nodes("a", "b"), "", "b-host", "b", ""},
		{nodes("a", "b"), "a", "b", "a", ""},
		{nodes("a", "b"), "", "c", "", "node: 2 nodes, none named as this host (c); name this one with --node: a, b"},
		{nodes("a", "b"), "c", "a", "", "node c: the cluster has no such node; name one of a, b with --node"},
		{nil, "", "a", "", "node: the cluster has no nodes; wait until this one has joined"},
	} {
		got, err := pickNode(c.nodes, c.name, c.host)
		var name, text string
		if got != nil {
			name = got.Name
		}
		if err != nil {
			text = err.Error()
		}
		if d := cmp.Diff([]string{c.want, c.err}, []string{name, text}); d != "" {
			t.Errorf("name %q on host %q: %s", c.name, c.host, d)
		}
	}
}
