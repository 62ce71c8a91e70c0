package kafkalog_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"weir/internal/kafka"
	"weir/internal/kafka/kafkatest"
	"weir/internal/topic"
	"weir/pkg/blocklist"
	"weir/pkg/blocklist/follow"
	"weir/pkg/blocklist/kafkalog"
)

const million = 1_000_000

// BenchmarkMillionFromKafka measures an enforcer's start from a topic of a real Kafka with a million verdicts, until
// the list is complete. For comparison it fetches the same records and does nothing with them, which is the lower bound
// for all readers. The CPU seconds are those of this process: the broker, on the same machine, takes its own.
func BenchmarkMillionFromKafka(b *testing.B) {
	cluster := kafkatest.Real(b, kafkatest.Options{})
	client := kafkatest.Client(b, kafka.Config{Brokers: cluster.Addresses(), Create: true})
	const name = "blocklist"
	if err := client.EnsureTopics(b.Context(), topic.Topic{Name: name, Partitions: 1, Settings: map[string]string{"cleanup.policy": "compact"}}); err != nil {
		b.Fatal(err)
	}
	sendMillion(b, client, name)
	b.Run("fetched", func(b *testing.B) {
		defer cpu(b)()
		for b.Loop() {
			reader := client.NewReader(name, 0, 0)
			for count := 0; count <= million; {
				records, err := reader.Fetch(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				count += len(records)
			}
		}
	})
	b.Run("whole", func(b *testing.B) {
		defer cpu(b)()
		for b.Loop() {
			untilWhole(b, client, name)
		}
	})
	b.Run("memory", func(b *testing.B) {
		for b.Loop() {
			before := heap()
			set := untilWhole(b, client, name)
			b.ReportMetric(float64(heap()-before)/million, "B/entry")
			runtime.KeepAlive(set)
		}
	})
}

func sendMillion(b *testing.B, client *kafka.Client, name string) {
	producer := client.OpenProducer(topic.AppenderConfig{Topic: name, Partitions: 1})
	var failed atomic.Pointer[error]
	done := func(_ int64, err error) {
		if err != nil {
			failed.Store(&err)
		}
	}
	now := time.Now().UnixMilli()
	for i := range million {
		key := fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)
		e := &blocklist.Entry{ID: blocklist.ID("per-ip", key, now, 1), Rule: "per-ip", Key: key, Fields: map[string]string{"ip": key}, From: now,
			Until: now + 3600_000, Decided: now + 5, Limit: "100/min", Count: 101, Level: 1, By: "weir", Offset: int64(i)}
		value, err := e.Append(nil)
		if err == nil {
			err = producer.Send(b.Context(), topic.Message{Key: blocklist.RecordKey("per-ip", key), Value: value, Done: done})
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	m := &blocklist.Mark{List: list, Partitions: 1, Offset: million, At: now}
	value, err := m.Append(nil)
	if err == nil {
		err = producer.Send(b.Context(), topic.Message{Key: m.RecordKey(), Value: value, Done: done})
	}
	if err == nil {
		err = producer.Close(context.Background())
	}
	if at := failed.Load(); err == nil && at != nil {
		err = *at
	}
	if err != nil {
		b.Fatal(err)
	}
}

// untilWhole follows the topic until the list is complete.
func untilWhole(b *testing.B, client *kafka.Client, name string) *blocklist.Set {
	set := blocklist.NewSet(blocklist.Limits{})
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	f := follow.NewFromLog(follow.Config{Set: set}, kafkalog.New(client, name))
	var running sync.WaitGroup
	running.Go(func() { f.Run(ctx) })
	for !set.Whole() && ctx.Err() == nil {
		changed := set.Changed()
		if set.Whole() {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	cancel()
	running.Wait()
	held := 0
	for _, count := range set.Counts() {
		held += count.Entries
	}
	if held != million {
		b.Fatalf("%d entries are held: %+v", held, f.Status())
	}
	return set
}

// cpu adds the CPU seconds per operation to a benchmark.
func cpu(b *testing.B) func() {
	before := used(b)
	return func() { b.ReportMetric((used(b)-before).Seconds()/float64(b.N), "cpu-s/op") }
}

func used(b *testing.B) time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
