package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"weir/cmd/internal/config"
	"weir/cmd/internal/daemon"
	"weir/cmd/internal/exit"
	"weir/internal/kafka"
	"weir/internal/kafka/embedded"
	"weir/internal/telemetry"
)

// A liveFlags selects a running system by the configuration of its parts.
type liveFlags struct {
	file string
	set  []string
}

func (f *liveFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.file, "config", "", "read the configuration `FILE` (default ./weir.yaml, then /etc/weir/weir.yaml)")
	c.Flags().StringArrayVar(&f.set, "set", nil, "replace a setting of the configuration: `KEY=VALUE` such as kafka.prefix=test.; may be repeated")
}

func (f *liveFlags) load() (*config.Config, error) {
	settings, _, err := config.Load(config.Options{File: f.file, Set: f.set, Environ: os.Environ()}) // weir check shows warnings
	return settings, err
}

// loadButRules is load for commands that need no rules. During an incident the rules in the file may contain mistakes,
// while the parts go on with the previous ones.
func (f *liveFlags) loadButRules() (*config.Config, error) {
	settings, _, err := config.Load(config.Options{File: f.file, Set: f.set, Environ: os.Environ(), NoRules: true})
	return settings, err
}

// loadAnyhow is load. When only the rules are wrong it writes their faults to standard error and is loadButRules.
func (f *liveFlags) loadAnyhow(stderr io.Writer) (*config.Config, error) {
	settings, err := f.load()
	if err == nil {
		return settings, nil
	}
	bare, other := f.loadButRules()
	if other != nil {
		return nil, err
	}
	fmt.Fprintf(stderr, "%s\nThe rules here have mistakes, so the parts' rules are not compared with them.\n", err)
	return bare, nil
}

// A broker is a client of the brokers that the configuration names, or of the embedded broker.
type broker struct {
	*kafka.Client
	inProcess *embedded.Broker // nil unless this process runs it
}

// connect opens a client for these topics, or for all when none is named. The client logs repeated errors to standard
// error.
func connect(settings *config.Config, stderr io.Writer, topics ...string) (*broker, error) {
	logger, err := telemetry.Log(stderr, "warn", "text")
	if err != nil {
		return nil, err
	}

	process := &daemon.Process{Config: settings, Logger: logger, Metrics: prometheus.NewRegistry()}
	to := process.KafkaConfig(topics...)
	b := &broker{}
	if len(settings.Kafka.Brokers) == 0 {
		if to.Dial, err = b.embed(settings); err != nil {
			return nil, err
		}
	}

	if b.Client, err = kafka.Open(to); err != nil {
		b.Close()
		return nil, exit.Wrongf("kafka: %w", err)
	}
	return b, nil
}

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// errNoBroker means that no embedded broker has its data here.
var errNoBroker = errors.New("there is no embedded broker's data")

// embed connects to the embedded broker through the socket of the process that runs it. When no process runs it, this
// process runs it until the command ends.
func (b *broker) embed(settings *config.Config) (dialFunc, error) {
	socket := settings.BrokerSocket()
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}

	if daemon.Listens(socket) {
		return dial, nil
	}
	folder := settings.BrokerFolder()
	if _, err := os.Stat(filepath.Join(folder, "lock")); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w in %s: nothing has run on it yet, or the folder was deleted; if Kafka is elsewhere, name kafka.brokers in weir.yaml", errNoBroker, folder)
	}

	var err error
	b.inProcess, err = embedded.Open(embedded.Config{Folder: folder, RetainEvery: 24 * time.Hour})
	if errors.Is(err, embedded.ErrInUse) && waitForSocket(socket) { // a process is starting
		return dial, nil
	}
	if errors.Is(err, embedded.ErrInUse) {
		return nil, fmt.Errorf("%w, and it does not accept connections at %s; stop it first", err, socket)
	}
	if err != nil {
		return nil, err
	}

	return b.inProcess.Dial, nil
}

// waitForSocket waits until a process answers at a socket, at most startPatience, and reports whether one does.
func waitForSocket(socket string) bool {
	for began := time.Now(); time.Since(began) < startPatience; time.Sleep(100 * time.Millisecond) {
		if daemon.Listens(socket) {
			return true
		}
	}
	return false
}

// startPatience is how long a process that has locked the broker's folder may take until it accepts connections.
const startPatience = 3 * time.Second

// place describes for messages where the embedded broker keeps its topics; empty for Kafka.
func (b *broker) place(settings *config.Config) string {
	switch {
	case len(settings.Kafka.Brokers) > 0:
		return ""
	case b.inProcess != nil:
		return " in " + settings.BrokerFolder() + ", on which no process runs,"
	}
	return " in " + settings.BrokerFolder()
}

// Close ends the connections, and the broker if this process runs it.
func (b *broker) Close() {
	if b.Client != nil {
		b.Client.Close()
	}
	if b.inProcess != nil {
		b.inProcess.Close()
	}
}
