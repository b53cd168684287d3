package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// system is a PATH with save commands that print a version and one rule, and a /proc with the legacy tables.
type system struct{ bin, proc string }

func newSystem(t *testing.T) system {
	s := system{t.TempDir(), t.TempDir()}
	t.Setenv("PATH", s.bin)
	return s
}

func (s system) install(t *testing.T, command, mode, rule string) {
	write(t, filepath.Join(s.bin, command), `#!/bin/sh
[ "$*" = "" ] || [ "$*" = "-V" ] || { echo "called with $*" >&2; exit 9; }
[ "$1" = "-V" ] && { echo "`+command+` v1.8.9 (`+mode+`)"; exit; }
echo "*filter"
echo "`+rule+`"
echo COMMIT
`, 0o755)
}

func (s system) look(t *testing.T, r *rules) map[string]*eventpb.RuleSet {
	t.Helper()
	out := &eventpb.HostState{}
	if err := r.look(t.Context(), out); err != nil {
		t.Fatal(err)
	}
	sets := map[string]*eventpb.RuleSet{}
	for _, set := range out.RuleSets {
		sets[set.Command] = set
	}
	return sets
}

func TestRulesWithoutTheCommandAreNotEmptyButUnreadable(t *testing.T) {
	s := newSystem(t)
	sets := s.look(t, newRules(New(Config{Proc: s.proc}).cfg))
	for _, command := range []string{"iptables-save", "ip6tables-save"} {
		if got := sets[command].GetUnreadable(); got != command+": not installed" {
			t.Errorf("%s: unreadable %q", command, got)
		}
	}
}

func TestLegacyRulesAreReadOnlyWhereTablesAreLoaded(t *testing.T) {
	s := newSystem(t)
	s.install(t, "iptables-save", "nf_tables", "-A INPUT -j NFT")
	s.install(t, "ip6tables-save", "nf_tables", "-A INPUT -j NFT")
	s.install(t, "iptables-legacy-save", "legacy", "-A KUBE-SVC-X -j OLD")
	r := newRules(New(Config{Proc: s.proc}).cfg)

	if got := s.look(t, r); got["iptables-legacy-save"] != nil || len(got) != 2 {
		t.Errorf("without legacy tables: %v", got)
	}
	write(t, filepath.Join(s.proc, "self/net/ip_tables_names"), "", 0o644)
	if got := s.look(t, r); len(got) != 0 {
		t.Errorf("with the module but no table: %v", got)
	}
	write(t, filepath.Join(s.proc, "self/net/ip_tables_names"), "filter\n", 0o644)
	want := []string{"*filter", "-A KUBE-SVC-X -j OLD", "COMMIT"}
	got := s.look(t, r)["iptables-legacy-save"]
	if diff := cmp.Diff(want, got.GetLines()); diff != "" || got.GetVersion() != "v1.8.9 (legacy)" {
		t.Errorf("version %q, lines %s", got.GetVersion(), diff)
	}

	// Tables that are unloaded later leave an empty set, not the old one.
	write(t, filepath.Join(s.bin, "iptables-legacy-save"), "#!/bin/sh\n", 0o755)
	write(t, filepath.Join(s.proc, "self/net/ip_tables_names"), "", 0o644)
	if got := s.look(t, r)["iptables-legacy-save"]; got == nil || len(got.Lines) != 0 {
		t.Errorf("after unloading: %v", got)
	}
}

func TestRulesOfNftAreReadWhereThePlainCommandIsLegacy(t *testing.T) {
	s := newSystem(t)
	s.install(t, "iptables-save", "legacy", "-A INPUT -j OLD")
	s.install(t, "iptables-nft-save", "nf_tables", "-A INPUT -j HIDDEN")
	s.install(t, "ip6tables-save", "legacy", "-A INPUT -j OLD")
	s.install(t, "iptables-legacy-save", "legacy", "-A INPUT -j OLD")
	write(t, filepath.Join(s.proc, "self/net/ip_tables_names"), "filter\n", 0o644)

	sets := s.look(t, newRules(New(Config{Proc: s.proc}).cfg))
	if got := strings.Join(sets["iptables-nft-save"].GetLines(), "\n"); !strings.Contains(got, "HIDDEN") {
		t.Errorf("nft rules: %q", got)
	}
	if len(sets) != 3 {
		t.Errorf("the same rules twice: %v", sets)
	}
}

func write(t *testing.T, file, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}
