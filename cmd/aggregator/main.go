// Command aggregator counts the hits in Kafka and publishes the keys that broke a limit.
package main

import (
	"os"

	"weir/cmd/internal/daemon"
	"weir/cmd/internal/timers"
)

func main() {
	timers.Coarsen()
	os.Exit(daemon.Main(daemon.Aggregator, os.Args, os.Stdout, os.Stderr))
}
