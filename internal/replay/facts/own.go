package facts

import (
	"fmt"
	"strings"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// What the recorder says of itself and of its sources, and what it did: probes.

type start struct{ *eventpb.Session }

func (b start) members() []member { return []member{{"session_start", messageOf(b.Session)}} }
func (start) refs(*Refs)          {}
func (b start) text(*Book) string {
	text := fmt.Sprintf("recorder %s started, kernel %s, sources %s", b.ToolVersion, b.Kernel, strings.Join(b.Sources, " "))
	if b.ProfileName != "" {
		text += ", profile " + b.ProfileName
	}
	return text
}

type status struct {
	source string
	*eventpb.SourceStatus
}

func (b status) members() []member { return []member{{"status", messageOf(b.SourceStatus)}} }
func (status) refs(*Refs)          {}
func (b status) text(*Book) string {
	text := b.source + " is " + nameOf(b.State)
	if b.Error != "" {
		text += ": " + b.Error
	}
	return text
}

type gap struct {
	source string
	*eventpb.Gap
}

func (b gap) members() []member { return []member{{"gap", messageOf(b.Gap)}} }
func (gap) refs(*Refs)          {}
func (b gap) text(*Book) string {
	text := fmt.Sprintf("%s missed %s to %s (%s): %s", b.source, milli(b.FromNs), milli(b.ToNs),
		time.Duration(b.ToNs-b.FromNs).Round(time.Millisecond), nameOf(b.Reason))
	if b.Count > 0 {
		text += fmt.Sprintf(", %d facts", b.Count)
	}
	if b.Detail != "" {
		text += ", " + b.Detail
	}
	return text
}

func milli(ns int64) string { return time.Unix(0, ns).UTC().Format("15:04:05.000") }

type mark struct{ *eventpb.Mark }

func (b mark) members() []member { return []member{{"mark", messageOf(b.Mark)}} }
func (mark) refs(*Refs)          {}
func (b mark) text(*Book) string { return b.Text }

type probe struct{ *eventpb.ProbeResult }

func (b probe) members() []member { return []member{{"probe", messageOf(b.ProbeResult)}} }

func (b probe) name() string { return b.Name }

func (b probe) refs(r *Refs) {
	r.addPod(b.Pod)
	target := strings.TrimPrefix(strings.TrimPrefix(b.Target, "http://"), "https://")
	target, _, _ = strings.Cut(target, "/")
	r.addSocket(target)
}

func (b probe) text(*Book) string {
	from := "the node"
	if b.Pod != "" {
		from = b.Pod
	}
	text := fmt.Sprintf("%s %s from %s: ", b.Name, b.Target, from)
	switch {
	case b.HttpCode != 0:
		text += fmt.Sprintf("HTTP %d", b.HttpCode)
	case b.ExitCode == 7:
		text += "refused"
	case b.ExitCode == 28:
		text += "timed out"
	default:
		text += fmt.Sprintf("curl exit %d", b.ExitCode)
	}
	return text + fmt.Sprintf(" after %.3fs", b.Seconds)
}

// logLine is one line of a container's log.
type logLine struct {
	log *eventpb.LogLines
	*eventpb.LogLine
}

func (s *splitter) log(b *eventpb.LogLines) {
	for _, l := range b.Lines {
		s.add("", Told, l.TimeNs, logLine{b, l})
	}
}

func (l logLine) members() []member {
	o := object{
		{"namespace", l.log.Namespace}, {"pod", l.log.Pod}, {"pod_uid", l.log.PodUid},
		{"container", l.log.Container}, {"container_id", l.log.ContainerId}, {"text", l.LogLine.Text},
	}
	if l.Cut > 0 {
		o = append(o, member{"cut", l.Cut})
	}
	return []member{{"log", o}}
}

func (l logLine) name() string { return l.log.Namespace + "/" + l.log.Pod + "/" + l.log.Container }

func (l logLine) refs(r *Refs) { r.addPod(l.log.Namespace + "/" + l.log.Pod) }
func (l logLine) text(*Book) string {
	return fmt.Sprintf("%s/%s %s: %s", l.log.Namespace, l.log.Pod, l.log.Container, l.LogLine.Text)
}

// addPod takes namespace/name; anything else is passed over.
func (r *Refs) addPod(name string) {
	if ns, pod, ok := strings.Cut(name, "/"); ok && ns != "" && pod != "" {
		r.Namespaces, r.Pods = append(r.Namespaces, ns), append(r.Pods, name)
	}
}

// empty is a list that has nothing in it.
type empty struct{ what string }

func (empty) members() []member   { return []member{{"empty", true}} }
func (empty) refs(*Refs)          {}
func (e empty) text(*Book) string { return e.what }

// unknown is an event of a kind that this version does not know.
type unknown struct{ bytes int }

func (u unknown) members() []member { return []member{{"unknown_bytes", u.bytes}} }
func (unknown) refs(*Refs)          {}
func (u unknown) text(*Book) string {
	return fmt.Sprintf("%d bytes of a kind that this version does not know", u.bytes)
}

// Failed says of a probe that it had no answer, or the answer of a server that failed.
func (f *Fact) Failed() bool {
	b, ok := f.body.(probe)
	return ok && (b.HttpCode == 0 && b.ExitCode != 0 || b.HttpCode >= 500)
}
