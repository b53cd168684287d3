package timeline

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"time"

	flowpb "github.com/cilium/cilium/api/v1/flow"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/projections"
)

// fail makes a failure of a row. Failures of the same Services are joined until they succeed again.
func (r *reader) fail(f fact, run string, a netip.AddrPort) {
	r.failedAt = r.seen
	f.Kind, f.run, f.failed = KindFailure, run, true
	f.addr = a
	if pod := r.podAt[a]; pod != "" {
		f.from = []string{"pod ending " + pod, "pod down " + pod, "pod gone " + pod}
	}
	r.out(f)
}

func (r *reader) dropped(f *flowpb.Flow, ns int64, src, dst netip.AddrPort) {
	services := r.owners[dst]
	if name := r.byIP[dst]; name != "" {
		services = []string{name}
	}
	if len(services) == 0 || fromNode(f.Source) {
		return
	}
	reason := f.GetDropReasonDesc().String()
	row := r.row(KindFailure, services, dst.String(), fmt.Sprintf("packet from %s dropped: %s", who(f.Source, src), reason))
	r.fail(r.at(row, ns), "path "+strings.Join(services, " "), dst)
}

func (r *reader) reset(f *flowpb.Flow, ns int64, src, dst netip.AddrPort) {
	services := r.owners[src]
	row := r.row(KindFailure, services, src.String(), fmt.Sprintf("refused or reset (RST) the connection of %s", who(f.Destination, dst)))
	r.fail(r.at(row, ns), "path "+strings.Join(services, " "), src)
}

// successesFor is how long after a failure a success is looked for, in what was stored.
const successesFor = int64(time.Minute)

func (r *reader) answered(f *flowpb.Flow, ns int64, src, dst netip.AddrPort) {
	if r.failedAt == 0 || r.seen-r.failedAt > successesFor {
		return
	}
	services := r.owners[src]
	row := r.row(KindRecovered, services, src.String(), "accepts the connection of "+who(f.Destination, dst))
	row.run, row.okay = "path "+strings.Join(services, " "), true
	r.out(r.at(row, ns))
}

// probe tells when a probe's outcome changes.
func (r *reader) probe(b *eventpb.ProbeResult) {
	what, okay := outcome(b)
	before := r.probes[b.Name]
	if before == what && okay {
		return
	}
	r.probes[b.Name] = what
	from := ""
	if b.Pod != "" {
		from = " from " + b.Pod
	}
	took := short(time.Duration(b.Seconds * float64(time.Second)))
	text := fmt.Sprintf("probe of %s%s: %s after %s", b.Target, from, what, took)
	f := r.row(KindUse, r.probed(b.Name), b.Name, text)
	f.run = "probe " + b.Name
	switch {
	case !okay:
		r.fail(f, f.run, netip.AddrPort{})
	case before == "":
		r.out(f)
	default:
		f.Kind, f.okay = KindRecovered, true
		r.out(f)
	}
}

func outcome(b *eventpb.ProbeResult) (string, bool) {
	switch {
	case b.ExitCode == 7:
		return "refused", false
	case b.ExitCode == 28:
		return "timed out", false
	case b.ExitCode != 0:
		return fmt.Sprintf("failed (curl exit %d)", b.ExitCode), false
	case b.HttpCode >= 200 && b.HttpCode < 400:
		return fmt.Sprintf("HTTP %d", b.HttpCode), true
	case b.HttpCode == 0:
		return "no answer", false
	}
	return fmt.Sprintf("HTTP %d", b.HttpCode), false
}

// probed names the Service that a probe of the profile asks.
func (r *reader) probed(probe string) []string {
	p := r.state.Profile
	if p == nil {
		return nil
	}
	switch probe {
	case "nodeport":
		return []string{projections.Name{Namespace: p.Namespace, Name: p.NodePort.Service}.String()}
	case "ghost":
		return []string{projections.Name{Namespace: p.Namespace, Name: p.Ghost.Service}.String()}
	}
	return nil
}

var (
	failureText = regexp.MustCompile(`(?i)refused|timed? ?out|unreachable|no route|reset by peer|connection closed|fail`)
	addressText = regexp.MustCompile(`\[?[0-9a-fA-F:.]*[0-9a-fA-F]\]?:\d{1,5}`)
	stampText   = regexp.MustCompile(`^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*\s+`)
	connectText = regexp.MustCompile(`(?i)\bconnected\b`)
)

// log looks for lines that tell of a failed or made connection to a Service. A line that names none of its addresses
// is told of when it follows one that did.
func (r *reader) log(b *eventpb.LogLines) {
	for _, line := range b.Lines {
		failed := failureText.MatchString(line.Text)
		if !failed && !connectText.MatchString(line.Text) {
			continue
		}
		name := ""
		for _, text := range addressText.FindAllString(line.Text, -1) {
			if a, err := netip.ParseAddrPort(text); err == nil && r.byIP[a] != "" {
				name = r.byIP[a]
			}
		}
		pod := projections.Name{Namespace: b.Namespace, Name: b.Pod}.String()
		if name == "" {
			name = r.talks[pod]
		} else {
			r.talks[pod] = name
		}
		if name == "" || line.TimeNs < r.first {
			continue
		}
		row := r.at(r.row(KindRecovered, []string{name}, b.Pod, "log: "+stampText.ReplaceAllString(line.Text, "")), line.TimeNs)
		row.run = "log " + pod
		if failed {
			r.fail(row, row.run, netip.AddrPort{})
		} else {
			row.okay = true
			r.out(row)
		}
	}
}
