// Command enforcer answers edges from the blocklist, sends the list to its followers, and accepts manual entries.
package main

import (
	"os"

	"weir/cmd/internal/daemon"
)

func main() { os.Exit(daemon.Main(daemon.Enforcer, os.Args, os.Stdout, os.Stderr)) }
