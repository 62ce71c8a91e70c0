package kafka_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/internal/kafka"
	"weir/internal/kafka/kafkatest"
	"weir/internal/topic"
	"weir/test/wait"
)

func TestOffsets(t *testing.T) {
	onBoth(t, func(t *testing.T, config kafka.Config) {
		client := kafkatest.Client(t, config)
		name := newTopic(t, client, 2)
		ctx := within(t, time.Minute)
		before := time.Now()
		produceTo(t, client, name, 1, 100, 10)
		spans, err := client.Offsets(ctx, name)
		if err != nil || spans[0] != (topic.Span{}) || spans[1] != (topic.Span{End: 100}) {
			t.Fatal(spans, err)
		}
		for at, want := range map[time.Time]int64{before.Add(-time.Second): 0, time.Now().Add(time.Minute): 100} {
			if offset, err := client.OffsetAt(ctx, name, 1, at); offset != want || err != nil {
				t.Errorf("OffsetAt %s is %d, %v", at, offset, err)
			}
		}
		records := readAll(t, client, name, 1, 0)
		middle := records[50].Time
		offset, err := client.OffsetAt(ctx, name, 1, middle)
		if err != nil || records[offset].Time.Before(middle) || offset > 0 && !records[offset-1].Time.Before(middle) {
			t.Errorf("OffsetAt of record 50's time is %d, %v", offset, err)
		}
	})
}

func produceTo(t *testing.T, client *kafka.Client, name string, partition, messages, bytes int) {
	t.Helper()
	producer := client.OpenProducer(topic.AppenderConfig{Topic: name, Partitions: partition + 1})
	for range messages {
		send(t, producer, topic.Message{Partition: partition, Value: make([]byte, bytes)})
	}
	if err := producer.Close(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
}

// A partition that cannot be asked is an error, not an empty partition.
func TestOffsetsLookAtEachPartition(t *testing.T) {
	cluster, config := fake(t, kfake.SeedTopics(3, "hits"))
	client := kafkatest.Client(t, config)
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Partitions: []int32{2}, Err: kerr.NotLeaderForPartition, Count: -1})
	spans, err := client.Offsets(t.Context(), "hits")
	if !errors.Is(err, topic.ErrNoLeader) || !strings.Contains(err.Error(), "asking for the offsets of hits/2: ") {
		t.Fatal(spans, err)
	}
}

// A log that was cut off before the offset, and one that ends before it, return different errors, with the log's
// extent.
func TestReaderOutOfRange(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, config kafka.Config) {
		client := kafkatest.Client(t, config)
		name := newTopic(t, client, 1, "segment.bytes=1048576", "retention.bytes=1048576")
		ctx := within(t, time.Minute)
		produceTo(t, client, name, 0, 400, 16<<10)
		var span topic.Span
		wait.Until(t, "the log's beginning to go", func() bool {
			spans, err := client.Offsets(ctx, name)
			if err != nil {
				t.Fatal(err)
			}
			span = spans[0]
			return span.Start > 0
		})
		reader := client.NewReader(name, 0, 0)
		_, err := reader.Fetch(ctx)
		if !errors.Is(err, topic.ErrTrimmed) || errors.Is(err, topic.ErrPastEnd) || reader.Span().Start < span.Start || reader.Next() != 0 {
			t.Errorf("before its beginning: %v, %+v", err, reader.Span())
		}
		reader.SetNext(reader.Span().Start)
		records, err := reader.Fetch(ctx)
		if err != nil || len(records) == 0 || records[0].Offset != reader.Span().Start {
			t.Errorf("at its beginning: %d records, %v", len(records), err)
		}
		reader.SetNext(span.End + 5)
		_, err = reader.Fetch(ctx)
		if !errors.Is(err, topic.ErrPastEnd) || errors.Is(err, topic.ErrTrimmed) || reader.Span().End != span.End {
			t.Errorf("past its end: %v, %+v", err, reader.Span())
		}
		reader.SetNext(span.End)
		if records, err := reader.Fetch(ctx); err != nil || len(records) != 0 {
			t.Errorf("at its end: %d records, %v", len(records), err)
		}
	})
}

// A repeated error is logged once with its count, and so is its end.
func TestReaderTrouble(t *testing.T) {
	var log lines
	cluster, config := fake(t, kfake.SeedTopics(1, "hits"))
	config.Logger = slog.New(slog.NewTextHandler(&log, nil))
	client := kafkatest.Client(t, config)
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.NotLeaderForPartition, Count: 3})
	reader := client.NewReader("hits", 0, 0)
	ctx := within(t, time.Minute)
	for range 3 {
		if _, err := reader.Fetch(ctx); !errors.Is(err, topic.ErrNoLeader) {
			t.Fatal(err)
		}
	}
	if _, err := reader.Fetch(ctx); err != nil {
		t.Fatal(err)
	}
	if said := log.count("level=WARN"); said != 1 || !log.has("fetching hits/0: ", "operation=fetch times=1")() {
		t.Errorf("the log says it %d times: %v", said, log.all())
	}
	if !log.has("level=INFO", "hits/0 can be read again")() {
		t.Errorf("the log does not say that it is over: %v", log.all())
	}
}

// Null and empty are not the same, in keys and values.
func TestNullIsNotEmpty(t *testing.T) {
	onBoth(t, func(t *testing.T, config kafka.Config) {
		client := kafkatest.Client(t, config)
		name := newTopic(t, client, 1)
		producer := client.OpenProducer(topic.AppenderConfig{Topic: name, Partitions: 1})
		send(t, producer, topic.Message{Key: []byte{}, Value: nil}, topic.Message{Key: nil, Value: []byte{}})
		if err := producer.Close(within(t, time.Minute)); err != nil {
			t.Fatal(err)
		}
		records := readAll(t, client, name, 0, 0)
		if len(records) != 2 || records[0].Key == nil || records[0].Value != nil || records[1].Key != nil || records[1].Value == nil {
			t.Fatalf("%+v", records)
		}
	})
}
