// Package live finds the running system that a command is about: the configuration of its parts, and the topics
// between them. When these are in no Kafka and no process has them, the command opens them itself for its calls. The
// package asks no part; ask does.
package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"weir/cmd/internal/config"
	"weir/cmd/internal/daemon"
	"weir/cmd/internal/exit"
	"weir/internal/kafka"
	"weir/internal/telemetry"
	"weir/internal/topic"
	"weir/internal/topic/local"
)

// A Flags selects a running system by the configuration of its parts.
type Flags struct {
	file string
	set  []string
}

// Add adds the flags to a command.
func (f *Flags) Add(c *cobra.Command) {
	c.Flags().StringVar(&f.file, "config", "", "read the configuration `FILE` (default ./weir.yaml, then /etc/weir/weir.yaml)")
	c.Flags().StringArrayVar(&f.set, "set", nil, "replace a setting of the configuration: `KEY=VALUE` such as kafka.prefix=test.; may be repeated")
}

// Load reads the configuration with its rules.
func (f *Flags) Load() (*config.Config, error) { return f.load(config.Options{}) }

// LoadButRules is Load for commands that need no rules. During an incident the rules in the file may contain mistakes,
// while the parts go on with the previous ones.
func (f *Flags) LoadButRules() (*config.Config, error) { return f.load(config.Options{NoRules: true}) }

func (f *Flags) load(o config.Options) (*config.Config, error) {
	o.File, o.Set, o.Environ, o.ToAsk = f.file, f.set, os.Environ(), true
	settings, _, err := config.Load(o) // weir check shows warnings
	return settings, err
}

// LoadAnyhow is Load. When only the rules are wrong it writes their faults to standard error and is LoadButRules.
func (f *Flags) LoadAnyhow(stderr io.Writer) (*config.Config, error) {
	settings, err := f.Load()
	if err == nil {
		return settings, nil
	}
	bare, other := f.LoadButRules()
	if other != nil {
		return nil, err
	}
	fmt.Fprintf(stderr, "%s\nThe rules here have mistakes, so the parts' rules are not compared with them.\n", err)
	return bare, nil
}

// Topics are those between the parts: in the brokers that the configuration names, or in the store of weir run.
type Topics struct {
	topic.Log
	inProcess bool // at first, no other process had the topics
}

// Connect opens a client for these topics, or for all when none is named. The client logs repeated errors to standard
// error.
func Connect(settings *config.Config, stderr io.Writer, topics ...string) (*Topics, error) {
	logger, err := telemetry.Log(stderr, "warn", "text")
	if err != nil {
		return nil, err
	}

	process := &daemon.Process{Config: settings, Logger: logger, Metrics: prometheus.NewRegistry()}
	to := process.KafkaConfig(topics...)
	t := &Topics{}
	if len(settings.Kafka.Brokers) == 0 {
		if err := t.open(settings, logger); err != nil {
			return nil, err
		}
		return t, nil
	}

	client, err := kafka.Open(to)
	if err != nil {
		t.Close()
		return nil, exit.Wrongf("kafka: %w", err)
	}
	t.Log = client
	return t, nil
}

// ErrNoTopics means that no process has kept topics here.
var ErrNoTopics = errors.New("there are no topics")

// open reads the topics through the socket of the process that has them. When no process has, this process opens them
// for its calls.
func (t *Topics) open(settings *config.Config, logger *slog.Logger) error {
	socket, folder := settings.TopicsSocket(), settings.StoreFolder()
	if daemon.Listens(socket) {
		t.Log = local.Dial(socket)
		return nil
	}
	if _, err := os.Stat(filepath.Join(folder, "LOCK")); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w in %s: nothing has run on it yet, or the folder was deleted; if Kafka is elsewhere, name kafka.brokers in weir.yaml", ErrNoTopics, folder)
	}

	v := &visit{settings: settings, logger: logger}
	err := v.with(context.Background(), func(log topic.Log) error {
		_, t.inProcess = log.(*daemon.Local)
		return nil
	})
	if err != nil {
		return err
	}
	t.Log = v
	return nil
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

// startPatience is how long a process that has locked the store's folder may take until it accepts connections.
const startPatience = 3 * time.Second

// RunsHere reports whether this process has opened the topics, because no other process had them.
func (t *Topics) RunsHere() bool { return t.inProcess }

// Place describes for messages where weir run keeps its topics; empty for Kafka.
func (t *Topics) Place(settings *config.Config) string {
	switch {
	case len(settings.Kafka.Brokers) > 0:
		return ""
	case t.inProcess:
		return " in " + settings.StoreFolder() + ", on which no process runs,"
	}
	return " in " + settings.StoreFolder()
}

// Close ends the connections, and the store if this process has opened it.
func (t *Topics) Close() {
	if t.Log != nil {
		t.Log.Close()
	}
}
