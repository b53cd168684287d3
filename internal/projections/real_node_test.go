package projections

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/journal"
	"google.golang.org/protobuf/proto"
)

const faultsTape = "../../testdata/faults.tape"

// realNode is the node of faults.tape when the first faults are mended and all is known of it; what a test tells of it comes after
// that, a second apart.
func realNode(t *testing.T) *story {
	t.Helper()
	st := &story{T: t, s: NewState()}
	for _, r := range tapeRecords(t, faultsTape) {
		if n := len(st.s.Marks); n > 0 && st.s.Marks[n-1].Text == "fault neighbour" {
			break
		}
		st.apply(r)
	}
	st.event("recorder", &eventpb.Tick{})
	st.quiet("when the first faults are mended")
	return st
}

// podDevice is a device that a pod of the node has.
func (st *story) podDevice() string {
	for _, a := range st.s.Host.Attachments.Attachments {
		if strings.HasPrefix(a.Device, "lxc") {
			return a.Device
		}
	}
	st.Fatal("no pod has a device")
	return ""
}

func (st *story) apply(r journal.Record) {
	st.Helper()
	if err := st.s.ApplyRecord(r.Seq, r.Data); err != nil {
		st.Fatal(err)
	}
	st.now = st.s.SeenNs
}

// then tells of something a second later.
func (st *story) then(source string, body proto.Message) {
	st.now += 1e9
	st.event(source, body)
}

// pass lets seconds pass in which nothing happens.
func (st *story) pass(seconds int) {
	for range seconds {
		st.then("recorder", &eventpb.Tick{})
	}
}

func (st *story) quiet(when string) {
	st.Helper()
	st.wantOpen(when)
}

// attach tells of the node's programs as they are after a change.
func (st *story) attach(change func(a *eventpb.Attachments)) {
	a := proto.CloneOf(st.s.Host.Attachments)
	change(a)
	st.then("host", &eventpb.HostState{Attachments: a})
}

// detach takes the programs of that name away, and says how many they were.
func detach(a *eventpb.Attachments, is func(*eventpb.Attachment) bool) int {
	n := len(a.Attachments)
	a.Attachments = slices.DeleteFunc(a.Attachments, is)
	return n - len(a.Attachments)
}

// configure changes fields of the agent's status or configuration.
func (st *story) configure(kind string, change func(o map[string]any)) {
	st.Helper()
	var o map[string]any
	if err := json.Unmarshal(st.s.Agent[kind][""].Json, &o); err != nil {
		st.Fatal(err)
	}
	change(o)
	text, err := json.Marshal(o)
	if err != nil {
		st.Fatal(err)
	}
	st.then("agent", &eventpb.AgentObjects{Kind: kind, Objects: []*eventpb.AgentObject{{Json: text}}})
}

// replacement sets the mode of kube-proxy replacement.
func (st *story) replacement(mode string) {
	st.configure("status", func(o map[string]any) { o["kube-proxy-replacement"].(map[string]any)["mode"] = mode })
}

// agentDump is what a real agent said when it was started with some options.
type agentDump struct{ Status, Config json.RawMessage }

func readAgent(t *testing.T, name string) (d agentDump) {
	t.Helper()
	text, err := os.ReadFile("testdata/replacement/" + name + ".json")
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (st *story) agent(d agentDump) {
	for kind, text := range map[string]json.RawMessage{"status": d.Status, "config": d.Config} {
		st.event("agent", &eventpb.AgentObjects{Kind: kind, Complete: true, Objects: []*eventpb.AgentObject{{Json: text}}})
	}
}

// Each fault was made on a real node (lab/scenarios/node-faults) and mended: by hand, or by the agent that was started anew.
func TestFaultsOfARealNode(t *testing.T) {
	const device = "a pod's device"
	want := map[string]bool{ // rule and subject: whether it lasts at the end
		"kube-proxy-beside iptables-save":                      false,
		"kube-proxy-left kube-ipvs0":                           false,
		"rules-hidden iptables-legacy-save":                    false,
		"neighbour-failed 192.168.96.77":                       false,
		"socket-lb-incomplete cgroup_inet4_connect":            false,
		"program-missing " + device + " in cil_from_container": false,
		"program-doubled " + device + " in cil_from_container": false,
		"pin-unused cilium_lb4_affinity":                       false,
		"listener-collision 18080/TCP":                         false,
		"socket-lb-elsewhere socket LB":                        true,
	}
	gaps := map[string]bool{"bpfmap replaced": true, "agent source down": true, "hubble source down": true}
	st := &story{T: t, s: NewState()}
	for _, r := range tapeRecords(t, faultsTape) {
		st.apply(r)
	}
	validate(t, "node.json", []byte(st.text("node.json")))
	validate(t, "findings.json", []byte(st.text("findings.json")))
	pod := regexp.MustCompile(`lxc[0-9a-f]+`)
	for _, f := range st.s.Findings() {
		if f.Rule == recorderGap.name {
			delete(gaps, f.Subject)
			continue
		}
		name := f.Rule + " " + pod.ReplaceAllString(f.Subject, device)
		lasts, ok := want[name]
		if !ok || lasts != (f.EndedNs == 0) {
			t.Errorf("%s (wanted %t, lasting %t): %s; ended at %d", name, ok, lasts, f.Text, f.EndedNs)
		}
		delete(want, name)
	}
	for name := range want {
		t.Errorf("not found: %s", name)
	}
	for name := range gaps {
		t.Errorf("not told to be missed: %s", name)
	}
	st.wantText("socket-lb-elsewhere", "at the cgroup /sys/fs/cgroup/unified/tapedeck-trap, and none is at the root")
	st.wantText("listener-collision", "listens on 0.0.0.0:18080 (tcp), which is the HostPort 0.0.0.0:18080/TCP of the Pod sc-node-faults/web")
}
