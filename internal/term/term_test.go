package term

import "testing"

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"web-65786f495b-k4wr6":    "web-65786f495b-k4wr6",
		"schön 東":                 "schön 東",
		"\x1b[2Jgone\r\n":         "�[2Jgone��",
		"csi \u009b31m, del \x7f": "csi �31m, del �",
	} {
		if got := Printable(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}
