package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/tapedeck-io/tapedeck/internal/projections"
)

func session(status, waits, source string) []projections.File {
	return []projections.File{{Name: "session.json", Data: []byte(`{"node":"n1","files":[{"file":"ct.json","step":4,"status":"` + status +
		`","waits_for":[` + waits + `]}],"sources":[{"source":"kube","status":"` + source + `"}]}`)}}
}

func TestScreenDrawsOverItself(t *testing.T) {
	var b bytes.Buffer
	s := &screen{w: &b, out: "/o", width: func() int { return 40 }}
	s.show(session("waiting", `"a live conntrack entry from 10.42.0.5:40404 that is long"`, "up"), projections.NewState())
	first := b.String()
	for _, line := range strings.Split(first, "\n") {
		if n := len([]rune(line)); n > 40 {
			t.Errorf("a line of %d characters would wrap: %q", n, line)
		}
	}
	b.Reset()
	s.show(session("waiting", `"a live conntrack entry from 10.42.0.5:40404 that is long"`, "up"), projections.NewState())
	if b.Len() != 0 {
		t.Error("drawn again without a change")
	}
	s.show(session("complete", "", "down"), projections.NewState())
	up := strings.Count(first, "\n")
	if want := "\x1b[" + string(rune('0'+up)) + "A\x1b[J"; !strings.HasPrefix(b.String(), want) {
		t.Errorf("second draw begins %q, want %q: as many lines up as were drawn", b.String()[:8], want)
	}
	if !strings.Contains(b.String(), "✔ step 4") || !strings.Contains(b.String(), "kube:down") {
		t.Errorf("second draw:\n%s", b.String())
	}
}

func TestForeignTextCannotSteerTheTerminal(t *testing.T) {
	var b bytes.Buffer
	s := &screen{w: &b, out: "/o", width: func() int { return 80 }}
	s.show(session("waiting", `"pod \u001b[2J\u009b"`, "up"), projections.NewState())
	if strings.ContainsAny(b.String(), "\x1b\u009b") {
		t.Errorf("escapes got through: %q", b.String())
	}
}

func TestScreenShowsTheWholeMendOnce(t *testing.T) {
	v := sessionJSON{}
	data := []byte(`{"sources":[{"source":"kube","error":"kubeconfig: none was found anywhere; name a file with --kubeconfig"},
		{"source":"probe","error":"kubeconfig: none was found anywhere; name a file with --kubeconfig"}]}`)
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	text := (&screen{width: func() int { return 40 }}).draw(v)
	flat := strings.Join(strings.Fields(text), " ")
	if want := "kube, probe: kubeconfig: none was found anywhere; name a file with --kubeconfig"; strings.Count(flat, want) != 1 {
		t.Errorf("want %q once in:\n%s", want, text)
	}
	for _, line := range strings.Split(text[strings.Index(text, "kube, probe"):], "\n") {
		if n := len([]rune(line)); n > 40 {
			t.Errorf("%d characters: %q", n, line)
		}
	}
}

func TestScreenShowsFindings(t *testing.T) {
	list := []*projections.Finding{
		{Rule: "slot-count", Subject: "10.43.0.7:80/TCP", Text: "slot 0 of 10.43.0.7:80/TCP counts 4 and 0 quarantined;\x1b[2J missing: slot 2", SinceNs: 1e9, FoundNs: 3e9},
		{Rule: "agent-pending", Subject: "10.43.0.8:80/TCP", SinceNs: 5e9, FoundNs: 20e9, EndedNs: 30e9},
	}
	got := (&screen{width: func() int { return 60 }}).findings(list)
	want := `
  findings  1 open, 1 ended
    error slot-count since 00:00:01.000: slot 0 of
      10.43.0.7:80/TCP counts 4 and 0 quarantined;�[2J
      missing: slot 2
    ended 00:00:30.000 after 25s: agent-pending 10.43.0.8:80/TCP
`
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	for range 40 {
		list = append([]*projections.Finding{list[0]}, list...)
	}
	if lines := strings.Count((&screen{width: func() int { return 60 }}).findings(list), "\n"); lines > 15 {
		t.Errorf("41 findings take %d lines: they push the rest off the screen", lines)
	}
}
