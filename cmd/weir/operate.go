package main

import "github.com/spf13/cobra"

// operateCommands returns the commands.
func operateCommands() []*cobra.Command {
	return []*cobra.Command{newBlock(), newUnblock(), newAllow(), newPause(), newResume(), newList(), newKeys()}
}
