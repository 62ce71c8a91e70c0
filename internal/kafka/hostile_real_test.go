package kafka_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/segmentio/kafka-go/compress"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"weir/internal/kafka"
	"weir/internal/kafka/kafkatest"
	"weir/internal/topic"
)

// record is a record without a key, with any offset in its batch.
func record(offset int64, value string) []byte {
	body := append(binary.AppendVarint([]byte{0, 0}, offset), 1)
	body = append(append(binary.AppendVarint(body, int64(len(value))), value...), 0)
	return append(binary.AppendVarint(nil, int64(len(body))), body...)
}

// A batch that a real Kafka accepts, and that is hostile, hides no record of the batches before and after it.
func TestABatchHidesNoOthers(t *testing.T) {
	one := record(0, "x")
	var wide, twice bytes.Buffer
	w, err := zstd.NewWriter(&wide, zstd.WithWindowSize(64<<20))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range [][]byte{one[:5], one[5:]} {
		stream := compress.Snappy.Codec().NewWriter(&twice)
		_, err := io.MultiWriter(w, stream).Write(part)
		if err := errors.Join(err, w.Flush(), stream.Close()); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	hostile := [][]byte{
		kafka.Repacked(kafka.Packed(t, 0, []byte("x")), record(1<<30, "an offset behind the batch")),
		kafka.Repacked(kafka.Packed(t, compress.Zstd, []byte("x")), wide.Bytes()),
		kafka.Repacked(kafka.Packed(t, compress.Snappy, []byte("x")), twice.Bytes()),
	}

	brokers := kafkatest.Shared(t).Addresses()
	client := kafkatest.Client(t, kafka.Config{Brokers: brokers, Create: true})
	name := newTopic(t, client, len(hostile))
	producer, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.MaxVersions(kversion.V3_4_0())) // topics have names there
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	for partition, batch := range hostile {
		for _, records := range [][]byte{kafka.Packed(t, 0, []byte("before")), batch, kafka.Packed(t, 0, []byte("behind"))} {
			of := kmsg.NewProduceRequestTopicPartition()
			of.Partition, of.Records = int32(partition), records
			in := kmsg.NewProduceRequestTopic()
			in.Topic, in.Partitions = name, []kmsg.ProduceRequestTopicPartition{of}
			request := kmsg.NewPtrProduceRequest()
			request.Acks, request.TimeoutMillis, request.Topics = -1, 10_000, []kmsg.ProduceRequestTopic{in}
			answer, err := request.RequestWith(within(t, 20*time.Second), producer)
			if err != nil || answer.Topics[0].Partitions[0].ErrorCode != 0 {
				t.Fatalf("batch %d is refused: %v, %+v", partition, err, answer)
			}
		}

		reader := client.NewReader(name, partition, 0)
		var got []topic.Record
		for deadline := time.Now().Add(5 * time.Second); len(got) < 3 && time.Now().Before(deadline); {
			records, err := reader.Fetch(within(t, 20*time.Second))
			if err != nil {
				t.Logf("batch %d: %v", partition, err)
			}
			for _, one := range records {
				one.Value = slices.Clone(one.Value)
				got = append(got, one)
			}
		}
		if len(got) != 3 || string(got[0].Value) != "before" || got[1].Long != (partition > 0) || string(got[2].Value) != "behind" || reader.Next() != 3 {
			t.Errorf("batch %d: %v, and then %d", partition, got, reader.Next())
		}
	}
}
