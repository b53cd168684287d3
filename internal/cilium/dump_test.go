package cilium

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// dumpedMap is one pinned map of a real node: raw entries beside what Cilium's own tools printed of them.
type dumpedMap struct {
	Name      string `json:"name"`
	KeySize   uint32 `json:"key_size"`
	ValueSize uint32 `json:"value_size"`
	Entries   []struct{ Key, Value hexBytes }
}

type hexBytes []byte

func (h *hexBytes) UnmarshalText(text []byte) error {
	b, err := hex.DecodeString(string(text))
	*h = b
	return err
}

func readJSON[T any](t testing.TB, path string) T {
	t.Helper()
	var v T
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// dumps runs f over each dumped node.
func dumps(t *testing.T, f func(t *testing.T, dir string, maps []dumpedMap)) {
	dirs, _ := filepath.Glob("testdata/*/maps.json")
	if len(dirs) == 0 {
		t.Fatal("no dumps in testdata")
	}
	for _, file := range dirs {
		dir := filepath.Dir(file)
		t.Run(filepath.Base(dir), func(t *testing.T) { f(t, dir, readJSON[[]dumpedMap](t, file)) })
	}
}

// decodeAll decodes the entries of every dumped map of one of the kinds.
func decodeAll[T any](t *testing.T, maps []dumpedMap, decode func(key, value []byte) (T, error), kinds ...Kind) []T {
	t.Helper()
	var all []T
	for _, m := range maps {
		l, ok := Lookup(m.Name, m.KeySize, m.ValueSize)
		for _, k := range kinds {
			if !ok || l.Kind != k {
				continue
			}
			for _, e := range m.Entries {
				v, err := decode(e.Key, e.Value)
				if err != nil {
					t.Fatalf("%s: %x %x: %v", m.Name, e.Key, e.Value, err)
				}
				all = append(all, v)
			}
		}
	}
	return all
}
