package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/cmd/internal/config"
	"weir/internal/duration"
	"weir/internal/kafka"
	"weir/internal/kafka/kafkatest"
	"weir/internal/telemetry"
	"weir/test/locked"
)

func topicsConfig(brokers ...string) *config.Config {
	c := &config.Config{}
	c.Kafka.Prefix, c.Kafka.Brokers = "weir.", brokers
	c.Kafka.Hits = config.Topic{Partitions: 2, Retention: duration.Duration(48 * 3600e9)}
	c.Kafka.Events = config.Topic{Partitions: 3, Retention: duration.Duration(30 * 24 * 3600e9), Replication: 1}
	return c
}

func TestBlocklistAndEventsTopics(t *testing.T) {
	compacted := kafka.Topic{Name: "weir.blocklist", Partitions: 1, Settings: map[string]string{"cleanup.policy": "compact"}}
	if diff := cmp.Diff(compacted, BlocklistTopic(topicsConfig("a:9092"))); diff != "" {
		t.Error(diff)
	}
	deleted := kafka.Topic{Name: "weir.blocklist", Partitions: 1, Settings: map[string]string{"cleanup.policy": "delete", "retention.ms": "3600000"}}
	if diff := cmp.Diff(deleted, BlocklistTopic(topicsConfig())); diff != "" {
		t.Error(diff)
	}
	events := kafka.Topic{Name: "weir.events", Partitions: 3, Replication: 1, Settings: map[string]string{"cleanup.policy": "delete", "retention.ms": "2592000000"}}
	if diff := cmp.Diff(events, EventsTopic(topicsConfig("a:9092"))); diff != "" {
		t.Error(diff)
	}
}

func TestTopicsOnTheEmbeddedBroker(t *testing.T) {
	client := kafkatest.Client(t, kafkatest.Embedded(t))
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
	away := func(context.Context, string, string) (net.Conn, error) {
		if strings.Contains(heard.String(), "operation=topics") {
			cancel()
		}
		return nil, errors.New("no broker answers")
	}
	p := &Process{Config: topicsConfig("127.0.0.1:9"), Logger: slog.New(slog.NewTextHandler(&heard, nil)), Metrics: telemetry.Metrics("collector"),
		Health: telemetry.NewHealth(), Dial: away}
	client, err := kafka.Open(p.KafkaConfig("weir.hits"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()

	err = p.EnsureTopics(ctx, client, HitsTopic(p.Config))
	if err == nil || !strings.Contains(heard.String(), "operation=topics") || strings.Contains(heard.String(), "works again") {
		t.Errorf("%v, and the log:\n%s", err, heard.String())
	}
}
