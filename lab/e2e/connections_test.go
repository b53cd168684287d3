package e2e

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
)

// connections: the holder's by its socket, and what comes by the packet path as Cilium's list of conntrack entries has it.
func (l *lab) connections() {
	l.eventually(settle, "connections.json equals the conntrack map", func() error {
		var file struct {
			Connections []struct {
				Client, Protocol, Frontend, Path string
				Backend                          *string
			}
		}
		if err := l.read("connections.json", &file); err != nil {
			return err
		}
		var got []string
		for _, c := range file.Connections {
			line := fmt.Sprintf("%s %s %s %s", c.Protocol, c.Client, c.Frontend, c.Path)
			if c.Path == "socket_lb" {
				line += " " + *c.Backend
			}
			got = append(got, line)
		}
		text, err := l.try("lab/oracle", "connections")
		if err != nil {
			return err
		}
		want := strings.Split(strings.TrimSpace(text), "\n")
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("oracle (-), file (+):\n%s", diff)
		}
		return nil
	})
}
