package sourcetest

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// NeedLab skips unless the test runs on the lab's node (lab/sources). There, what is absent fails the test.
func NeedLab(t *testing.T) {
	t.Helper()
	if os.Getenv("TAPEDECK_LAB") != "1" {
		t.Skip("needs the one-node cluster of lab/; set TAPEDECK_LAB=1 and run it with lab/exec")
	}
}

// Kubectl returns what kubectl prints.
func Kubectl(t *testing.T, stdin string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("kubectl", args...)
	cmd.Stdin = strings.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, stderr.String())
	}
	return out
}

// Namespace makes a namespace for the test's own objects.
func Namespace(t *testing.T, name string) {
	t.Helper()
	Kubectl(t, "", "create", "namespace", name)
	t.Cleanup(func() { Kubectl(t, "", "delete", "namespace", name, "--wait=false") })
}
