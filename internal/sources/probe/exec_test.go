package probe

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/sources/sourcetest"
	"google.golang.org/protobuf/proto"
	"k8s.io/client-go/rest"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// execServer answers an exec as the API server does over WebSocket: channel 1 is stdout, 2 stderr, 3 the status.
func execServer(t *testing.T, stdout, stderr, status string, saw *http.Request) *rest.Config {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*saw = *r
		up := websocket.Upgrader{Subprotocols: []string{"v5.channel.k8s.io"}}
		conn, err := up.Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		for channel, text := range map[byte]string{1: stdout, 2: stderr} {
			if text != "" {
				_ = conn.WriteMessage(websocket.BinaryMessage, append([]byte{channel}, text...))
			}
		}
		_ = conn.WriteMessage(websocket.BinaryMessage, append([]byte{3}, status...))
		_ = conn.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""))
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

const success = `{"metadata":{},"status":"Success"}`

func exited(code int) string {
	return fmt.Sprintf(`{"metadata":{},"status":"Failure","reason":"NonZeroExitCode","message":"command terminated with exit code %d",
		"details":{"causes":[{"reason":"ExitCode","message":"%d"}]}}`, code, code)
}

var ghostSubject = subject{target: "http://10.43.10.90:80/", namespace: "cca-dp", pod: "probe", container: "curl"}

func TestCurlInPod(t *testing.T) {
	for name, c := range map[string]struct {
		stdout, stderr, status string
		want                   *eventpb.ProbeResult
		err                    string
	}{
		"refused":        {"000 0.000417", "", exited(7), &eventpb.ProbeResult{ExitCode: 7, Seconds: 0.000417}, ""},
		"timed out":      {"000 5.001234", "", exited(28), &eventpb.ProbeResult{ExitCode: 28, Seconds: 5.001234}, ""},
		"answered":       {"200 0.010000", "", success, &eventpb.ProbeResult{HttpCode: 200, Seconds: 0.01}, ""},
		"comma as point": {"200 0,010000", "", success, &eventpb.ProbeResult{HttpCode: 200, Seconds: 0.01}, ""},
		"no curl": {
			"", "sh: curl: not found\n", exited(127), nil,
			`curl in pod cca-dp/probe: exit code 127, unexpected output "": sh: curl: not found`,
		},
		"container gone": {
			"", "", `{"metadata":{},"status":"Failure","reason":"InternalError","message":"container not running","code":500}`, nil,
			"exec in pod cca-dp/probe: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var saw http.Request
			got, err := newCurl(execServer(t, c.stdout, c.stderr, c.status, &saw), 5).request(t.Context(), ghostSubject)
			if c.err != "" {
				if err == nil || !strings.HasPrefix(err.Error(), c.err) {
					t.Errorf("error %v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			c.want.Kind, c.want.Target, c.want.Pod = "exec", ghostSubject.target, "cca-dp/probe"
			if !proto.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
			want := []string{"curl", "-s", "-o", "/dev/null", "-m", "5", "-w", "%{http_code} %{time_total}", "http://10.43.10.90:80/"}
			if q := saw.URL.Query(); !slices.Equal(q["command"], want) || q.Get("container") != "curl" || saw.URL.Path != "/api/v1/namespaces/cca-dp/pods/probe/exec" {
				t.Errorf("asked for %s", saw.URL)
			}
		})
	}
}

func TestCurlWithoutACluster(t *testing.T) {
	if _, err := newCurl(nil, 5).request(t.Context(), ghostSubject); err == nil {
		t.Error("no error")
	}
}

func TestCheckAsksNothingOfThePod(t *testing.T) {
	status := http.StatusBadRequest
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			t.Error("the check runs a command")
		}
		sourcetest.Refuse(w, status)
	}))
	defer server.Close()
	s := New(Config{Rest: &rest.Config{Host: server.URL}, Profile: labProfile(t), Cluster: sourcetest.NewCluster()})
	list := s.Check(t.Context())
	if list[0].Err != nil || list[1].Err != nil || !strings.Contains(list[1].Seen, "curl -s -o /dev/null -m 5") || !strings.Contains(list[1].Seen, "exec") {
		t.Errorf("findings %v", list)
	}
	status = http.StatusForbidden
	if f := s.Check(t.Context())[1]; f.Err == nil || !strings.Contains(f.Err.Error(), "grant this user get and create on pods/exec in cca-dp") {
		t.Errorf("finding %v, want the missing right", f)
	}
}

// Servers before 1.29 and some proxies refuse the WebSocket: then it is SPDY (channels are streams there).
func TestCurlFallsBackToSPDY(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "websocket" {
			http.Error(w, "no websocket here", http.StatusBadRequest)
			return
		}
		if _, err := httpstream.Handshake(r, w, []string{"v4.channel.k8s.io"}); err != nil {
			t.Error(err)
			return
		}
		streams := make(chan httpstream.Stream, 3)
		conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
			streams <- s
			return nil
		})
		if conn == nil {
			t.Error("no upgrade")
			return
		}
		defer conn.Close()
		byType := map[string]httpstream.Stream{}
		for range 3 {
			s := <-streams
			byType[s.Headers().Get("streamType")] = s
		}
		_, _ = byType["stdout"].Write([]byte("000 0.000417"))
		_, _ = byType["error"].Write([]byte(exited(7)))
		for _, s := range byType {
			_ = s.Close()
		}
		<-conn.CloseChan()
	}))
	defer server.Close()
	got, err := newCurl(&rest.Config{Host: server.URL}, 5).request(t.Context(), ghostSubject)
	if err != nil || got.ExitCode != 7 || got.Seconds != 0.000417 {
		t.Errorf("got %v, %v, want exit 7", got, err)
	}
}
