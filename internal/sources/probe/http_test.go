package probe

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// The exit codes are those of curl's manual: 7 could not connect, 28 timed out, 56 failed while receiving.
func TestHTTPRequest(t *testing.T) {
	for name, c := range map[string]struct {
		handler  http.HandlerFunc
		code     int32
		exit     int32
		hasError bool
	}{
		"answer":         {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200) }, 200, 0, false},
		"server error":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, 503, 0, false},
		"no redirect":    {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) }, 302, 0, false},
		"closes at once": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 0, 56, true},
		"closes in the body": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "10")
			_, _ = w.Write([]byte("abc"))
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, 200, 56, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("HTTP_PROXY", "http://127.0.0.1:1") // not to be used
			server := httptest.NewServer(c.handler)
			defer server.Close()
			got, err := httpRequest(t.Context(), subject{target: server.URL + "/"})
			if err != nil {
				t.Fatal(err)
			}
			if got.HttpCode != c.code || got.ExitCode != c.exit || (got.Error != "") != c.hasError || got.Seconds <= 0 {
				t.Errorf("got %v, want code %d, exit %d", got, c.code, c.exit)
			}
		})
	}
}

func TestHTTPRequestRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	got, err := httpRequest(t.Context(), subject{target: "http://" + l.Addr().String() + "/"})
	if err != nil || got.HttpCode != 0 || got.ExitCode != 7 || got.Error == "" {
		t.Errorf("got %v, %v, want exit 7", got, err)
	}
}

func TestHTTPRequestTimesOut(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer server.Close()
	defer close(release)
	got, err := httpGet(t.Context(), subject{target: server.URL}, 50*time.Millisecond)
	if err != nil || got.HttpCode != 0 || got.ExitCode != 28 || got.Seconds < 0.05 {
		t.Errorf("got %v, %v, want exit 28", got, err)
	}
}

func TestEachRequestHasItsOwnConnection(t *testing.T) {
	ports := map[string]bool{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { ports[r.RemoteAddr] = true }))
	defer server.Close()
	for range 3 {
		if _, err := httpRequest(t.Context(), subject{target: server.URL}); err != nil {
			t.Fatal(err)
		}
	}
	if len(ports) != 3 {
		t.Errorf("%d connections, want 3: a NodePort picks its backend per connection", len(ports))
	}
}
