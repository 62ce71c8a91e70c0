package operate

import (
	"errors"
	"io/fs"

	"github.com/spf13/cobra"

	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/command"
	"weir/cmd/weir/internal/live"
)

func newKeys() *cobra.Command {
	c := &cobra.Command{
		Use:   "keys",
		Short: "Make API keys, list and remove them",
		Long: `Keys changes a file of API keys, which allow their owners to send requests, read the list, or make manual entries. The
file contains no key, only the hash, name and role of each. Parts that use the file apply a change at once.

Without --file it is the file that enforcer.keys of the configuration names, or else ./keys.yaml.`,
		Example: `  weir keys add --name edge-1 --role read
  weir keys list
  weir keys remove --name edge-1`,
		Args: command.Known,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newKeysAdd(), newKeysList(), newKeysRemove())
	return c
}

// A keysFlags selects the file of keys that a command uses.
type keysFlags struct {
	live live.Flags
	file string
}

func (f *keysFlags) add(c *cobra.Command) {
	f.live.Add(c)
	c.Flags().StringVar(&f.file, "file", "", "the `FILE` of keys (default enforcer.keys of the configuration, else ./keys.yaml)")
}

func (f *keysFlags) path() (string, error) {
	if f.file != "" {
		return f.file, nil
	}
	settings, err := f.live.LoadButRules()
	if err != nil {
		return "", err
	}
	if settings.Enforcer.Keys != "" {
		return settings.Enforcer.Keys, nil
	}
	return "keys.yaml", nil
}

// nameFile adds to the error of a missing file what to do about it.
func nameFile(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return exit.Wrongf("%w; name the file of keys with --file, or make one with weir keys add", err)
	}
	return err
}
