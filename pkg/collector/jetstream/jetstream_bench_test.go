package jetstream_test

import (
	"testing"
	"time"

	js "github.com/nats-io/nats.go/jetstream"

	"weir/pkg/collector/jetstream"
	"weir/pkg/collector/ordered"
	"weir/test/nats"
	"weir/test/streams"
)

const benchMessages = 400_000

// BenchmarkStream measures a collector that reads a stream and counts its lines, and a bare client that only reads it.
func BenchmarkStream(b *testing.B) {
	server := nats.Start(b, nats.Unsynced)
	stream, err := server.Client().CreateStream(b.Context(), js.StreamConfig{Name: "logs"})
	if err != nil {
		b.Fatal(err)
	}
	lines := make([]string, benchMessages)
	for n := range lines {
		lines[n] = streams.Line(n)
	}
	server.Add("logs", lines)
	b.Run("weir", func(b *testing.B) {
		for b.Loop() {
			c := streams.New(b, "nats", func() ([]ordered.Log, error) {
				log, err := jetstream.Open(jetstream.Options{URL: server.URL, Stream: "logs"})
				return []ordered.Log{log}, err
			})
			c.Reads(benchMessages)
			c.Stop()
		}
		b.ReportMetric(float64(b.N)*benchMessages/b.Elapsed().Seconds(), "lines/s")
	})
	b.Run("bare-client", func(b *testing.B) {
		for b.Loop() {
			consumer, err := stream.CreateConsumer(b.Context(), js.ConsumerConfig{AckPolicy: js.AckNonePolicy, MemoryStorage: true})
			if err != nil {
				b.Fatal(err)
			}
			for n := 0; n < benchMessages; {
				batch, err := consumer.Fetch(500, js.FetchMaxWait(time.Second))
				if err != nil {
					b.Fatal(err)
				}
				for range batch.Messages() {
					n++
				}
			}
		}
		b.ReportMetric(float64(b.N)*benchMessages/b.Elapsed().Seconds(), "lines/s")
	})
}
