package daemon

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/cmd/internal/config"
	"weir/internal/duration"
	"weir/internal/kafka"
	"weir/internal/kafka/kafkatest"
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
