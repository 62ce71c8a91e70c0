package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// The help of each command fits a terminal of 80 columns, and has each word of its description and of its flags.
func TestHelpFits80Columns(t *testing.T) {
	for _, c := range allCommands(newRoot(new(bool))) {
		var out bytes.Buffer
		c.SetOut(&out)
		c.InitDefaultHelpFlag()
		if err := c.Help(); err != nil {
			t.Fatal(err)
		}
		for line := range strings.SplitSeq(out.String(), "\n") {
			if utf8.RuneCountInString(line) > 80 {
				t.Errorf("%s: %d columns: %s", c.CommandPath(), utf8.RuneCountInString(line), line)
			}
		}
		if want := c.Long + " " + c.UsageString(); c.Long != "" && !strings.EqualFold(strings.Join(strings.Fields(out.String()), " "), strings.Join(strings.Fields(want), " ")) {
			t.Errorf("%s: the help has other words than its texts:\n%s", c.CommandPath(), out.String())
		}
	}
}

func allCommands(c *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{c}
	for _, one := range c.Commands() {
		if one.Name() != "completion" { // its texts are cobra's, and its subcommands' help has scripts
			all = append(all, allCommands(one)...)
		}
	}
	return all
}
