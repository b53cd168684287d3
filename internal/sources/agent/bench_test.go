package agent

import (
	"os"
	"strings"
	"testing"
)

// A poll of the endpoints in which the controllers' times of one endpoint moved on, as on an idle node.
func BenchmarkDiffEndpoints(b *testing.B) {
	text, err := os.ReadFile("testdata/endpoints.json")
	if err != nil {
		b.Fatal(err)
	}
	bodies := [][]byte{text, []byte(strings.Replace(string(text), `"success-count":3`, `"success-count":4`, 1))}
	l := newList(resources[2])
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := l.diff(bodies[i%2]); err != nil {
			b.Fatal(err)
		}
	}
}
