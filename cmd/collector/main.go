// Command collector reads requests from logs and events, and sends what the rules count of them to Kafka, once.
package main

import (
	"os"

	"weir/cmd/internal/daemon"
)

func main() { os.Exit(daemon.Main(daemon.Collector, os.Args, os.Stdout, os.Stderr)) }
