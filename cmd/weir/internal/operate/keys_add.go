package operate

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/ask"
	"weir/cmd/weir/internal/command"
	"weir/cmd/weir/internal/output"
	"weir/internal/keys"
)

// A keysAddCommand contains the flags of `weir keys add`.
type keysAddCommand struct {
	keysFlags
	name, role string
	keyFile    string
	output     command.Output
}

func newKeysAdd() *cobra.Command {
	k := &keysAddCommand{}
	c := &cobra.Command{
		Use:   "add --name NAME --role ROLE [flags]",
		Short: "Make an API key, and show it once",
		Long: `Add makes a key of 32 random bytes, writes its hash, name and role into the file, and shows the key itself this once,
alone on the last line. With --key-file it adds a key that was made elsewhere, and does not show it.

Roles: read may read the list; write may make manual entries too; send may send requests and nothing else; take may take
from inline limits and settle, and nothing else; admin may do everything.`,
		Example: `  weir keys add --name edge-1 --role read
  weir keys add --name alice --role write --file /etc/weir/keys.yaml
  weir keys add --name shop --role send -o plain > shop.key`,
		Args: command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return k.run(c) },
	}
	k.add(c)
	c.Flags().StringVar(&k.name, "name", "", "the owner of the key; manual entries made with the key have this name")
	c.Flags().StringVar(&k.role, "role", "", "what the key allows: read, write, send, take or admin")
	c.Flags().StringVar(&k.keyFile, "key-file", "", "use the key in `FILE` instead of a new one")
	var roles []string
	for _, role := range keys.Roles() {
		roles = append(roles, string(role))
	}
	command.Complete(c, "role", roles)
	k.output.Add(c, "text", "json", "plain")
	return c
}

func (k *keysAddCommand) run(c *cobra.Command) error {
	if k.name == "" || k.role == "" {
		return exit.Wrongf("a key needs --name and --role; for example: %s", command.Example(c))
	}

	secret, err := k.secret()
	if err != nil {
		return err
	}

	key, err := keys.New(k.name, keys.Role(k.role), secret)
	if err != nil {
		return exit.Wrong(err)
	}

	path, err := k.path()
	if err != nil {
		return err
	}
	if err := keys.Add(path, key); err != nil {
		return err
	}
	if k.keyFile != "" {
		secret = ""
	}

	return k.show(c.OutOrStdout(), k.output.Form, path, secret)
}

// secret returns a new key, or the one in the file.
func (k *keysAddCommand) secret() (string, error) {
	if k.keyFile == "" {
		return keys.MakeSecret(), nil
	}
	return ask.ReadKey(k.keyFile)
}

// show describes the result; a new key stands alone on the last line.
func (k *keysAddCommand) show(w io.Writer, form, path, secret string) (err error) {
	switch form {
	case "json":
		return output.JSON(w).Encode(struct {
			Name string `json:"name"`
			Role string `json:"role"`
			File string `json:"file"`
			Key  string `json:"key,omitempty"`
		}{k.name, k.role, path, secret})
	case "text":
		_, err = fmt.Fprintf(w, "%s has a key in %s now, with the role %s.\n", k.name, path, k.role)
		if secret != "" {
			_, err2 := fmt.Fprint(w, "It is shown this once:\n\n")
			err = errors.Join(err, err2)
		}
	}

	if secret == "" {
		return err
	}
	_, err2 := fmt.Fprintln(w, secret)
	return errors.Join(err, err2)
}
