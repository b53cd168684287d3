package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tapedeck-io/tapedeck/internal/cli"
	"github.com/tapedeck-io/tapedeck/internal/projections"
	"sigs.k8s.io/yaml"
)

func stateCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "state TAPE FILE",
		Short: "Print one file as it was at a moment",
		Example: `  replay state incident.tape svc.json --at 10:37:06
  replay state incident.tape ct.json --at mark:before -o yaml`,
		Args:              tapeAndFile,
		ValidArgsFunction: completeTapeAndFile,
	}
	at := atFlag(c)
	format := formatFlag(c, "", "json", "yaml")
	c.RunE = func(c *cobra.Command, args []string) error {
		name := args[1]
		if *format != "" && !strings.HasSuffix(name, ".json") {
			return cli.Misuse(fmt.Errorf("%s is no JSON: leave -o away", name))
		}
		s, err := open(c, args[0])
		if err != nil {
			return err
		}
		defer s.Close()
		state, _, err := stateAt(c, s, at.Moment)
		if err != nil {
			return err
		}
		data, err := state.File(name)
		if errors.Is(err, projections.ErrNoFile) {
			return cli.Misuse(err)
		}
		if err == nil && *format == "yaml" {
			data, err = yaml.JSONToYAML(data)
		}
		if err != nil {
			return err
		}
		_, err = c.OutOrStdout().Write(data)
		return err
	}
	return c
}

func tapeAndFile(c *cobra.Command, args []string) error {
	if len(args) != 2 {
		return cli.Misuse(errors.New("name one tape or session folder, and one of its files, as svc.json"))
	}
	return nil
}
