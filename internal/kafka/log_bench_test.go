package kafka_test

import (
	"testing"

	"weir/internal/kafka"
	"weir/internal/kafka/embedded"
	"weir/internal/topic"
	"weir/internal/topic/topictest"
)

// BenchmarkEmbeddedLog measures the embedded broker as `weir run` has it, as internal/topic/local is measured.
func BenchmarkEmbeddedLog(b *testing.B) {
	topictest.Benchmark(b, false, func(b *testing.B) topic.Log {
		broker, err := embedded.Open(embedded.Config{Folder: b.TempDir(), SyncWrites: true})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(broker.Close)
		client, err := kafka.Open(kafka.Config{Brokers: []string{kafka.Embedded}, Dial: broker.Dial, Create: true})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(client.Close)
		return client
	})
}
