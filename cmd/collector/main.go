// Command collector reads requests from logs and events, and sends the hits that rules count to Kafka, each once.
package main

import (
	"os"

	"weir/cmd/internal/daemon"
)

func main() { os.Exit(daemon.Main(daemon.Collector, os.Args, os.Stdout, os.Stderr)) }
