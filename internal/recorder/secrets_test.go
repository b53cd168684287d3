package recorder

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	flowpb "github.com/cilium/cilium/api/v1/flow"
	"github.com/klauspost/compress/zstd"
	"github.com/tapedeck-io/tapedeck/internal/journal"
	"github.com/tapedeck-io/tapedeck/internal/profile"
	"github.com/tapedeck-io/tapedeck/internal/sources/hubble/hubbletest"
	"github.com/tapedeck-io/tapedeck/internal/sources/sourcetest"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// mark is in every secret of the made-up cluster, and nowhere else in it.
const mark = "s3cretMark"

// What a cluster has secrets in. {S} is one.
const (
	podWithSecrets = `{
		"metadata": {"name": "holder", "namespace": "cca-dp", "uid": "7a8de1f2-0000-4000-8000-000000000001", "labels": {"app": "holder"},
			"annotations": {
				"kubectl.kubernetes.io/last-applied-configuration": "{\"spec\":{\"containers\":[{\"env\":[{\"name\":\"DB\",\"value\":\"{S}\"}]}]}}",
				"vault.example/token": "{S}", "service.kubernetes.io.example/x": "{S}"},
			"managedFields": [{"manager": "{S}", "operation": "Apply", "fieldsV1": {"f:{S}": {}}}]},
		"spec": {"nodeName": "n1", "imagePullSecrets": [{"name": "{S}"}],
			"volumes": [
				{"name": "a", "secret": {"secretName": "{S}"}}, {"name": "b", "configMap": {"name": "{S}"}},
				{"name": "c", "hostPath": {"path": "/{S}"}}, {"name": "d", "csi": {"driver": "x", "volumeAttributes": {"k": "{S}"}}}],
			"initContainers": [{"name": "init", "image": "i", "env": [{"name": "A", "value": "{S}"}]}],
			"containers": [{"name": "holder", "image": "registry.example/{S}", "command": ["app", "--password={S}"], "args": ["{S}"],
				"env": [{"name": "TOKEN", "value": "{S}"}], "envFrom": [{"secretRef": {"name": "{S}"}}],
				"livenessProbe": {"httpGet": {"path": "/?key={S}", "port": 1, "httpHeaders": [{"name": "Authorization", "value": "{S}"}]}},
				"lifecycle": {"preStop": {"exec": {"command": ["{S}"]}}}}]},
		"status": {"phase": "Running", "message": "{S}", "podIP": "10.42.0.9", "podIPs": [{"ip": "10.42.0.9"}],
			"conditions": [{"type": "Ready", "status": "True", "message": "{S}"}],
			"containerStatuses": [{"name": "holder", "ready": true, "image": "{S}", "imageID": "{S}",
				"containerID": "containerd://aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
				"state": {"running": {}}, "lastState": {"terminated": {"exitCode": 1, "message": "{S}", "reason": "{S}"}}}]}}`
	serviceWithSecrets = `{"metadata": {"name": "web", "namespace": "cca-dp", "uid": "u2", "annotations": {
			"kubectl.kubernetes.io/last-applied-configuration": "{S}", "service.beta.kubernetes.io/aws-access-key": "{S}"}},
		"spec": {"type": "ClusterIP", "clusterIP": "10.43.0.7", "clusterIPs": ["10.43.0.7"], "ports": [{"port": 80, "protocol": "TCP"}]}}`
	sliceWithSecrets = `{"metadata": {"name": "web-1", "namespace": "cca-dp", "annotations": {"a": "{S}"}, "labels": {"kubernetes.io/service-name": "web"}},
		"addressType": "IPv4", "endpoints": [{"addresses": ["10.42.0.9"], "deprecatedTopology": {"k": "{S}"}}], "ports": [{"port": 8080}]}`
	nodeWithSecrets = `{"metadata": {"name": "n1", "annotations": {"join-token": "{S}"}},
		"spec": {"providerID": "x"}, "status": {"addresses": [{"type": "InternalIP", "address": "192.168.96.10"}],
			"conditions": [{"type": "Ready", "status": "True", "message": "{S}"}], "images": [{"names": ["{S}"]}]}}`
	endpointWithSecrets = `{"metadata": {"name": "holder", "namespace": "cca-dp", "annotations": {"a": "{S}"}},
		"status": {"id": 77, "identity": {"id": 5}, "log": [{"message": "{S}"}], "networking": {"node": "192.168.96.10", "addressing": [{"ipv4": "10.42.0.9"}]}}}`
	secretObject = `{"metadata": {"name": "db", "namespace": "cca-dp"}, "data": {"password": "{S}"}, "stringData": {"x": "{S}"}}`

	logWithSecrets = `2026-01-02T03:04:05.000000001Z peer=10.42.0.7:8080 begins
2026-01-02T03:04:05.000000002Z login user=a password={S} ok
2026-01-02T03:04:05.000000003Z GET /x Authorization: Bearer {S}.{S}
2026-01-02T03:04:05.000000004Z {"api_key": "{S}", "n": 1}
2026-01-02T03:04:05.000000005Z dial postgres://app:{S}@db:5432/x
2026-01-02T03:04:05.000000006Z Set-Cookie: sid={S}; Path=/
2026-01-02T03:04:05.000000007Z -----BEGIN RSA PRIVATE KEY-----
2026-01-02T03:04:05.000000008Z {S}{S}{S}
2026-01-02T03:04:05.000000009Z -----END RSA PRIVATE KEY-----
2026-01-02T03:04:05.000000010Z order 4711-{S} of our own format
2026-01-02T03:04:05.000000011Z peer=10.42.0.7:8080 ends
`
)

