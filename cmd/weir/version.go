package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/command"
	"weir/cmd/weir/internal/output"
)

func newVersion() *cobra.Command {
	var forms command.Output
	c := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  weir version",
		Args:    command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if forms.Form == "json" {
				return output.JSON(c.OutOrStdout()).Encode(map[string]string{"version": version(), "go": runtime.Version()})
			}
			_, err := fmt.Fprintln(c.OutOrStdout(), "weir", version(), runtime.Version())
			return err
		},
	}

	forms.Add(c, "text", "json")
	return c
}

// version returns the version that the build recorded: a tag, or a commit's time and hash.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}

func newMan() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIRECTORY",
		Short:   "Write the man pages into a directory",
		Example: "  weir man /usr/local/share/man/man1",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				return nil
			}

			return exit.Wrongf("man needs one directory; for example: %s", command.Example(c))
		},
		Hidden: true,
		RunE: func(c *cobra.Command, args []string) error {
			c.Root().DisableAutoGenTag = true
			return doc.GenManTree(c.Root(), &doc.GenManHeader{Title: "WEIR", Section: "1", Source: "Weir"}, args[0])
		},
	}
}
