// Package inspect has the commands that look at a running system and change nothing: status, explain, top, watch, history, compare
// and cat. They ask parts over HTTP, or read topics, and report the parts that they cannot reach next to their results.
// Answers and records are bounded, and their texts are made printable.
package inspect

import "github.com/spf13/cobra"

// Commands returns these commands, new ones at each call; version is the one that reports show, and logs is what top does
// without a running system.
func Commands(version string, logs TopOfLogs) []*cobra.Command {
	return []*cobra.Command{newStatus(), newExplain(), newTop(logs), newWatch(), newHistory(), newCompare(version), newCat()}
}
