package kafka_test

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"weir/internal/kafka"
	"weir/internal/kafka/kafkatest"
	"weir/internal/topic"
	"weir/test/real"
)

// TestPackedZerosOfARealBroker reads seven partitions at the same time. In each a real Kafka has a record of 200 MB in
// a few kilobytes, and another one after it.
func TestPackedZerosOfARealBroker(t *testing.T) {
	real.Long(t)
	const partitions, most = 7, 400 // MiB, requested in total
	cluster := kafkatest.Real(t, kafkatest.Options{})
	client := kafkatest.Client(t, kafka.Config{Brokers: cluster.Addresses(), Create: true})
	if err := client.EnsureTopics(t.Context(), topic.Topic{Name: "zeros", Partitions: partitions}); err != nil {
		t.Fatal(err)
	}
	producer, err := kgo.NewClient(kgo.SeedBrokers(cluster.Addresses()...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.ZstdCompression()), kgo.ProducerBatchMaxBytes(300<<20), kgo.BrokerMaxWriteBytes(600<<20))
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	zeros := make([]byte, 200<<20)
	for partition := range int32(partitions) {
		for _, value := range [][]byte{zeros, []byte("behind")} {
			record := &kgo.Record{Topic: "zeros", Partition: partition, Value: value}
			if err := producer.ProduceSync(within(t, time.Minute), record).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var reading sync.WaitGroup
	for partition := range partitions {
		reading.Go(func() {
			reader := client.NewReader("zeros", partition, 0)
			reader.MaxBytes = 1 << 20
			var got []topic.Record
			for len(got) < 2 {
				records, err := reader.Fetch(within(t, time.Minute))
				if err != nil {
					t.Error(err)
					return
				}
				got = append(got, records...)
			}
			if !got[0].Long || string(got[1].Value) != "behind" || reader.Next() != 2 {
				t.Errorf("partition %d: %d records, then %d", partition, len(got), reader.Next())
			}
		})
	}
	reading.Wait()
	runtime.ReadMemStats(&after)
	took := (after.TotalAlloc - before.TotalAlloc) >> 20
	t.Logf("%d MiB were asked for", took)
	if took > most {
		t.Errorf("%d MiB were asked for", took)
	}
}
