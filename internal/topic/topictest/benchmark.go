package topictest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"weir/internal/topic"
)

// Value returns bytes like those of a batch of hits: half of them cannot be compressed.
func Value(size int) []byte {
	value := make([]byte, size)
	for i := 0; i < size; i += 2 {
		value[i] = byte(rand.Uint32())
	}
	return value
}

// Benchmark measures a log: one record after another is synced and read by a reader that waits; many callers at once;
// and batches like those of a collector that reads a backlog, with a reader for each partition.
func Benchmark(b *testing.B, compacts bool, open func(*testing.B) topic.Log) {
	b.Run("one at a time", func(b *testing.B) { benchmarkOne(b, open(b)) })
	b.Run("32 callers", func(b *testing.B) { benchmarkCallers(b, open(b), 32) })
	b.Run("backlog", func(b *testing.B) { benchmarkBacklog(b, open(b)) })
	b.Run("events", func(b *testing.B) { benchmarkEntries(b, open(b), "delete") })
	if compacts {
		b.Run("entries", func(b *testing.B) { benchmarkEntries(b, open(b), "compact") })
	}
}

func ensure(b *testing.B, log topic.Log, partitions int, policy string) string {
	b.Helper()
	name := fmt.Sprintf("b%08x", rand.Uint32())
	of := topic.Topic{Name: name, Partitions: partitions, Settings: map[string]string{"cleanup.policy": policy}}
	if err := log.EnsureTopics(b.Context(), of); err != nil {
		b.Fatal(err)
	}
	return name
}

// cpu returns the CPU time of this process.
func cpu() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func reportCPU(b *testing.B, before time.Duration, per float64) {
	b.ReportMetric(float64((cpu()-before).Nanoseconds())/1000/per, "cpu-µs/op")
}

// benchmarkOne appends a record, and waits until it is answered and read.
func benchmarkOne(b *testing.B, log topic.Log) {
	name := ensure(b, log, 8, "delete")
	a := log.Appender(topic.AppenderConfig{Topic: name, Partitions: 8})
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	arrived := make(chan struct{}, 1)
	var reading sync.WaitGroup
	reading.Go(func() {
		for r := log.Reader(name, 0, 0, 0); ctx.Err() == nil; {
			records, _ := r.Fetch(ctx)
			for range records {
				arrived <- struct{}{}
			}
		}
	})
	value := Value(500)
	answered := make(chan struct{}, 1)
	message := topic.Message{Value: value, Done: func(int64, error) { answered <- struct{}{} }}
	before := cpu()
	for b.Loop() {
		_ = a.Send(ctx, message)
		<-answered
		<-arrived
	}
	reportCPU(b, before, float64(b.N))
	_ = a.Close(context.Background())
	cancel()
	reading.Wait()
}

// benchmarkCallers appends with several callers. Each waits for its answer.
func benchmarkCallers(b *testing.B, log topic.Log, callers int) {
	name := ensure(b, log, 8, "delete")
	a := log.Appender(topic.AppenderConfig{Topic: name, Partitions: 8})
	var left atomic.Int64
	left.Store(int64(b.N))
	var calling sync.WaitGroup
	value := Value(500)
	before := cpu()
	b.ResetTimer()
	for n := range callers {
		calling.Go(func() {
			answered := make(chan struct{}, 1)
			for left.Add(-1) >= 0 {
				_ = a.Send(b.Context(), topic.Message{Partition: n % 8, Value: value, Done: func(int64, error) { answered <- struct{}{} }})
				<-answered
			}
		})
	}
	calling.Wait()
	reportCPU(b, before, float64(b.N))
	_ = a.Close(context.Background())
}

// benchmarkBacklog appends calls of 8 records of 16 KiB, one a partition, while each partition is read.
func benchmarkBacklog(b *testing.B, log topic.Log) {
	const partitions, size = 8, 16 << 10
	name := ensure(b, log, partitions, "delete")
	a := log.Appender(topic.AppenderConfig{Topic: name, Partitions: partitions, QueueBytes: 16 << 20})
	var reading sync.WaitGroup
	messages := make([]topic.Message, partitions)
	for p := range messages {
		messages[p] = topic.Message{Partition: p, Value: Value(size)}
		reading.Go(func() {
			for r := log.Reader(name, p, 0, 0); r.Next() < int64(b.N) && b.Context().Err() == nil; {
				_, _ = r.Fetch(b.Context())
			}
		})
	}
	b.SetBytes(partitions * size)
	b.ReportAllocs()
	before := cpu()
	b.ResetTimer()
	for range b.N {
		if err := a.Send(b.Context(), messages...); err != nil {
			b.Fatal(err)
		}
	}
	_ = a.Close(context.Background())
	reading.Wait()
	reportCPU(b, before, float64(b.N))
}

// benchmarkEntries appends entries of a blocklist of 100,000 keys.
func benchmarkEntries(b *testing.B, log topic.Log, policy string) {
	name := ensure(b, log, 1, policy)
	a := log.Appender(topic.AppenderConfig{Topic: name, Partitions: 1, QueueBytes: 4 << 20})
	value := Value(150)
	b.ReportAllocs()
	before := cpu()
	b.ResetTimer()
	for n := range b.N {
		if err := a.Send(b.Context(), topic.Message{Key: fmt.Appendf(nil, "per-ip %d", n*7919%100_000), Value: value}); err != nil {
			b.Fatal(err)
		}
	}
	_ = a.Close(context.Background())
	reportCPU(b, before, float64(b.N))
}