func filled(text string) string { return strings.ReplaceAll(text, "{S}", mark) }

func clusterWithSecrets(t *testing.T) *sourcetest.APIServer {
	api := sourcetest.NewAPIServer(t)
	for _, o := range []struct{ group, resource, text string }{
		{"", "pods", podWithSecrets}, {"", "services", serviceWithSecrets}, {"", "nodes", nodeWithSecrets},
		{"discovery.k8s.io", "endpointslices", sliceWithSecrets}, {"cilium.io", "ciliumendpoints", endpointWithSecrets},
		{"", "secrets", secretObject}, {"", "configmaps", secretObject},
	} {
		api.Put(o.group, o.resource, filled(o.text))
	}
	api.Log("cca-dp", "holder", filled(logWithSecrets))
	return api
}

// hubbleWithSecrets is the address of a Hubble that has seen one request.
func hubbleWithSecrets(t *testing.T) string {
	url := filled("http://user:{S}@shop.example/cart?token={S}&x={S}#{S}")
	o := hubbletest.New(t)
	o.Write(hubbletest.Response(&flowpb.Flow{
		Time: timestamppb.Now(), Uuid: "b6ad1b4c-0000-4000-8000-000000000001", Verdict: flowpb.Verdict_FORWARDED, Type: flowpb.FlowType_L7,
		//lint:ignore SA1019 older relays fill Summary, and a secret could come by it.
		IP: &flowpb.IP{Source: "10.42.0.9", Destination: "10.42.0.7"}, NodeName: "n1", Summary: "HTTP/1.1 GET " + url,
		L7: &flowpb.Layer7{Type: flowpb.L7FlowType_REQUEST, Record: &flowpb.Layer7_Http{Http: &flowpb.HTTP{
			Method: "GET", Protocol: "HTTP/1.1", Url: url,
			Headers: []*flowpb.HTTPHeader{{Key: "Authorization", Value: mark}, {Key: "Cookie", Value: mark}, {Key: "X-Api-Key", Value: mark}, {Key: "Referer", Value: url}},
		}}},
	}))
	return o.Socket
}

