// Command enforcer answers edges from the blocklist, sends the list to its followers, and accepts manual entries.
package main

import (
	"os"

	"weir/cmd/internal/daemon"
	"weir/cmd/internal/timers"
)

func main() {
	timers.Coarsen()
	os.Exit(daemon.Main(daemon.Enforcer, os.Args, os.Stdout, os.Stderr))
}
