package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		said string
	}{
		{"do --must x", 0, ""},
		{"do --must found", 1, ""},
		{"do --must fail", 1, "tool: no disk\n"},
		{"do --must misuse", 2, "tool: want a or b\n"},
		{"do", 2, "tool: required flag(s) \"must\" not set\n"},
		{"do --no-such", 2, "tool: unknown flag: --no-such\n"},
		{"frob", 2, "tool: unknown command \"frob\" for \"tool\"\n"},
	} {
		root := &cobra.Command{Use: "tool"}
		do := &cobra.Command{Use: "do", Args: func(cmd *cobra.Command, args []string) error { return Misuse(cobra.NoArgs(cmd, args)) }}
		must := do.Flags().String("must", "", "")
		_ = do.MarkFlagRequired("must")
		do.RunE = func(*cobra.Command, []string) error {
			switch *must {
			case "found":
				return ErrFound
			case "fail":
				return errors.New("no disk")
			case "misuse":
				return Misuse(errors.New("want a or b"))
			}
			return nil
		}
		root.AddCommand(do)
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), root, strings.Fields(c.args), &stdout, &stderr); code != c.code || stderr.String() != c.said || stdout.Len() > 0 {
			t.Errorf("%q: code %d, said %q, want %d, %q", c.args, code, stderr.String(), c.code, c.said)
		}
	}
}
