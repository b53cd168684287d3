package projections

import (
	"fmt"
	"strconv"

	"github.com/tapedeck-io/tapedeck/internal/term"
)

// reportView makes report.txt: seven lines from the state now, "unknown" for what is not known.
func reportView(s *State, w *waits) any {
	mode, haveMode := s.KubeProxyReplacement()
	coverage, haveCoverage := s.SocketLBCoverage()
	response, haveResponse := s.NoBackendResponse()
	front, haveFront := s.webFrontend()
	slots := 0
	if haveFront {
		slots = len(s.LB.slots(front))
	}
	backend, haveBackend := s.holderBackend()
	program, haveProgram := s.holderProgram()
	lines, haveLines := s.nodePortLines()

	out := ""
	for _, l := range []struct {
		key, source, value string
		known              bool
	}{
		{"kube_proxy_replacement", "agent", mode, haveMode},
		{"socket_lb_coverage", "agent", coverage, haveCoverage},
		{"web_backends", "bpfmap", strconv.Itoa(slots), haveFront},
		{"holder_backend", "bpfmap", backend.String(), haveBackend},
		{"holder_program", "host", program, haveProgram},
		{"nodeport_iptables_lines", "host", strconv.Itoa(lines), haveLines},
		{"ghost_no_backend_response", "agent", response, haveResponse},
	} {
		if need(w, l.source, l.key, 0, l.known) == nil {
			l.value = "unknown"
		}
		out += fmt.Sprintf("%s=%s\n", l.key, term.Printable(l.value)) // a line stays a line
	}
	return text(out)
}
