// Command aggregator counts the hits in Kafka and publishes the keys that broke a limit.
package main

import (
	"os"

	"weir/cmd/internal/daemon"
)

func main() { os.Exit(daemon.Main(daemon.Aggregator, os.Args, os.Stdout, os.Stderr)) }
