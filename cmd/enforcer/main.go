// Command enforcer tells edges who is refused, gives the blocklist to whoever follows it, and takes orders.
package main

import (
	"os"

	"weir/cmd/internal/daemon"
)

func main() { os.Exit(daemon.Main(daemon.Enforcer, os.Args, os.Stdout, os.Stderr)) }
