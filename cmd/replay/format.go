package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// format is the value of -o: one of a command's formats.
type format struct {
	value *string
	known []string
}

func (f format) Set(s string) error {
	if !slices.Contains(f.known, s) {
		return fmt.Errorf("want one of %s", strings.Join(f.known, ", "))
	}
	*f.value = s
	return nil
}

func (f format) String() string { return *f.value }
func (f format) Type() string   { return strings.Join(f.known, "|") }

// formatFlag adds -o with these formats; first is the default.
func formatFlag(c *cobra.Command, first string, known ...string) *string {
	f := format{&first, known}
	c.Flags().VarP(f, "output", "o", "how to print")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(known, cobra.ShellCompDirectiveNoFileComp))
	return f.value
}

// printAs prints a value as json or yaml.
func printAs(w io.Writer, format string, value any) error {
	if format == "yaml" {
		b, err := yaml.Marshal(value)
		if err == nil {
			_, err = w.Write(b)
		}
		return err
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(value)
}
