package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// The help of every command fits 80 columns, but for examples, and says what it said before.
func TestHelpFitsATerminal(t *testing.T) {
	var look func(c *cobra.Command)
	look = func(c *cobra.Command) {
		var out strings.Builder
		c.SetOut(&out)
		if err := c.Help(); err != nil {
			t.Fatal(err)
		}
		examples := strings.Split(c.Example, "\n")
		for line := range strings.Lines(out.String()) {
			line = strings.TrimSuffix(line, "\n")
			if utf8.RuneCountInString(line) > 80 && !strings.Contains(strings.Join(examples, "\n"), line) {
				t.Errorf("%s: %s", c.CommandPath(), line)
			}
		}
		for _, below := range c.Commands() {
			look(below)
		}
	}
	root := newRoot(new(bool))
	look(root)
	if words := strings.Join(strings.Fields(root.Long), " "); !strings.HasSuffix(words, "Try them on yesterday's log before you enforce them.") {
		t.Error(words)
	}
}
