package term

import (
	"bytes"
	"testing"
)

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"web-65786f495b-k4wr6":    "web-65786f495b-k4wr6",
		"schön 東":                 "schön 東",
		"\x1b[2Jgone\r\n":         "�[2Jgone��",
		"csi \u009b31m, del \x7f": "csi �31m, del �",
		"\u202egnp.exe \u2066x":   "�gnp.exe �x",
		"two\u2028lines":          "two�lines",
		"cut \xe6\x9d":            "cut ��",
		"not UTF-8 \x9b31m":       "not UTF-8 �31m",
	} {
		if got := Printable(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}

// Whatever is written, in whatever pieces, no control character gets to the terminal but the ends of lines and tabs.
func FuzzWriter(f *testing.F) {
	f.Add([]byte("a\x1b[2J\u009b\tschön\n東"), 3)
	f.Add([]byte("\xc2\x9b\xe2\x80\xae"), 1)
	f.Fuzz(func(t *testing.T, text []byte, piece int) {
		var b bytes.Buffer
		w := NewWriter(&b)
		for rest := text; len(rest) > 0; {
			n := min(max(piece, 1), len(rest))
			if got, err := w.Write(rest[:n]); got != n || err != nil {
				t.Fatalf("%d of %d, %v", got, n, err)
			}
			rest = rest[n:]
		}
		for _, r := range b.String() {
			if steers(r) && r != '\n' && r != '\t' {
				t.Errorf("%q lets %q through: %q", text, r, b.String())
			}
		}
		if plain := bytes.Map(func(r rune) rune { return r }, text); !bytes.ContainsFunc(text, steers) && !bytes.HasPrefix(plain, b.Bytes()) {
			t.Errorf("%q becomes %q", text, b.String())
		}
	})
}
