package main

import "github.com/spf13/cobra"

// offlineCommands returns the commands; version is shown in reports.
func offlineCommands(version string) []*cobra.Command {
	return []*cobra.Command{newBacktest(version), newTest(), newParse(), newCheck()}
}
