package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"weir/internal/kafka"
	"weir/internal/kafka/kafkatest"
	"weir/internal/topic"
	"weir/test/wait"
)

func TestMain(m *testing.M) {
	if name := os.Getenv("WEIR_KILLED_TOPIC"); name != "" {
		killedMember(name)
		return
	}
	wait.Together(8)
	os.Exit(kafkatest.Run(m))
}

// onBoth runs a test on the embedded broker and on a real one.
func onBoth(t *testing.T, test func(t *testing.T, config kafka.Config)) {
	t.Run("embedded", func(t *testing.T) { test(t, kafkatest.Embedded(t)) })
	t.Run("real", func(t *testing.T) { test(t, onReal(t)) })
}

func onReal(t testing.TB) kafka.Config {
	t.Helper()
	return kafka.Config{Brokers: kafkatest.Shared(t).Addresses(), Create: true}
}

var topics atomic.Int64

// newTopic makes a topic that no other test has.
func newTopic(t testing.TB, client *kafka.Client, partitions int, settings ...string) string {
	t.Helper()
	name := fmt.Sprintf("t%d.%s", topics.Add(1), strings.NewReplacer("/", ".", "#", ".").Replace(t.Name()))
	wanted := topic.Topic{Name: name, Partitions: partitions, Settings: map[string]string{}}
	for _, setting := range settings {
		key, value, _ := strings.Cut(setting, "=")
		wanted.Settings[key] = value
	}
	ctx := within(t, time.Minute)
	patiently(t, ctx, func() error { return client.EnsureTopics(ctx, wanted) })
	return name
}

// patiently repeats a request until a broker that was down a moment ago works again.
func patiently(t testing.TB, ctx context.Context, ask func() error) {
	t.Helper()
	for {
		err := ask()
		if err == nil {
			return
		}
		if errors.Is(err, topic.ErrPermanent) || ctx.Err() != nil {
			t.Fatal(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// within returns a context that ends with the test, or after a while that no test should need.
func within(t testing.TB, patience time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// Calls of a closed client return an error, and no goroutine looks for brokers from then on.
func TestCallsAfterTheEnd(t *testing.T) {
	ignored := goleak.IgnoreCurrent()
	cluster, config := fake(t)
	client, err := kafka.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Cluster(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	client.Close()
	if _, err := client.Cluster(within(t, time.Minute)); !errors.Is(err, topic.ErrClosed) {
		t.Errorf("it says %v", err)
	}
	cluster.Close()
	goleak.VerifyNone(t, ignored)
}
