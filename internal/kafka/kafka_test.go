package kafka_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/kafka"
	"weir/internal/kafka/kafkatest"
)

func TestMain(m *testing.M) { os.Exit(kafkatest.Run(m)) }

// onBoth runs a test on the embedded broker and on a real one.
func onBoth(t *testing.T, test func(t *testing.T, config kafka.Config)) {
	t.Run("embedded", func(t *testing.T) { test(t, kafkatest.Embedded(t)) })
	t.Run("real", func(t *testing.T) { test(t, real(t)) })
}

func real(t testing.TB) kafka.Config {
	t.Helper()
	return kafka.Config{Brokers: kafkatest.Shared(t).Addresses(), Create: true}
}

var topics atomic.Int64

// newTopic makes a topic that no other test has.
func newTopic(t testing.TB, client *kafka.Client, partitions int, settings ...string) string {
	t.Helper()
	name := fmt.Sprintf("t%d.%s", topics.Add(1), strings.NewReplacer("/", ".", "#", ".").Replace(t.Name()))
	topic := kafka.Topic{Name: name, Partitions: partitions, Settings: map[string]string{}}
	for _, setting := range settings {
		key, value, _ := strings.Cut(setting, "=")
		topic.Settings[key] = value
	}
	if err := client.EnsureTopics(within(t, 30*time.Second), topic); err != nil {
		t.Fatal(err)
	}
	return name
}

// within is a context that ends with the test, or after a while that no test should need.
func within(t testing.TB, patience time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}
