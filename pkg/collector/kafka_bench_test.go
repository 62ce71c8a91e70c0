package collector

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"weir/internal/kafka"
	"weir/internal/kafka/kafkatest"
	"weir/internal/topic"
)

const benchPartitions = 16

// toKafka makes the bench send to a real Kafka.
func (b *bench) toKafka() (client *kafka.Client, name string) {
	b.T.Helper()
	cluster := kafkatest.Real(b.T, kafkatest.Options{})
	name = "hits"
	client = kafkatest.Client(b.T, kafka.Config{Brokers: cluster.Addresses(), Create: true})
	if err := client.EnsureTopics(b.T.Context(), topic.Topic{Name: name, Partitions: benchPartitions}); err != nil {
		b.T.Fatal(err)
	}
	producer := client.OpenProducer(topic.AppenderConfig{Topic: name, Partitions: benchPartitions})
	b.T.Cleanup(func() {
		b.stop()
		producer.Close(context.Background())
	})
	b.config.Sink, b.config.Partitions = producer, benchPartitions
	return client, name
}

// BenchmarkFileToKafka measures a whole collector, from a file to a real Kafka that has acknowledged all of it. The
// processor's time is ours, without Kafka's.
func BenchmarkFileToKafka(b *testing.B) {
	const lines = 2_000_000
	log := benchLog(lines)
	c := newBench(b, "access.log")
	c.config.Rules, c.config.Logger = benchRules(b), nil
	c.toKafka()
	c.start()
	used, took := time.Duration(0), time.Duration(0)
	for b.Loop() {
		if err := os.WriteFile(c.Path("next"), fmt.Appendf(log[:0:0], "# %d\n%s", time.Now().UnixNano(), log), 0o644); err != nil {
			b.Fatal(err)
		}
		os.Remove(c.Path("access.log"))
		before, begun := processorTime(), time.Now()
		c.Rename("next", "access.log")
		for !c.hasRead(int64(len(log))) {
			time.Sleep(5 * time.Millisecond)
		}
		used, took = used+processorTime()-before, took+time.Since(begun)
	}
	b.ReportMetric(lines*float64(b.N)/took.Seconds()/1e6, "Mlines/s")
	b.ReportMetric(float64(used)/lines/float64(b.N), "cpu-ns/line")
}

// hasRead reports whether the newest log is read up to a position, and Kafka has it.
func (b *bench) hasRead(position int64) bool {
	logs := b.collector.Status().Sources[0].Logs
	n := len(logs)
	return n > 0 && logs[n-1].Position >= position && logs[n-1].InFlight == 0
}
