package kafka_test

import (
	"context"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"weir/internal/kafka"
	"weir/internal/kafka/kafkatest"
	"weir/internal/topic"
)

// A packed batch of hits is about 16 KiB and holds about 1,000 hits; the figures are per million of those.
const (
	packedBytes   = 16 << 10
	packedHits    = 1000
	benchmarkedOn = 8 // partitions
)

// BenchmarkProduce and BenchmarkFetch report, besides MB/s: cpu-s/Mhit, our process's CPU seconds per million
// packed hits (on the embedded broker that is the broker's too), broker-cpu-s/Mhit of a real one, and Mhit/s.
//
//	go test ./internal/kafka -run '^$' -bench 'Produce|Fetch' -benchtime 20000x
func BenchmarkProduce(b *testing.B) {
	onEachBroker(b, func(b *testing.B, config kafka.Config, brokerCPU func() time.Duration) {
		client := kafkatest.Client(b, config)
		name := newTopic(b, client, benchmarkedOn)
		fill(b, client, name, 500) // connections are open and warm
		measure(b, brokerCPU, func() { fill(b, client, name, b.N) })
	})
}

func BenchmarkFetch(b *testing.B) {
	onEachBroker(b, func(b *testing.B, config kafka.Config, brokerCPU func() time.Duration) {
		client := kafkatest.Client(b, config)
		name := newTopic(b, client, benchmarkedOn)
		fill(b, client, name, b.N)
		measure(b, brokerCPU, func() { drain(b, client, name, b.N) })
	})
}

// BenchmarkEcho is the time from Send to a parked Fetch's return, one record at a time.
func BenchmarkEcho(b *testing.B) {
	onEachBroker(b, func(b *testing.B, config kafka.Config, _ func() time.Duration) {
		client := kafkatest.Client(b, config)
		name := newTopic(b, client, 1)
		producer := client.OpenProducer(topic.AppenderConfig{Topic: name, Partitions: 1})
		defer producer.Close(context.Background())
		reader := client.NewReader(name, 0, 0)
		b.ResetTimer()
		for range b.N {
			if err := producer.Send(b.Context(), topic.Message{Value: []byte("a hit")}); err != nil {
				b.Fatal(err)
			}
			for before := reader.Next(); reader.Next() == before; {
				if _, err := reader.Fetch(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

func onEachBroker(b *testing.B, run func(b *testing.B, config kafka.Config, brokerCPU func() time.Duration)) {
	b.Run("embedded", func(b *testing.B) {
		run(b, kafkatest.Embedded(b), func() time.Duration { return 0 })
	})
	cluster := kafkatest.Real(b, kafkatest.Options{Measured: true})
	b.Run("real", func(b *testing.B) {
		run(b, kafka.Config{Brokers: cluster.Addresses(), Create: true}, cluster.CPU)
	})
}

// fill produces records over all partitions, as collectors do: one for each partition at a time.
func fill(b *testing.B, client *kafka.Client, name string, records int) {
	producer := client.OpenProducer(topic.AppenderConfig{Topic: name, Partitions: benchmarkedOn})
	value := make([]byte, packedBytes)
	for i := range value {
		value[i] = byte(rand.IntN(256))
	}
	for sent := 0; sent < records; {
		var cut []topic.Message
		for p := 0; p < benchmarkedOn && sent < records; p++ {
			cut = append(cut, topic.Message{Partition: p, Value: value})
			sent++
		}
		if err := producer.Send(b.Context(), cut...); err != nil {
			b.Fatal(err)
		}
	}
	if err := producer.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
}

func drain(b *testing.B, client *kafka.Client, name string, records int) {
	got := 0
	for p := range benchmarkedOn {
		spans, err := client.Offsets(b.Context(), name)
		if err != nil {
			b.Fatal(err)
		}
		reader := client.NewReader(name, p, 0)
		for reader.Next() < spans[p].End {
			batch, err := reader.Fetch(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			got += len(batch)
		}
	}
	if got != records {
		b.Fatalf("%d of %d records came back", got, records)
	}
}

func measure(b *testing.B, brokerCPU func() time.Duration, run func()) {
	b.SetBytes(packedBytes)
	ours, brokers := ownCPU(), brokerCPU()
	b.ResetTimer()
	run()
	b.StopTimer()
	hits := float64(b.N) * packedHits / 1e6
	b.ReportMetric((ownCPU()-ours).Seconds()/hits, "cpu-s/Mhit")
	b.ReportMetric((brokerCPU()-brokers).Seconds()/hits, "broker-cpu-s/Mhit")
	b.ReportMetric(hits/b.Elapsed().Seconds(), "Mhit/s")
}

func ownCPU() time.Duration {
	var usage syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
