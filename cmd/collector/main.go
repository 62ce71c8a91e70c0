// Command collector reads requests from log files, topics, HTTP and syslog, and sends those that the rules count to Kafka.
package main

import (
	"os"

	"weir/cmd/internal/daemon"
	"weir/cmd/internal/timers"
)

func main() {
	timers.Coarsen()
	os.Exit(daemon.Main(daemon.Collector, os.Args, os.Stdout, os.Stderr))
}
