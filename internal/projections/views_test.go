package projections

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/schemas"
)

// validate checks a file against its published schema, and against the closed form of it: every property that a
// file has must be in the schema, and in the schema's order.
func validate(t *testing.T, name string, data []byte) {
	t.Helper()
	path := "files/" + strings.TrimSuffix(name, ".json") + ".schema.json"
	text, err := schemas.Files.ReadFile(path)
	if err != nil {
		t.Fatalf("%s has no schema: %v", name, err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(path, doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile(path)
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if err := schema.Validate(value); err != nil {
		t.Errorf("%s: %v\n%s", name, err, data)
	}
	var s struct{ Required []string }
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	if got := keysOf(t, data); !slices.Equal(got, s.Required) {
		t.Errorf("%s has keys %v, want %v in this order", name, got, s.Required)
	}
}

// keysOf lists an object's own keys as they stand in the text.
func keysOf(t *testing.T, data []byte) []string {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	if _, err := d.Token(); err != nil {
		t.Fatal(err)
	}
	var keys []string
	for d.More() {
		key, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key.(string))
		var skip json.RawMessage
		if err := d.Decode(&skip); err != nil {
			t.Fatal(err)
		}
	}
	return keys
}

func TestFilesFollowTheirSchemasFromTheFirstMoment(t *testing.T) {
	st := tell(t)
	for _, f := range st.s.Files() {
		if strings.HasSuffix(f.Name, ".json") && f.Data != nil {
			validate(t, f.Name, f.Data)
		}
	}
	st.service("web", "u1", webIP)
	st.service("ghost", "u2", "10.43.0.8")
	st.service("web-np", "u3", "10.43.0.9")
	st.pods(st.podObject("holder", "h1", "10.42.0.5"))
	st.event("kube", &eventpb.KubeObjects{Kind: eventpb.Kind_KIND_CILIUM_ENDPOINT, Objects: []*eventpb.KubeObject{{
		Namespace: "cca-dp", Name: "holder", CiliumEndpoint: &eventpb.CiliumEndpoint{EndpointId: 3, Addresses: []string{"10.42.0.5"}}}}})
	st.event("hubble", &eventpb.Gap{FromNs: 1, ToNs: 2, Reason: eventpb.GapReason_GAP_REASON_LOST, Count: 3, Detail: "hubble_ring_buffer"})
	for _, f := range st.s.Files() {
		if f.Data == nil {
			t.Errorf("no %s though its subject is there", f.Name)
			continue
		}
		if strings.HasSuffix(f.Name, ".json") {
			validate(t, f.Name, f.Data)
		}
	}
}

func TestReportHasSevenLinesAndUnknowns(t *testing.T) {
	st := tell(t)
	want := `kube_proxy_replacement=unknown
socket_lb_coverage=unknown
web_backends=unknown
holder_backend=unknown
holder_program=unknown
nodeport_iptables_lines=unknown
ghost_no_backend_response=unknown
`
	if got := st.text("report.txt"); got != want {
		t.Errorf("report.txt:\n%s", got)
	}
}

func TestAgentsWords(t *testing.T) {
	st := tell(t)
	status := func(json string) {
		st.event("agent", &eventpb.AgentObjects{Kind: "status", Complete: true, Objects: []*eventpb.AgentObject{{Json: []byte(json)}}})
	}
	for _, c := range []struct{ json, mode, coverage string }{
		{`{"kube-proxy-replacement":{"mode":"True","features":{"socketLB":{"enabled":true}}}}`, "True", "Full"},
		{`{"kube-proxy-replacement":{"mode":"False","features":{"bpfSocketLBHostnsOnly":true}}}`, "False", "Hostns-only"},
		{`{"kube-proxy-replacement":{"mode":"False"}}`, "False", "unknown"},
		{`not json`, "unknown", "unknown"},
	} {
		status(c.json)
		want := "kube_proxy_replacement=" + c.mode + "\nsocket_lb_coverage=" + c.coverage + "\n"
		if got := st.text("report.txt"); !strings.HasPrefix(got, want) {
			t.Errorf("%s: report begins %q, want %q", c.json, got[:len(want)], want)
		}
	}
}

func TestNodePortFile(t *testing.T) {
	st := tell(t)
	st.event("kube", &eventpb.KubeObjects{Kind: eventpb.Kind_KIND_NODE, Complete: true, Objects: []*eventpb.KubeObject{{Name: "n1", Node: &eventpb.Node{InternalIps: []string{"fd96::10", "192.168.96.10"}}}}})
	st.event("kube", &eventpb.KubeObjects{Kind: eventpb.Kind_KIND_SERVICE, Objects: []*eventpb.KubeObject{{Namespace: "cca-dp", Name: "web-np", Uid: "u",
		Service: &eventpb.Service{Type: "NodePort", ClusterIps: []string{"10.43.0.9"}, Ports: []*eventpb.ServicePort{{Port: 80, NodePort: 30780}}}}}})
	st.event("host", &eventpb.HostState{
		RuleSets:  []*eventpb.RuleSet{{Command: "iptables-save", Lines: []string{"*nat", "-A X --dport 130780"}}},
		Listeners: &eventpb.Listeners{Sockets: []*eventpb.Socket{{Protocol: "tcp", Local: "0.0.0.0:130780"}, {Protocol: "tcp6", Local: "[::]:6443"}, {Protocol: "udp", Local: "0.0.0.0:30780"}}},
	})
	st.event("probe", &eventpb.ProbeResult{Name: "nodeport", Kind: "http", HttpCode: 200})
	internal := serviceEntry("0.0.0.0:30780", 0, 0, 9, 0)
	internal[9] = 1 // the scope for connections from inside, which has another id
	st.maps(servicesDelta(true, internal, serviceEntry("0.0.0.0:30780", 0, 0, 8, 0), serviceEntry("192.168.96.10:30780", 0, 0, 10, 0)))
	want := `{"http_code":200,"iptables_lines":0,"listen_sockets":0,"node_ip":"192.168.96.10","node_port":30780,"service_id":8}`
	if got := texts(st.file("nodeport.json")); got != want {
		t.Errorf("nodeport.json %s\nwant %s", got, want)
	}
	// The Service goes: so do the file and the answer, which the next of that name has not given.
	st.event("kube", &eventpb.KubeObjects{Kind: eventpb.Kind_KIND_SERVICE, Objects: []*eventpb.KubeObject{{Namespace: "cca-dp", Name: "web-np", Deleted: true}}})
	if st.file("nodeport.json") != nil || len(st.s.Probes) != 0 {
		t.Error("nodeport.json or its answer outlived the Service")
	}
}

func TestFolderWritesReplacesAndRemoves(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(dir, "ct.json")
	if err := os.WriteFile(old, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old); !os.IsNotExist(err) {
		t.Error("a file of an earlier run is still there")
	}
	a := File{"report.txt", []byte("a\n")}
	if err := f.Write([]File{a, {"ct.json", []byte("{}\n")}}); err != nil {
		t.Fatal(err)
	}
	before, _ := os.Stat(filepath.Join(dir, "report.txt"))
	if err := f.Write([]File{a, {"ct.json", nil}}); err != nil {
		t.Fatal(err)
	}
	after, _ := os.Stat(filepath.Join(dir, "report.txt"))
	if !os.SameFile(before, after) {
		t.Error("report.txt was written again without a change")
	}
	if _, err := os.Stat(old); !os.IsNotExist(err) {
		t.Error("ct.json outlived its subject")
	}
	if _, err := OpenFolder(dir); !errors.Is(err, ErrInUse) {
		t.Errorf("a second writer of the folder: error %v, want ErrInUse", err)
	}
	// Somebody takes a file, then the folder: both come back, changed or not.
	if err := os.Remove(filepath.Join(dir, "report.txt")); err != nil {
		t.Fatal(err)
	}
	if err := f.Write([]File{a}); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(filepath.Join(dir, "report.txt")); string(got) != "a\n" {
		t.Errorf("report.txt %q after it was removed", got)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := f.Write([]File{{"report.txt", []byte("b\n")}}); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(filepath.Join(dir, "report.txt")); string(got) != "b\n" {
		t.Errorf("report.txt %q", got)
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 1 {
		t.Errorf("%d files in the folder, want no temporary one left", len(entries))
	}
}

func TestFolderThatCannotBeMade(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFolder(filepath.Join(file, "out")); err == nil {
		t.Error("a folder below a file was opened")
	}
	if err := CheckFolder(filepath.Join(file, "out")); err == nil {
		t.Error("a folder below a file can be written")
	}
	if err := CheckFolder(filepath.Join(t.TempDir(), "a", "b")); err != nil {
		t.Errorf("a folder that can be made: %v", err)
	}
}
