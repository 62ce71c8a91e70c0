package operate

import (
	"fmt"

	"github.com/spf13/cobra"

	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/command"
	"weir/cmd/weir/internal/output"
	"weir/internal/keys"
)

func newKeysRemove() *cobra.Command {
	var flags keysFlags
	var name string
	var forms command.Output
	c := &cobra.Command{
		Use:     "remove --name NAME [flags]",
		Short:   "Remove an API key",
		Example: "  weir keys remove --name edge-1",
		Args:    command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if name == "" {
				return exit.Wrongf("name the key with --name; for example: %s", command.Example(c))
			}
			path, err := flags.path()
			if err != nil {
				return err
			}
			if err := keys.Remove(path, name); err != nil {
				return nameFile(err)
			}
			if forms.Form == "json" {
				return output.JSON(c.OutOrStdout()).Encode(map[string]string{"removed": name, "file": path})
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%s has no key in %s any more.\n", name, path)
			return err
		},
	}

	flags.add(c)
	c.Flags().StringVar(&name, "name", "", "the name of the key")
	forms.Add(c, "text", "json")
	return c
}
