// Package deploy tests that what is here to be deployed asks for no more and no less than the recorder uses.
package deploy

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/profile"
	"github.com/tapedeck-io/tapedeck/internal/sources"
	"github.com/tapedeck-io/tapedeck/internal/sources/kube"
	"github.com/tapedeck-io/tapedeck/internal/sources/podlog"
	"github.com/tapedeck-io/tapedeck/internal/sources/probe"
	"github.com/tapedeck-io/tapedeck/internal/sources/sourcetest"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// manifests are the objects of a file, by kind.
type manifests map[string][]byte

func read(t *testing.T, file string) manifests {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	m := manifests{}
	for _, part := range bytes.Split(text, []byte("\n---\n")) {
		var head struct{ Kind string }
		if err := yaml.Unmarshal(part, &head); err != nil || m[head.Kind] != nil {
			t.Fatalf("%s: kind %q, %v", file, head.Kind, err)
		}
		m[head.Kind] = part
	}
	return m
}

func as[T any](t *testing.T, m manifests, kind string) (object T) {
	t.Helper()
	if err := yaml.UnmarshalStrict(m[kind], &object); err != nil || m[kind] == nil {
		t.Fatalf("%s: %v", kind, err)
	}
	return object
}

// allowed writes rules out: a line for each verb on each resource of each name.
func allowed(rules []rbacv1.PolicyRule) map[string]bool {
	lines := map[string]bool{}
	for _, r := range rules {
		names := r.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				for _, verb := range r.Verbs {
					for _, name := range names {
						lines[line(sourcetest.Request{Verb: verb, Group: group, Resource: resource, Name: name})] = true
					}
				}
			}
		}
	}
	return lines
}

func line(q sourcetest.Request) string {
	return strings.TrimSpace(fmt.Sprintf("%s %s/%s %s", q.Verb, q.Group, q.Resource, q.Name))
}

func lines(list []sourcetest.Request) map[string]bool {
	set := map[string]bool{}
	for _, q := range list {
		set[line(q)] = true
	}
	return set
}

// run checks with each source, and runs it, until the server was asked for so many different things.
func run(t *testing.T, api *sourcetest.APIServer, requests int, list ...sources.Source) {
	t.Helper()
	for _, s := range list {
		s.Check(t.Context())
		sourcetest.Run(t, s)
	}
	sourcetest.Until(t, func() bool { return len(lines(api.Asked())) >= requests })
}

func TestClusterRoleIsWhatTheKubeSourceAsksFor(t *testing.T) {
	api := sourcetest.NewAPIServer(t)
	api.Put("", "nodes", `{"metadata":{"name":"lab"}}`)
	rules := allowed(as[rbacv1.ClusterRole](t, read(t, "tapedeck.yaml"), "ClusterRole").Rules)
	run(t, api, len(rules), kube.New(kube.Config{Kubeconfig: api.Kubeconfig(t)}))
	if diff := gocmp.Diff(lines(api.Asked()), rules); diff != "" {
		t.Errorf("asked for (-), allowed (+):\n%s", diff)
	}
	for _, q := range api.Asked() {
		if q.Namespace != "" {
			t.Errorf("asked for in a namespace: %v", q)
		}
	}
}

func TestProfilesRoleIsWhatItsSourcesAskFor(t *testing.T) {
	p, _, err := profile.Load("cca-datapath")
	if err != nil {
		t.Fatal(err)
	}
	api := sourcetest.NewAPIServer(t)
	api.Log(p.Namespace, p.Holder.Pod, "2026-01-02T03:04:05.000000006Z hello\n")
	container := func(name string) []*eventpb.Container {
		return []*eventpb.Container{{Name: name, Id: "containerd://" + strings.Repeat("a", 64), State: "running"}}
	}
	cluster := sourcetest.NewCluster(
		&eventpb.KubeObject{Namespace: p.Namespace, Name: p.Holder.Pod, Uid: "1", Pod: &eventpb.Pod{Containers: container("holder")}},
		&eventpb.KubeObject{Namespace: p.Namespace, Name: p.Ghost.ProbePod, Uid: "2", Pod: &eventpb.Pod{Ready: true, Containers: container("curl")}},
		&eventpb.KubeObject{Namespace: p.Namespace, Name: p.Ghost.Service, Uid: "3", Service: &eventpb.Service{
			ClusterIps: []string{"10.43.0.9"}, Ports: []*eventpb.ServicePort{{Port: p.Ghost.Port}}}},
	)
	to := &rest.Config{Host: api.URL}
	role := as[rbacv1.Role](t, read(t, "profile-cca-datapath.yaml"), "Role")
	rules := allowed(role.Rules)
	run(t, api, len(rules),
		podlog.New(podlog.Config{Rest: to, Cluster: cluster, Pods: []podlog.PodRef{{Namespace: p.Namespace, Name: p.Holder.Pod}}}),
		probe.New(probe.Config{Rest: to, Cluster: cluster, Profile: p}))
	if diff := gocmp.Diff(lines(api.Asked()), rules); diff != "" {
		t.Errorf("asked for (-), allowed (+):\n%s", diff)
	}
	for _, q := range api.Asked() {
		if q.Namespace != role.Namespace {
			t.Errorf("asked for outside %s: %v", role.Namespace, q)
		}
	}
}

