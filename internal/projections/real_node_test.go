package projections

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/journal"
	"google.golang.org/protobuf/proto"
)

const faultsTape = "../../testdata/faults.tape"

// realNode is the node of faults.tape before the first fault; what a test tells of it comes after that, a second apart.
func realNode(t *testing.T) *story {
	t.Helper()
	st := &story{T: t, s: NewState()}
	for _, r := range tapeRecords(t, faultsTape) {
		if len(st.s.Marks) > 0 {
			break
		}
		st.apply(r)
	}
	st.event("recorder", &eventpb.Tick{})
	st.quiet("before the first fault")
	return st
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

// Each fault was made on a real node with the kernel's and Kubernetes' own tools, and mended: by hand, or by the agent that was
// started anew at the end.
func TestFaultsOfARealNode(t *testing.T) {
	want := map[string]bool{ // rule and subject: whether it lasts at the end
		"kube-proxy-beside iptables-save":                       false,
		"kube-proxy-left iptables-save":                         false,
		"kube-proxy-left kube-ipvs0":                            false,
		"rules-hidden iptables-legacy-save":                     false,
		"neighbour-failed 192.168.96.77":                        false,
		"socket-lb-incomplete cgroup_inet4_connect":             false,
		"program-missing lxc19b0f803ad3f in cil_from_container": false,
		"program-doubled lxcb7f9cd72bc6b in cil_from_container": false,
		"pin-unused cilium_lb4_affinity":                        false,
		"listener-collision 18080/TCP":                          false,
		"socket-lb-elsewhere socket LB":                         true,
		"recorder-gap bpfmap replaced":                          true,
		"recorder-gap agent source down":                        true,
		"recorder-gap hubble source down":                       true,
		"recorder-gap hubble lost":                              true,
	}
	st := &story{T: t, s: NewState()}
	for _, r := range tapeRecords(t, faultsTape) {
		st.apply(r)
	}
	validate(t, "node.json", []byte(st.text("node.json")))
	validate(t, "findings.json", []byte(st.text("findings.json")))
	for _, f := range st.s.Findings() {
		name := f.Rule + " " + f.Subject
		lasts, ok := want[name]
		if !ok || lasts != (f.EndedNs == 0) {
			t.Errorf("%s (wanted %t, lasting %t): %s; ended at %d", name, ok, lasts, f.Text, f.EndedNs)
		}
		delete(want, name)
	}
	for name := range want {
		t.Errorf("not found: %s", name)
	}
	st.wantText("socket-lb-elsewhere", "at the cgroup /sys/fs/cgroup/unified/tapedeck-trap, and none is at the root")
	st.wantText("pin-unused", "the pin cilium_lb4_affinity is the map 1817, and the attached programs use the map 1445 of that name")
	st.wantText("listener-collision", "listens on 0.0.0.0:18080 (tcp), which is the HostPort 0.0.0.0:18080/TCP of the Pod sc-hostport/web")
}
