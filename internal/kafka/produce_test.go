package kafka_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"weir/internal/kafka"
	"weir/internal/kafka/kafkatest"
	"weir/internal/topic"
)

// written records a producer's acknowledgements in their order.
type written struct {
	mu   sync.Mutex
	done map[int][]ack // by partition
}

type ack struct {
	number int // number of the message in its partition
	offset int64
	err    error
}

func (w *written) message(partition, number int, value []byte) topic.Message {
	return topic.Message{Partition: partition, Value: value, Done: func(offset int64, err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.done == nil {
			w.done = map[int][]ack{}
		}
		w.done[partition] = append(w.done[partition], ack{number, offset, err})
	}}
}

// inOrder fails unless all messages of the partition were acknowledged once each and in order.
func (w *written) inOrder(t *testing.T, partition, messages int) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	acks := w.done[partition]
	if len(acks) != messages {
		t.Fatalf("partition %d: %d of %d messages are done", partition, len(acks), messages)
	}
	for i, a := range acks {
		if a.number != i || a.err != nil {
			t.Fatalf("partition %d: done %d is message %d with %v", partition, i, a.number, a.err)
		}
		if i > 0 && a.offset <= acks[i-1].offset {
			t.Fatalf("partition %d: message %d has offset %d after %d", partition, i, a.offset, acks[i-1].offset)
		}
	}
}

// readAll reads a partition from an offset to its end.
func readAll(t *testing.T, client *kafka.Client, name string, partition int, from int64) []topic.Record {
	t.Helper()
	ctx := within(t, time.Minute)
	var spans []topic.Span
	patiently(t, ctx, func() (err error) {
		spans, err = client.Offsets(ctx, name)
		return err
	})
	var all []topic.Record
	reader := client.NewReader(name, partition, from)
	for reader.Next() < spans[partition].End {
		records, err := reader.Fetch(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			r.Key, r.Value = copied(r.Key), copied(r.Value)
			all = append(all, r)
		}
	}
	return all
}

func copied(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append([]byte{}, b...)
}

func TestRoundTrip(t *testing.T) {
	onBoth(t, func(t *testing.T, config kafka.Config) {
		client := kafkatest.Client(t, config)
		const partitions, messages = 4, 500
		name := newTopic(t, client, partitions)
		producer := client.OpenProducer(topic.AppenderConfig{Topic: name, Partitions: partitions})
		ctx := within(t, time.Minute)
		var w written
		for i := range messages {
			var batch []topic.Message
			for p := range partitions {
				batch = append(batch, w.message(p, i, fmt.Appendf(nil, "%d/%d", p, i)))
			}
			if err := producer.Send(ctx, batch...); err != nil {
				t.Fatal(err)
			}
		}
		if err := producer.Close(ctx); err != nil {
			t.Fatal(err)
		}
		for p := range partitions {
			w.inOrder(t, p, messages)
			records := readAll(t, client, name, p, 0)
			if len(records) != messages {
				t.Fatalf("partition %d has %d records", p, len(records))
			}
			for i, r := range records {
				if string(r.Value) != fmt.Sprintf("%d/%d", p, i) || r.Key != nil || r.Offset != int64(i) {
					t.Fatalf("partition %d: record %d is %+v", p, i, r)
				}
				if age := time.Since(r.Time); age < -time.Second || age > time.Minute {
					t.Fatalf("the record's time is %s", r.Time)
				}
			}
		}
	})
}
