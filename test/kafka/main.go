// Command kafka runs a real Apache Kafka on free loopback ports until it is interrupted: for trying things by hand
// (make kafka), and for tests that are not in Go. Its data are deleted afterwards.
//
// On the first run on a machine Maven downloads Kafka into the user's cache. Standard output has one line: the
// addresses of the brokers, separated by commas.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"weir/internal/kafka/kafkatest"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(arguments []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("kafka", flag.ContinueOnError)
	flags.SetOutput(stderr)
	brokers := flags.Int("brokers", 1, "how many brokers: 1 or 3")
	if err := flags.Parse(arguments); err != nil {
		return 2
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	fmt.Fprintln(stderr, "starting Apache Kafka", kafkatest.Version)
	cluster, err := kafkatest.Start(ctx, kafkatest.Options{Brokers: *brokers})
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	defer cluster.Stop()
	fmt.Fprintln(stdout, strings.Join(cluster.Addresses(), ","))
	fmt.Fprintln(stderr, "Ctrl-C stops it")
	<-ctx.Done()
	return 0
}
