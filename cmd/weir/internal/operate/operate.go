// Package operate has the commands that change the list by hand and show it: block, unblock, allow, pause, resume, guard, list,
// take for attempts at inline limits, keys for the API keys that allow it, and notify to try who is notified of it.
// Changes go to one enforcer, which has those of the list on disk before it answers; the package decides nothing itself
// and knows neither Kafka nor aggregators.
package operate

import "github.com/spf13/cobra"

// Commands returns these commands, new ones at each call.
func Commands() []*cobra.Command {
	return []*cobra.Command{newBlock(), newUnblock(), newAllow(), newPause(), newResume(), newGuard(), newList(), newTake(), newKeys(), newNotify(), newConsole()}
}
