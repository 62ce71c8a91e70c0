package daemon

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/cmd/internal/config"
	"weir/internal/duration"
	"weir/internal/kafka"
	"weir/internal/telemetry"
	"weir/internal/topic"
	"weir/test/locked"
	"weir/test/wait"
)

func topicsConfig(brokers ...string) *config.Config {
	c := &config.Config{}
	c.Kafka.Prefix, c.Kafka.Brokers = "weir.", brokers
	c.Kafka.Hits = config.Topic{Partitions: 2, Retention: duration.Duration(48 * 3600e9)}
	c.Kafka.Events = config.Topic{Partitions: 3, Retention: duration.Duration(30 * 24 * 3600e9), Replication: 1}
	return c
}

func TestBlocklistAndEventsTopics(t *testing.T) {
	compacted := topic.Topic{Name: "weir.blocklist", Partitions: 1, Settings: map[string]string{"cleanup.policy": "compact"}}
	if diff := cmp.Diff(compacted, BlocklistTopic(topicsConfig("a:9092"))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(compacted, BlocklistTopic(topicsConfig())); diff != "" {
		t.Error(diff)
	}
	events := topic.Topic{Name: "weir.events", Partitions: 3, Replication: 1, Settings: map[string]string{"cleanup.policy": "delete", "retention.ms": "2592000000"}}
	if diff := cmp.Diff(events, EventsTopic(topicsConfig("a:9092"))); diff != "" {
		t.Error(diff)
	}
}

func TestTopicsOfAProcessOfItsOwn(t *testing.T) {
	client, err := OpenLocal(t.Context(), &config.Config{Data: t.TempDir()}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	c := topicsConfig()
	for range 2 { // makes the topics first, then checks them
		if err := client.EnsureTopics(t.Context(), HitsTopic(c), BlocklistTopic(c), EventsTopic(c)); err != nil {
			t.Fatal(err)
		}
	}
}

// A process that ends while Kafka is away does not log that it works again.
func TestTopicsThatFailUntilTheEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var heard locked.Buffer
	p := &Process{Config: topicsConfig("127.0.0.1:1"), Logger: slog.New(slog.NewTextHandler(&heard, nil)), Metrics: telemetry.Metrics("collector"),
		Health: telemetry.NewHealth()}
	client, err := kafka.Open(p.KafkaConfig("weir.hits"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()

	go func() {
		defer cancel()
		wait.Until(t, "the failure is logged", func() bool { return strings.Contains(heard.String(), "operation=topics") })
	}()
	err = p.EnsureTopics(ctx, client, HitsTopic(p.Config))
	if err == nil || !strings.Contains(heard.String(), "operation=topics") || strings.Contains(heard.String(), "works again") {
		t.Errorf("%v, and the log:\n%s", err, heard.String())
	}
}
