package internal

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/tapedeck-io/tapedeck/internal/"

// What each package may import of the project, by prefix: a fact goes from left to right.
var may = map[string][]string{
	"events":         {"events"},
	"cli":            {"term"},
	"cilium":         {},
	"profile":        {"events"},
	"journal":        {"events", "journal"},
	"sources":        {"events"},
	"sources/bpfmap": {"events", "sources", "cilium"},
	"sources/probe":  {"events", "sources", "profile"},
	"projections":    {"events", "cilium", "profile", "term"},
	"recorder":       {"events", "journal", "projections", "profile", "sources"},
	"replay":         {"events", "journal", "projections", "recorder", "cilium", "term", "replay", "sources/hubble"},
}

func allowed(pkg string) []string {
	if list, ok := may[pkg]; ok {
		return list
	}
	if strings.HasPrefix(pkg, "sources/") {
		return []string{"events", "sources"}
	}
	top, _, _ := strings.Cut(pkg, "/")
	return may[top]
}

func TestImportsPointOneWay(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		pkg, ours := strings.CutPrefix(p.ImportPath, module)
		if !ours {
			continue
		}
		seen++
		for _, imp := range p.Imports {
			if to, ours := strings.CutPrefix(imp, module); ours && !reaches(allowed(pkg), to) {
				t.Errorf("%s imports %s; it may import %v", pkg, to, allowed(pkg))
			}
		}
	}
	if seen < len(may) {
		t.Errorf("%d packages seen, want at least %d", seen, len(may))
	}
}

func reaches(prefixes []string, pkg string) bool {
	for _, p := range prefixes {
		if pkg == p || strings.HasPrefix(pkg, p+"/") {
			return true
		}
	}
	return false
}
