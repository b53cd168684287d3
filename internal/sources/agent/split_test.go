package agent

import (
	"bytes"
	"encoding/json"
	"testing"
)

// encoding/json is the oracle: what it takes as a list is cut into the same elements.
func FuzzSplitList(f *testing.F) {
	for _, seed := range []string{
		`[]`, ` [ ] `, `[1,2]`, `[{"a":[1,{"b":"]}"}]},null,"x\"],[", -1.5e3]`, `[[],[[]],{}]`, "[\n{\"a\" : 1} ,\t{}]",
		`{}`, `[`, `]`, `[}`, `[{]`, `[1][2]`, `1`, `"a"`, `[1,]`, `["`, `["\`, `[]]`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := splitList(body)
		var want []json.RawMessage
		if json.Unmarshal(body, &want) != nil || want == nil {
			return // not a list: any answer, but no panic
		}
		if err != nil || len(got) != len(want) {
			t.Fatalf("%q: %d elements, %v; want %d", body, len(got), err, len(want))
		}
		for i := range want {
			if !bytes.Equal(bytes.TrimSpace(got[i]), want[i]) {
				t.Errorf("%q: element %d is %q, want %q", body, i, got[i], want[i])
			}
		}
	})
}
