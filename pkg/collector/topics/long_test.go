package topics

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"weir/internal/kafka"
)

// More partitions than may have a long record in memory have some, packed, between short ones. All count once, also
// after a restart at a long one, while each partition waits for the others.
func TestLongRecordsOfManyPartitions(t *testing.T) {
	onBoth(t, func(t *testing.T, config kafka.Config) {
		b := newBench(t, config, 3*kafka.LongRecords)
		b.make()
		client, err := kgo.NewClient(kgo.SeedBrokers(b.config.Brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(50*time.Millisecond),
			kgo.ProducerBatchCompression(kgo.ZstdCompression()), kgo.ProducerBatchMaxBytes(32<<20), kgo.BrokerMaxWriteBytes(64<<20))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		query := strings.Repeat("a", 2<<20)
		send := func() {
			var records []*kgo.Record
			for p := range int32(b.partitions) {
				for _, long := range []bool{false, true, true, false, true} {
					line := b.line()
					if long {
						line = strings.Replace(line, " HTTP/1.1", "?"+query+" HTTP/1.1", 1)
					}
					records = append(records, &kgo.Record{Topic: b.topic, Partition: p, Value: []byte(line)})
				}
			}
			if err := client.ProduceSync(b.within(time.Minute), records...).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}

		send()
		c := b.read()
		c.stop()
		send()
		c = b.read()
		send()
		b.sink.Await(t, b.want)
		c.stop()
	})
}