// The roles go to the account that the recorder runs under, and to nobody else.
func TestRolesAreBoundToTheRecorderAlone(t *testing.T) {
	all := read(t, "tapedeck.yaml")
	account := as[corev1.ServiceAccount](t, all, "ServiceAccount")
	want := []rbacv1.Subject{{Kind: "ServiceAccount", Name: account.Name, Namespace: account.Namespace}}
	cluster := as[rbacv1.ClusterRoleBinding](t, all, "ClusterRoleBinding")
	if role := as[rbacv1.ClusterRole](t, all, "ClusterRole"); cluster.RoleRef.Name != role.Name || cluster.RoleRef.Kind != "ClusterRole" {
		t.Errorf("bound to %v", cluster.RoleRef)
	}
	lab := read(t, "profile-cca-datapath.yaml")
	local := as[rbacv1.RoleBinding](t, lab, "RoleBinding")
	if role := as[rbacv1.Role](t, lab, "Role"); local.RoleRef.Name != role.Name || local.RoleRef.Kind != "Role" || local.Namespace != role.Namespace {
		t.Errorf("bound to %v", local.RoleRef)
	}
	if diff := gocmp.Diff([][]rbacv1.Subject{want, want}, [][]rbacv1.Subject{cluster.Subjects, local.Subjects}); diff != "" {
		t.Error(diff)
	}
	ds := as[appsv1.DaemonSet](t, all, "DaemonSet")
	if ds.Namespace != account.Namespace || ds.Spec.Template.Spec.ServiceAccountName != account.Name {
		t.Errorf("the DaemonSet runs in %s as %s", ds.Namespace, ds.Spec.Template.Spec.ServiceAccountName)
	}
}

// The DaemonSet and the service have the same capabilities, no way to more, and write where they have to alone.
func TestDeploymentsHaveTheLeast(t *testing.T) {
	pod := as[appsv1.DaemonSet](t, read(t, "tapedeck.yaml"), "DaemonSet").Spec.Template.Spec
	if len(pod.Containers) != 1 || len(pod.InitContainers) != 0 {
		t.Fatalf("%d containers", len(pod.Containers)+len(pod.InitContainers))
	}
	c := pod.Containers[0]
	s := c.SecurityContext
	if *s.Privileged || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("security context %v", s)
	}
	if len(c.Ports) != 0 || slices.Contains(c.Args, "--listen") {
		t.Error("a port is open")
	}
	if c.Resources.Limits.Memory().IsZero() {
		t.Error("memory has no limit")
	}
	writable := map[string]bool{}
	for _, m := range c.VolumeMounts {
		if !m.ReadOnly {
			writable[m.MountPath] = true
		}
	}
	if diff := gocmp.Diff(map[string]bool{"/var/lib/tapedeck": true, "/run/tapedeck": true}, writable); diff != "" {
		t.Errorf("writable mounts: %s", diff)
	}
	if diff := gocmp.Diff([]corev1.Capability{"ALL"}, s.Capabilities.Drop); diff != "" {
		t.Errorf("dropped: %s", diff)
	}
	var caps []string
	for _, c := range s.Capabilities.Add {
		caps = append(caps, "CAP_"+string(c))
	}
	unit := service(t)
	if diff := gocmp.Diff(caps, strings.Fields(unit["CapabilityBoundingSet"])); diff != "" {
		t.Errorf("DaemonSet (-), service (+): %s", diff)
	}
	for key, want := range map[string]string{"NoNewPrivileges": "yes", "ProtectSystem": "strict", "UMask": "0077", "StateDirectoryMode": "0700", "User": ""} {
		if unit[key] != want {
			t.Errorf("service's %s is %q, want %q", key, unit[key], want)
		}
	}
}

// Each capability is in the table of docs/security.md, and no other one.
func TestCapabilitiesAreExplained(t *testing.T) {
	text, err := os.ReadFile("../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	explained := map[string]bool{}
	for row := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(row, "| `CAP_"); ok {
			name, _, _ = strings.Cut(name, "`")
			explained["CAP_"+name] = true
		}
	}
	want := strings.Fields(service(t)["CapabilityBoundingSet"])
	slices.SortFunc(want, cmp.Compare)
	if got := slices.Sorted(maps.Keys(explained)); !slices.Equal(got, want) {
		t.Errorf("explained %v, used %v", got, want)
	}
}

// service is the unit's settings; of one that is there twice the last.
func service(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("tapedeck.service")
	if err != nil {
		t.Fatal(err)
	}
	unit := map[string]string{}
	for l := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(l), "="); ok && !strings.HasPrefix(key, "#") {
			unit[key] = value
		}
	}
	return unit
}
