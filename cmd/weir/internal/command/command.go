// Package command contains the arguments and flags that several commands of the tool take, each with its checks: how lines
// are read, the form of the output, files. A mistake is an error of wrong use that says what to write instead. The package
// knows no command.
package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"weir/cmd/internal/exit"
	"weir/internal/nearest"
)

// NoArgs refuses arguments to a command that takes none.
func NoArgs(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return exit.Wrongf("%s takes no arguments, and %q is one; %s --help shows its flags", c.Name(), args[0], c.CommandPath())
}

// OneKey requires one key.
func OneKey(c *cobra.Command, args []string) error {
	if len(args) == 1 && strings.TrimSpace(args[0]) != "" {
		return nil
	}
	return exit.Wrongf("%s needs one key, in quotes if it has spaces; for example: %s", c.Name(), Example(c))
}

// Files requires at least one file, and standard input at most once.
func Files(c *cobra.Command, args []string) error {
	const stdin = "-"
	switch first := slices.Index(args, stdin); {
	case first >= 0 && slices.Contains(args[first+1:], stdin):
		return exit.Wrongf("- is named twice, and standard input can be read only once; leave one out")
	case len(args) > 0:
		return nil
	case strings.Contains(c.Use, "|"+stdin):
		return exit.Wrongf("%s needs a file, or - for standard input; for example: %s", c.Name(), Example(c))
	}
	return exit.Wrongf("%s needs a file; for example: %s", c.Name(), Example(c))
}

// Example returns the first example of a command, for messages.
func Example(c *cobra.Command) string {
	line, _, _ := strings.Cut(c.Example, "\n")
	return strings.TrimSpace(line)
}

// Known refuses arguments where only a command's name may stand.
func Known(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var known []string
	for _, command := range c.Commands() {
		known = append(known, command.Name())
	}
	return exit.Wrongf("unknown command %s; %s", args[0], nearest.Suggest(args[0], known, c.CommandPath()+" --help shows all: "))
}

// Complete lets shells complete a flag's value from a few words.
func Complete(c *cobra.Command, flag string, words []string) {
	if err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(fmt.Sprintf("weir: completion of --%s: %v", flag, err))
	}
}
