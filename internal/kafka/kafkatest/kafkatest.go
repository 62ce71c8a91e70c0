// Package kafkatest gives tests a Kafka: the embedded broker, or a real Apache Kafka that Maven fetches into the user's
// cache and that runs on free loopback ports for the duration of the test.
//
// A machine needs Java 17 and, the first time, Maven. Where Kafka is not available, Real and Shared skip the test with
// a reason in one line; with WEIR_REQUIRE_REAL=1 in the environment they fail it.
package kafkatest

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"weir/internal/kafka"
	"weir/internal/kafka/embedded"
)

// Embedded starts an embedded broker for a test and returns its configuration.
func Embedded(t testing.TB) kafka.Config {
	t.Helper()
	broker, err := embedded.Open(embedded.Config{Folder: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	// It drops members that wait for longer than a session.
	return kafka.Config{Brokers: []string{broker.Address()}, Session: 45 * time.Second, Create: true}
}

// Real starts a cluster for one test and stops it with the test.
func Real(t testing.TB, o Options) *Cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cluster, err := Start(ctx, o)
	mustBeHad(t, err)
	t.Cleanup(cluster.Stop)
	return cluster
}

func mustBeHad(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, ErrCannotBeHad) && os.Getenv("WEIR_REQUIRE_REAL") != "1" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

var shared struct {
	once    sync.Once
	cluster *Cluster
	err     error
}

// Shared returns one broker for all tests of a package whose TestMain calls Run. It is secure, see Options; tests use
// their own topics on it and leave it running.
func Shared(t testing.TB) *Cluster {
	t.Helper()
	shared.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		shared.cluster, shared.err = Start(ctx, Options{Secure: true})
	})
	mustBeHad(t, shared.err)
	return shared.cluster
}

// Run runs a package's tests and stops the shared broker after them.
func Run(m *testing.M) int {
	defer func() {
		if shared.cluster != nil {
			shared.cluster.Stop()
		}
	}()
	return m.Run()
}

// Client opens a client for a test and closes it with the test.
func Client(t testing.TB, config kafka.Config) *kafka.Client {
	t.Helper()
	client, err := kafka.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}
