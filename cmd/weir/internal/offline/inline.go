package offline

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/command"
	"weir/pkg/inline/mysql"
	"weir/pkg/inline/postgres"
)

func newInline() *cobra.Command {
	c := &cobra.Command{
		Use:   "inline",
		Short: "Show the tables of a store of inline limits",
		Example: `  weir inline schema postgres | psql DATABASE
  weir inline schema mysql | mariadb DATABASE`,
		Args: command.Known,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	schema := &cobra.Command{
		Use:   "schema postgres|mysql",
		Short: "Print the SQL that makes the tables",
		Long: `Schema prints the SQL that makes the tables of inline limits in PostgreSQL, or in MariaDB and MySQL. An enforcer makes
them itself, unless inline.store.create is false or it may not.`,
		Example: c.Example,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(c.ValidArgs, args[0]) {
				return exit.Wrongf("schema needs postgres or mysql; for example: %s", command.Example(c))
			}
			return nil
		},
		ValidArgs: []string{"postgres", "mysql"},
		RunE: func(c *cobra.Command, args []string) error {
			text := postgres.Schema()
			if args[0] == "mysql" {
				text = mysql.Schema()
			}
			_, err := fmt.Fprint(c.OutOrStdout(), text)
			return err
		},
	}
	c.AddCommand(schema)
	return c
}