func agentWithSecrets(t *testing.T) string {
	answers := map[string]string{
		"/v1/healthz":  `{"cilium": {"state": "Ok"}, "kube-proxy-replacement": {"mode": "True"}}`,
		"/v1/config":   `{"status": {"daemonConfigurationMap": {"EnableIPv4": true, "KVStoreOpt": {"etcd.password": "{S}"}, "ApiToken": "{S}", "Proxy": "http://u:{S}@p:1/"}}}`,
		"/v1/endpoint": `[{"id": 77, "status": {"log": [{"message": "{S}"}], "state": "ready"}}]`,
		"/v1/service":  `[]`,
	}
	socket := filepath.Join(t.TempDir(), "cilium.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := answers[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, filled(text))
	})}}
	server.Start()
	t.Cleanup(server.Close)
	return socket
}

// Whatever a cluster has secrets in, none is on the tape, in the session, in the files or in the recorder's own log.
func TestNothingSecretIsKept(t *testing.T) {
	p, text, err := profile.Load("cca-datapath")
	if err != nil {
		t.Fatal(err)
	}
	api := clusterWithSecrets(t)
	var log bytes.Buffer
	r := startRecording(t, func(o *Options) {
		o.FromTape, o.Profile, o.ProfileText = "", p, text
		o.Redact = []*regexp.Regexp{regexp.MustCompile(`4711-\w+`)}
		o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		o.Aim = Aim{Kubeconfig: api.Kubeconfig(t), Hubble: hubbleWithSecrets(t), Agent: agentWithSecrets(t), Only: []string{"kube", "agent", "hubble", "podlog"}}
	})
	// Each of these stands beside a secret, and is kept.
	kept := []string{
		"7a8de1f2-0000-4000-8000-000000000001", "10.43.0.7", "web-1", "192.168.96.10", "EnableIPv4", "shop.example/cart?token=",
		"peer=10.42.0.7:8080 begins", "login user=a password=", "dial postgres://app:", "of our own format", "peer=10.42.0.7:8080 ends",
	}
	tape := filepath.Join(t.TempDir(), "packed.tape")
	var bare []byte
	sourcetest.Until(t, func() bool {
		if err := Pack(t.Context(), r.Session, tape, true); err != nil {
			return false // not begun yet
		}
		bare = unpacked(t, tape)
		for _, text := range kept {
			if !bytes.Contains(bare, []byte(text)) {
				return false
			}
		}
		return true
	})
	r.stop()
	if err := Pack(t.Context(), r.Session, tape, true); err != nil {
		t.Fatal(err)
	}
	if bare := unpacked(t, tape); bytes.Contains(bare, []byte(mark)) {
		at := bytes.Index(bare, []byte(mark))
		t.Errorf("on the tape: %q", bare[max(0, at-200):at+len(mark)])
	}
	for _, dir := range []string{r.Session, r.Out} {
		for path, data := range content(t, dir) {
			if bytes.Contains(data, []byte(mark)) {
				t.Errorf("in %s", path)
			}
		}
	}
	if bytes.Contains(log.Bytes(), []byte(mark)) {
		t.Errorf("in the recorder's log: %s", grepLines(log.String(), ""))
	}
	for _, q := range api.Asked() {
		if strings.HasPrefix(q.Resource, "secrets") || strings.HasPrefix(q.Resource, "configmaps") {
			t.Errorf("asked for %v", q)
		}
	}
}

// unpacked is all that a tape holds, without compression: its bytes, its events and its keyframes' states.
func unpacked(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d, err := zstd.NewReader(bytes.NewReader(raw)) // which passes over what is no event
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	events, err := io.ReadAll(d)
	if err != nil {
		t.Fatal(err)
	}
	all := append(raw, events...)
	tape, err := journal.OpenTape(path)
	if err != nil {
		t.Fatal(err)
	}
	defer tape.Close()
	for at := ^uint64(0); ; {
		seq, _, state, ok, err := tape.Keyframe(at)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return all
		}
		all, at = append(all, state...), seq-1
	}
}

func content(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		files[path], err = os.ReadFile(path)
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files, %v", dir, len(files), err)
	}
	return files
}
