package profile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tapedeck-io/tapedeck/profiles"
)

func lab(t *testing.T) string {
	t.Helper()
	text, err := profiles.FS.ReadFile("cca-datapath.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestProfilesThatComeWithTheRecorderAreRead(t *testing.T) {
	if len(Names()) == 0 {
		t.Fatal("none")
	}
	for _, name := range Names() {
		p, text, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if p.Name != name || text == "" {
			t.Errorf("%s names itself %q", name, p.Name)
		}
	}
}

func TestFileOfOnesOwn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mine.yaml")
	text := strings.Replace(lab(t), "namespace: cca-dp", "namespace: mine", 1)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p, _, err := Load(path)
	if err != nil || p.Namespace != "mine" {
		t.Errorf("namespace %v, error %v", p, err)
	}
}

func TestBadProfilesNameTheKey(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"holder: {pod: holder, port: 40404}", "holder: {pod: holder, prot: 40404}", `unknown field "prot"`},
		{"holder: {pod: holder, port: 40404}", "holder: {port: 40404}", "holder.pod is missing"},
		{"port: 40404", "port: 404040", "holder.port"},
		{"namespace: cca-dp\n", "", "namespace is missing"},
		{"scaledTo: 4", "scaledTo: four", "scaledTo"},
		{"scaledTo: 4", "scaledTo: 2", "want more than web.replicas"},
		{"probePod: probe, ", "", "ghost.probePod is missing"},
		{"kind: Profile", "kind: Pod", `kind "Pod"`},
		{"apiVersion: tapedeck.io/v1", "apiVersion: tapedeck.io/v9", "tapedeck.io/v9"},
		{"name: cca-datapath", "name: a\nname: b", `"name"`},
	} {
		text := strings.Replace(lab(t), c.from, c.to, 1)
		if text == lab(t) {
			t.Fatalf("the profile has no %q", c.from)
		}
		_, err := Parse([]byte(text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want one with %q", c.to, err, c.want)
		}
	}
}

func TestMissingProfileSaysWhatThereIs(t *testing.T) {
	_, _, err := Load("no-such")
	if err == nil || !strings.Contains(err.Error(), "cca-datapath") || strings.Count(err.Error(), "\n") != 0 {
		t.Errorf("error %v", err)
	}
}
