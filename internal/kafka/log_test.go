package kafka_test

import (
	"testing"

	"weir/internal/kafka"
	"weir/internal/kafka/kafkatest"
	"weir/internal/topic"
	"weir/internal/topic/topictest"
)

// connected returns a log of one test.
func connected(config kafka.Config) func(*testing.T) topic.Log {
	config.Create = true
	return func(t *testing.T) topic.Log {
		client, err := kafka.Open(config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		return client
	}
}

func TestALogInKafka(t *testing.T) {
	t.Parallel()
	topictest.Run(t, topictest.Implementation{Compacts: true,
		Open: connected(kafka.Config{Brokers: kafkatest.Shared(t).Addresses()})})
}

func TestALogInTheEmbeddedBroker(t *testing.T) {
	t.Parallel()
	topictest.Run(t, topictest.Implementation{Open: connected(kafkatest.Embedded(t))})
}
