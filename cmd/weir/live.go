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
	"weir/internal/kafka"
	"weir/internal/kafka/embedded"
	"weir/internal/telemetry"
)

// A liveFlags is which system a command is about: the configuration that its parts have.
type liveFlags struct {
	file string
	set  []string
}

func (f *liveFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.file, "config", "", "read the configuration `FILE` (default ./weir.yaml, then /etc/weir/weir.yaml)")
	c.Flags().StringArrayVar(&f.set, "set", nil, "take `KEY=VALUE` in place of the configuration's: kafka.prefix=test.; may be repeated")
}

func (f *liveFlags) load() (*config.Config, error) {
	settings, _, err := config.Load(config.Options{File: f.file, Set: f.set, Environ: os.Environ()}) // weir check shows warnings
	return settings, err
}

// loadButRules is load for commands that need no rules: in an incident those in the file may just be faulty, and the
// parts go on by the ones before.
func (f *liveFlags) loadButRules() (*config.Config, error) {
	settings, _, err := config.Load(config.Options{File: f.file, Set: f.set, Environ: os.Environ(), NoRules: true})
	return settings, err
}

// loadAnyhow is load, and where only the rules are faulty loadButRules, with their faults told.
func (f *liveFlags) loadAnyhow(stderr io.Writer) (*config.Config, error) {
	settings, err := f.load()
	if err == nil {
		return settings, nil
	}
	bare, other := f.loadButRules()
	if other != nil {
		return nil, err
	}
	fmt.Fprintf(stderr, "%s\nThe rules here are faulty, and nothing is held against them.\n", err)
	return bare, nil
}

// A broker is a client of the brokers that the configuration names, or of the embedded one.
type broker struct {
	*kafka.Client
	inProcess *embedded.Broker // nil where it runs elsewhere
}

// connect opens a client for these topics; none stands for all. What goes on to fail is told on standard error.
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
		return nil, wrongf("kafka: %w", err)
	}
	return b, nil
}

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// errNoBroker says that no embedded broker has its data here.
var errNoBroker = errors.New("there is no embedded broker's data")

// embed reaches the embedded broker: through the socket of the process that runs it, or, where none runs, by running
// it here as long as the command does.
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
		return nil, fmt.Errorf("%w in %s: nothing has run on it yet, or the folder was deleted; where Kafka is elsewhere, name kafka.brokers in weir.yaml", errNoBroker, folder)
	}

	var err error
	b.inProcess, err = embedded.Open(embedded.Config{Folder: folder, RetainEvery: 24 * time.Hour})
	if errors.Is(err, embedded.ErrInUse) && waitsFor(socket) { // a process that starts
		return dial, nil
	}
	if errors.Is(err, embedded.ErrInUse) {
		return nil, fmt.Errorf("%w, which does not let others in at %s; stop it first", err, socket)
	}
	if err != nil {
		return nil, err
	}

	return b.inProcess.Dial, nil
}

// waitsFor says whether a process answers at a socket soon.
func waitsFor(socket string) bool {
	for began := time.Now(); time.Since(began) < startPatience; time.Sleep(100 * time.Millisecond) {
		if daemon.Listens(socket) {
			return true
		}
	}
	return false
}

// startPatience is how long a process that has locked the broker's folder may take until it lets others in.
const startPatience = 3 * time.Second

// place is where the embedded broker keeps its topics; empty for Kafka.
func (b *broker) place(settings *config.Config) string {
	switch {
	case len(settings.Kafka.Brokers) > 0:
		return ""
	case b.inProcess != nil:
		return " in " + settings.BrokerFolder() + ", on which no process runs,"
	}
	return " in " + settings.BrokerFolder()
}

// Close ends the connections, and the broker where it runs here.
func (b *broker) Close() {
	if b.Client != nil {
		b.Client.Close()
	}
	if b.inProcess != nil {
		b.inProcess.Close()
	}
}
