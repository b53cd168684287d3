package e2e

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/journal"
	"google.golang.org/protobuf/proto"
)

// capabilities are those that deploy/tapedeck.service has.
func (l *lab) capabilities() []string {
	l.Helper()
	text, err := os.ReadFile(filepath.Join(l.root, "deploy/tapedeck.service"))
	if err != nil {
		l.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\nCapabilityBoundingSet=")
	rest, _, _ = strings.Cut(rest, "\n")
	return strings.Fields(strings.ReplaceAll(strings.ToLower(rest), "cap_", ""))
}

// missing runs a check with these capabilities alone, and returns what it says is missing, by source.
func (l *lab) missing(caps []string, user ...string) map[string][]string {
	l.Helper()
	set := "-all"
	for _, c := range caps {
		set += ",+" + c
	}
	args := append([]string{"setpriv", "--no-new-privs", "--bounding-set", set}, user...)
	args = append(args, filepath.Join(l.root, "bin/recorder"), "check", "--profile", "cca-datapath", "--out", l.out, "--session", l.session)
	text, err := l.try("lab/exec", args...)
	found := map[string][]string{}
	for row := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(row, "MISSING"); ok {
			source, sentence, _ := strings.Cut(strings.TrimSpace(rest), " ")
			found[source] = append(found[source], strings.TrimSpace(sentence))
		}
	}
	if (err == nil) != (len(found) == 0) || len(text) == 0 {
		l.Errorf("check with %v: %v\n%s", caps, err, text)
	}
	return found
}

// TestRights: with the capabilities of deploy/ everything is seen; without each, the source that needs it names it.
func TestRights(t *testing.T) {
	l := start(t)
	l.run("lab/steps", "1", "4", "6", "7")
	all := l.capabilities()
	if found := l.missing(all); len(found) > 0 {
		t.Errorf("with %v: %v", all, found)
	}
	// What takes cap_dac_read_search is not on a node whose agent attaches at the root of its cgroups.
	needed := map[string]int{"net_admin": 2, "sys_admin": 3, "sys_ptrace": 1, "dac_read_search": 0}
	for i, cap := range all {
		found := l.missing(slices.Delete(slices.Clone(all), i, i+1))
		for source, list := range found {
			for _, sentence := range list {
				if source != "host" || !strings.Contains(sentence, "; give the recorder CAP_"+strings.ToUpper(cap)) {
					t.Errorf("without %s: %s: %s", cap, source, sentence)
				}
			}
		}
		if want, known := needed[cap]; !known || len(found["host"]) != want {
			t.Errorf("without %s: %d things are missing, want %d: %v", cap, len(found["host"]), want, found)
		}
	}
	l.anotherUser(all)
}

// anotherUser than root owns neither pins nor sockets.
func (l *lab) anotherUser(all []string) {
	open := filepath.Join(l.TempDir(), "open")
	for _, dir := range []*string{&l.out, &l.session} {
		*dir = filepath.Join(open, filepath.Base(*dir))
	}
	for dir := open; dir != os.TempDir() && len(dir) > 1; dir = filepath.Dir(dir) {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			l.Fatal(err)
		}
		if err := os.Chmod(dir, 0o777); err != nil {
			l.Fatal(err)
		}
	}
	found := l.missing(all, "--reuid", "65534", "--regid", "65534", "--clear-groups")
	for source, mend := range map[string]string{"bpfmap": "give the recorder CAP_DAC_READ_SEARCH", "agent": "give the recorder CAP_DAC_OVERRIDE", "hubble": "give the recorder CAP_DAC_OVERRIDE"} {
		if list := found[source]; len(list) != 1 || !strings.HasSuffix(list[0], mend) {
			l.Errorf("as another user without capabilities, %s: %q", source, list)
		}
	}
}

// TestDaemonSet applies what deploy/ has, with the lab's image and folders of the test, and has the recorder see
// everything from there.
func TestDaemonSet(t *testing.T) {
	l := start(t)
	l.run("lab/image")
	l.run("lab/steps", "1")
	l.deploy("tapedeck.yaml", "profile-cca-datapath.yaml")
	l.eventually(90*time.Second, "all sources up", l.sourcesUp)
	l.run("lab/steps", "3", "4", "6", "7")
	l.complete()
	for _, name := range []string{"iptables", "ct", "prog", "nodeport"} {
		l.equals(name)
	}
	l.report()
	l.canDoNoMore()

	tape := filepath.Join(t.TempDir(), "pod.tape")
	l.run("bin/recorder", "pack", "--session", l.session, "-o", tape)
	l.wholeHost(tape)
}

