package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"weir/cmd/internal/exit"
	"weir/internal/keys"
)

func newKeysRemove() *cobra.Command {
	var flags keysFlags
	var name string
	var output outputFlag
	c := &cobra.Command{
		Use:     "remove --name NAME [flags]",
		Short:   "Remove an API key",
		Example: "  weir keys remove --name edge-1",
		Args:    noMore,
		RunE: func(c *cobra.Command, _ []string) error {
			form, err := output.chosen()
			if err != nil {
				return err
			}
			if name == "" {
				return exit.Wrongf("name the key with --name; for example: %s", firstExample(c))
			}
			path, err := flags.path()
			if err != nil {
				return err
			}
			if err := keys.Remove(path, name); err != nil {
				return nameFile(err)
			}
			if form == "json" {
				return newJSON(c.OutOrStdout()).Encode(map[string]string{"removed": name, "file": path})
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%s has no key in %s any more.\n", name, path)
			return err
		},
	}

	flags.add(c)
	c.Flags().StringVar(&name, "name", "", "the name of the key")
	output.add(c, "text", "json")
	return c
}
