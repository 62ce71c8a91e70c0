package main

import "github.com/spf13/cobra"

// inspectCommands returns the commands.
func inspectCommands() []*cobra.Command {
	return []*cobra.Command{newStatus(), newExplain(), newTop(), newWatch(), newHistory(), newCat()}
}
