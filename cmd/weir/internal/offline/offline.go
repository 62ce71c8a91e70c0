// Package offline has the commands that work on files: backtest, suggest, test and parse on logs and rules, check on rules and
// configurations; inline schema prints SQL. Nothing has to run for them; only check --live tries the systems that a configuration names.
package offline

import "github.com/spf13/cobra"

// Commands returns these commands, new ones at each call; version is the one that reports show.
func Commands(version string) []*cobra.Command {
	return []*cobra.Command{newBacktest(version), newSuggest(), newTest(), newParse(), newCheck(), newInline()}
}
