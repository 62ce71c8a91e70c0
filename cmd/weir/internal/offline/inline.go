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
  weir inline schema mysql | mariadb DATABASE
  weir inline schema postgres --from 1 | psql DATABASE`,
		Args: command.Known,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	from := 0
	schema := &cobra.Command{
		Use:   "schema postgres|mysql",
		Short: "Print the SQL that makes the tables",
		Long: `Schema prints the SQL that makes the tables of inline limits in PostgreSQL, or in MariaDB and MySQL. An enforcer makes
them itself, unless inline.store.create is false or it may not.

With --from it prints what changes tables that are there: --from 1 adds the history of attempts to tables of version 1.`,
		Example: c.Example,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(c.ValidArgs, args[0]) {
				return exit.Wrongf("schema needs postgres or mysql; for example: %s", command.Example(c))
			}
			return nil
		},
		ValidArgs: []string{"postgres", "mysql"},
		RunE: func(c *cobra.Command, args []string) error {
			of := postgres.Schema
			if args[0] == "mysql" {
				of = mysql.Schema
			}
			text, err := of(from)
			if err != nil {
				return exit.Wrong(err)
			}
			_, err = fmt.Fprint(c.OutOrStdout(), text)
			return err
		},
	}
	schema.Flags().IntVar(&from, "from", 0, "print what changes tables of this `VERSION`")
	c.AddCommand(schema)
	return c
}
