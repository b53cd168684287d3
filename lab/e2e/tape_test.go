package e2e

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestTape records the eight steps and nothing else, and keeps the tape in the folder TAPEDECK_KEEP names, with
// what the oracle said when each file was complete.
func TestTape(t *testing.T) {
	keep := os.Getenv("TAPEDECK_KEEP")
	if keep == "" {
		t.Skip("records testdata anew: run `make tape`")
	}
	l := start(t)
	l.record()
	oracle := filepath.Join(keep, "lab")
	if err := os.MkdirAll(oracle, 0o755); err != nil {
		t.Fatal(err)
	}
	save := func(name, file string) {
		if err := os.WriteFile(filepath.Join(oracle, file), []byte(l.run("lab/oracle", name)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	mark := func(text string) { l.run("bin/recorder", "mark", "--session", l.session, text) }
	for _, step := range []string{"1", "2"} {
		mark("step " + step)
		l.run("lab/steps", step)
	}
	l.equals("iptables")
	l.equals("svc")
	save("svc", "svc.json")
	mark("step 3")
	l.run("lab/steps", "3")
	l.scaled()
	for _, s := range []struct{ step, name string }{{"4", "ct"}, {"5", "prog"}, {"6", "nodeport"}} {
		mark("step " + s.step)
		l.run("lab/steps", s.step)
		l.equals(s.name)
	}
	mark("step 7")
	l.run("lab/steps", "7")
	l.ghost()
	mark("step 8")
	l.report()
	l.complete()
	for _, name := range []string{"iptables", "scale", "ct", "prog", "nodeport", "ghost"} {
		save(name, name+".json")
	}
	save("report", "report.txt")
	l.stop(syscall.SIGTERM)
	l.run("bin/recorder", "pack", "--session", l.session, "-o", filepath.Join(keep, "lab.tape"))
}
