package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"
	"k8s.io/klog/v2"
	"k8s.io/streaming/pkg/httpstream"
)

// execGrace is what the API server may need besides curl's own limit.
const execGrace = 5 * time.Second

// curl runs curl inside a pod through the API server's exec.
type curl struct {
	rest    *rest.Config
	seconds int // curl's limit
}

var errNoCluster = errors.New("no cluster is known")

func newCurl(config *rest.Config, seconds int) *curl { return &curl{rest: config, seconds: seconds} }

// command is what runs in the pod.
func (c *curl) command(target string) []string {
	list := []string{"curl", "-s", "-o", "/dev/null", "-m", strconv.Itoa(c.seconds), "-w", "%{http_code} %{time_total}"}
	if strings.Contains(target, "[") {
		list = append(list, "-g") // else curl reads the brackets as a range
	}
	return append(list, target)
}

// request returns what curl found. Its error says that curl did not run to its end.
func (c *curl) request(ctx context.Context, s subject) (*eventpb.ProbeResult, error) {
	if c.rest == nil {
		return nil, errNoCluster
	}
	ctx, cancel := context.WithTimeout(klog.NewContext(ctx, logr.Discard()), time.Duration(c.seconds)*time.Second+execGrace)
	defer cancel()
	command, err := c.executor(s)
	if err != nil {
		return nil, err
	}
	var stdout, stderr bytes.Buffer
	err = command.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &stdout, Stderr: &stderr})
	out := &eventpb.ProbeResult{Kind: "exec", Target: s.target, Pod: s.namespace + "/" + s.pod}
	var exit exec.CodeExitError
	if errors.As(err, &exit) {
		out.ExitCode, err = int32(exit.Code), nil
	}
	if err != nil {
		return nil, fmt.Errorf("exec in pod %s: %w", out.Pod, err)
	}
	if out.HttpCode, out.Seconds, err = parse(stdout.String()); err != nil {
		return nil, fmt.Errorf("curl in pod %s: exit code %d, %w: %s", out.Pod, out.ExitCode, err, strings.TrimSpace(stderr.String()))
	}
	return out, nil
}

// parse reads what -w printed, for example "000 0.003417".
func parse(text string) (code int32, seconds float64, err error) {
	first, second, ok := strings.Cut(strings.TrimSpace(text), " ")
	n, err1 := strconv.ParseInt(first, 10, 32)
	// Some locales write the point as a comma.
	seconds, err2 := strconv.ParseFloat(strings.Replace(second, ",", ".", 1), 64)
	if !ok || err1 != nil || err2 != nil {
		return 0, 0, fmt.Errorf("unexpected output %.100q", text)
	}
	return int32(n), seconds, nil
}

// executor speaks WebSocket, and SPDY to servers before 1.29 or behind proxies that do not know it.
func (c *curl) executor(s subject) (remotecommand.Executor, error) {
	at, err := c.url(s)
	if err != nil {
		return nil, err
	}
	ws, err := remotecommand.NewWebSocketExecutor(c.rest, "GET", at.String())
	if err != nil {
		return nil, fmt.Errorf("make exec client: %w", err)
	}
	spdy, err := remotecommand.NewSPDYExecutor(c.rest, "POST", at)
	if err != nil {
		return nil, fmt.Errorf("make exec client: %w", err)
	}
	return remotecommand.NewFallbackExecutor(ws, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
}

func (c *curl) url(s subject) (*url.URL, error) {
	client, err := typedcorev1.NewForConfig(c.rest)
	if err != nil {
		return nil, fmt.Errorf("make core client: %w", err)
	}
	return client.RESTClient().Post().Namespace(s.namespace).Resource("pods").Name(s.pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{
			Container: s.container, Command: c.command(s.target), Stdout: true, Stderr: true,
		}, scheme.ParameterCodec).URL(), nil
}
