package agent

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"syscall"

	"github.com/tapedeck-io/tapedeck/internal/events"
)

// errNotAgent is an answer that the agent would not give.
var errNotAgent = errors.New("the answer is not a Cilium agent's")

// trouble makes a failure of the API one sentence: the socket, the cause, the mend.
func (c *client) trouble(err error) error {
	var answer *statusError
	t := &events.Trouble{Thing: "cilium agent at " + c.socket, Cause: err, Mend: "look at the agent's log; it is asked again by itself"}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		t.Cause = errors.New("there is no such socket")
		t.Mend = "start the Cilium agent on this node, or give its socket with --agent"
	case errors.Is(err, fs.ErrPermission):
		t.Cause = errors.New("permission denied")
		t.Mend = "run as root or as a member of the socket's group, or give the recorder CAP_DAC_OVERRIDE"
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOTSOCK):
		t.Cause = errors.New("nothing listens on it")
		t.Mend = "wait for the agent to come back, or see why its pod is not running (kubectl -n kube-system get pods -l k8s-app=cilium)"
	case isJSONError(err), errors.As(err, &answer) && answer.code == http.StatusNotFound:
		t.Mend = "give the agent's own socket with --agent; the default is " + DefaultSocket
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		t.Cause = errors.New("the agent closed the connection")
		t.Mend = "it is asked again by itself; if this repeats, see why the agent restarts"
	}
	return t
}