// deploy applies manifests with the lab's image, the test's folders and the profile, and takes them away at the end.
func (l *lab) deploy(files ...string) {
	l.Helper()
	all := ""
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join(l.root, "deploy", name))
		if err != nil {
			l.Fatal(err)
		}
		all += "---\n" + string(text)
	}
	for old, lab := range map[string]string{
		"image: tapedeck:latest":              "image: lab.local/recorder:1",
		"hostPath: {path: /var/lib/tapedeck,": "hostPath: {path: " + filepath.Dir(l.session) + ",",
		"hostPath: {path: /run/tapedeck,":     "hostPath: {path: " + l.out + ",",
		"args: [run,":                         "args: [run, --profile, cca-datapath,",
		"/var/lib/tapedeck/session, --out":    "/var/lib/tapedeck/" + filepath.Base(l.session) + ", --out",
	} {
		if strings.Count(all, old) != 1 {
			l.Fatalf("%q is there %d times", old, strings.Count(all, old))
		}
		all = strings.Replace(all, old, lab, 1)
	}
	file := filepath.Join(l.TempDir(), "deploy.yaml")
	if err := os.WriteFile(file, []byte(all), 0o600); err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() {
		if l.Failed() {
			text, err := l.try("lab/exec", "kubectl", "-n", "tapedeck", "logs", "ds/tapedeck", "--tail", "50")
			l.Logf("pod's log (%v):\n%s", err, text)
			text, _ = l.try("lab/exec", "kubectl", "-n", "tapedeck", "describe", "pods")
			l.Log(text)
		}
		l.run("lab/exec", "kubectl", "delete", "-f", file, "--wait=true")
	})
	l.run("lab/exec", "kubectl", "apply", "-f", file)
}

// canDoNoMore asks the API server what the recorder's account may do.
func (l *lab) canDoNoMore() {
	l.Helper()
	for question, want := range map[string]string{
		"list services -A": "yes", "watch endpointslices.discovery.k8s.io -A": "yes", "list ciliumendpoints.cilium.io -A": "yes",
		"list pods -A": "yes", "list nodes": "yes",
		"get pods/holder --subresource log -n cca-dp": "yes", "create pods/probe --subresource exec -n cca-dp": "yes",
		"list secrets -A": "no", "list configmaps -A": "no", "get secrets -n cca-dp": "no", "delete pods -n cca-dp": "no",
		"create pods -n cca-dp": "no", "patch services -n cca-dp": "no", "get pods/other --subresource log -n cca-dp": "no",
		"create pods/other --subresource exec -n cca-dp": "no", "get pods/holder --subresource log -n default": "no",
		"get pods/etcd --subresource log -n kube-system": "no", "create nodes --subresource proxy": "no", "impersonate users": "no",
	} {
		args := append([]string{"kubectl", "auth", "can-i", "--as", "system:serviceaccount:tapedeck:tapedeck"}, strings.Fields(question)...)
		got, err := l.try("lab/exec", args...) // which fails for a no
		if got = strings.TrimSpace(got); !strings.HasPrefix(got, want) {
			l.Errorf("can-i %s: %q (%v), want %s", question, got, err, want)
		}
	}
}

// wholeHost: nothing on the tape says that the host source may not see something.
func (l *lab) wholeHost(path string) {
	l.Helper()
	tape, err := journal.OpenTape(path)
	if err != nil {
		l.Fatal(err)
	}
	defer tape.Close()
	unreadable, pods, rules := map[string]bool{}, map[string]bool{}, 0
	err = tape.Read(context.Background(), 0, ^uint64(0), func(r journal.Record) error {
		var e eventpb.Event
		if err := proto.Unmarshal(r.Data, &e); err != nil {
			return err
		}
		for _, u := range e.GetHost().GetAttachments().GetUnreadable() {
			unreadable[u] = true
		}
		for _, set := range e.GetHost().GetRuleSets() {
			rules += len(set.Lines)
			if set.Unreadable != "" {
				unreadable[set.Unreadable] = true
			}
		}
		for _, p := range e.GetHost().GetPodSockets() {
			if !p.Gone && p.NetnsCookie != 0 {
				pods[p.Namespace+"/"+p.Pod] = true
			}
		}
		return nil
	})
	if err != nil {
		l.Fatal(err)
	}
	if len(unreadable) > 0 || rules == 0 || !pods["cca-dp/holder"] {
		l.Errorf("not readable: %v; %d lines of rules; pods with cookies: %v", slices.Sorted(maps.Keys(unreadable)), rules, slices.Sorted(maps.Keys(pods)))
	}
}
