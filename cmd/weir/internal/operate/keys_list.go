package operate

import (
	"io"
	"strings"

	"github.com/spf13/cobra"

	"weir/cmd/weir/internal/command"
	"weir/cmd/weir/internal/output"
	"weir/internal/keys"
)

func newKeysList() *cobra.Command {
	var flags keysFlags
	var forms command.Output
	c := &cobra.Command{
		Use:     "list [flags]",
		Short:   "List the names and roles of the API keys",
		Example: "  weir keys list\n  weir keys list --file /etc/weir/keys.yaml --json",
		Args:    command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			path, err := flags.path()
			if err != nil {
				return err
			}
			file, err := keys.Open(path)
			if err != nil {
				return nameFile(err)
			}
			return showKeys(c.OutOrStdout(), forms.Form, file.All())
		},
	}

	flags.add(c)
	forms.Add(c, "text", "json", "plain")
	return c
}

func showKeys(w io.Writer, form string, all []keys.Key) error {
	var b strings.Builder
	rows := []string{"NAME\tROLE"}
	for _, key := range all {
		switch form {
		case "json":
			if err := output.JSON(&b).Encode(struct {
				Name string    `json:"name"`
				Role keys.Role `json:"role"`
			}{key.Name, key.Role}); err != nil {
				return err
			}
		case "plain":
			b.WriteString(key.Name + "\n")
		default:
			rows = append(rows, key.Name+"\t"+string(key.Role))
		}
	}

	if form == "text" {
		output.Table(&b, rows)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
