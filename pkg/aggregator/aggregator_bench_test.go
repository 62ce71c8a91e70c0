package aggregator

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/store"
	"weir/internal/store/disk"
	"weir/internal/store/redis"
	"weir/internal/store/redis/redistest"
	"weir/internal/topic"
	"weir/pkg/aggregator/position"
	"weir/pkg/hit"
)

const benchRules = "rules: [{name: per-ip, key: ip, limits: [600/min], block: {for: 1h}}]"

// benchPartition is one partition that holds so many keys hot, before a store, its log in memory.
func benchPartition(b *testing.B, cold store.Store, hotKeys int, records []topic.Record) *partition {
	b.Helper()
	l := &lab{t: b, r: rand.New(rand.NewPCG(1, 1)), list: &outbox{killIn: -1}, events: &outbox{killIn: -1}, records: records}
	a, err := Open(b.Context(), Config{
		Partitions: 1, Retention: 48 * time.Hour, Blocklist: l.list, Events: l.events, EventsPartitions: 1, Store: cold, HotKeys: hotKeys,
		Rules: parseRules(b, benchRules), Late: time.Minute, Ahead: 10 * time.Second, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	a.list = a.newList(l, a.list.ID().Name)
	l.agg = a
	p := a.newPartition(0, &labLog{lab: l, most: 256}, position.NewCommits(b.Context(), func(context.Context, int64) error { return nil }))
	b.Cleanup(p.commits.Close)
	if err := p.take(b.Context()); err != nil {
		b.Fatal(err)
	}
	return p
}

// benchRecords are batches of hits of keys that pick gives, one after another in time.
func benchRecords(b testing.TB, batches, hits int, pick func() int) []topic.Record {
	b.Helper()
	w := hit.NewWriter()
	at := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	records := make([]topic.Record, 0, batches)
	for n := range batches {
		w.Reset([]string{"per-ip"})
		for range hits {
			at += int64(n & 1)
			k := pick()
			w.Add(0, fmt.Appendf(nil, "%d.%d.%d.%d", 10+k>>24, k>>16&255, k>>8&255, k&255), at, 1)
		}
		value, err := w.Append(nil, hit.Header{Source: "s", From: int64(n) * 10, To: int64(n)*10 + 10, Clock: at})
		if err != nil {
			b.Fatal(err)
		}
		records = append(records, topic.Record{Offset: int64(n), Time: time.UnixMilli(at), Value: value})
	}
	return records
}

const (
	benchBatches = 1000
	benchHits    = 2000
)

func skewed(keys int) func() int {
	z := rand.NewZipf(rand.New(rand.NewPCG(2, 2)), 1.1, 8, uint64(keys-1))
	return func() int { return int(z.Uint64()) }
}

func uniform(keys int) func() int {
	r := rand.New(rand.NewPCG(3, 3))
	return func() int { return r.IntN(keys) }
}

// BenchmarkCounting is from fetched batches to verdicts, all keys hot; nothing is written back.
func BenchmarkCounting(b *testing.B) {
	for name, pick := range map[string]func() int{"skewed": skewed(1_000_000), "uniform": uniform(1_000_000), "one": func() int { return 7 }} {
		b.Run(name, func(b *testing.B) {
			records := benchRecords(b, benchBatches, benchHits, pick)
			p := benchPartition(b, newMemoryStore(), 1_000_000, records)
			if err := p.count(b.Context(), records); err != nil { // the windows are made
				b.Fatal(err)
			}
			var hits int
			begun := cpu()
			for b.Loop() {
				p.forgetCounted()
				if err := p.count(b.Context(), records); err != nil {
					b.Fatal(err)
				}
				hits += benchBatches * benchHits
			}
			b.ReportMetric(float64(hits)/b.Elapsed().Seconds(), "hits/s")
			b.ReportMetric(float64(hits)/(cpu()-begun).Seconds(), "hits/CPU-s")
		})
	}
}

// forgetCounted has the same records counted again, as if they were of a newer log.
func (p *partition) forgetCounted() {
	p.counter.sources = hit.NewPositions(mostSources, p.config.Retention)
	p.position.Restart(p.position.Next(0))
}

// benchStores open a store of each kind.
func benchStores(b *testing.B) map[string]func() store.Store {
	return map[string]func() store.Store{
		"disk": func() store.Store {
			cold, err := disk.Open(b.Context(), disk.Options{Folder: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			return cold
		},
		"redis": func() store.Store {
			cold, err := redis.Open(b.Context(), redis.Options{URL: "redis://" + redistest.Start(b).Addr})
			if err != nil {
				b.Fatal(err)
			}
			return cold
		},
	}
}

// BenchmarkCold counts hits nine tenths of whose keys are not hot; all is written back.
func BenchmarkCold(b *testing.B) {
	for name, open := range benchStores(b) {
		b.Run(name, func(b *testing.B) {
			cold := open()
			defer cold.Close()
			records := benchRecords(b, 300, benchHits, uniform(500_000))
			p := benchPartition(b, cold, 50_000, records)
			if err := p.count(b.Context(), records); err != nil {
				b.Fatal(err)
			}
			var hits int
			for b.Loop() {
				p.forgetCounted()
				if err := p.count(b.Context(), records); err != nil {
					b.Fatal(err)
				}
				hits += len(records) * benchHits
			}
			b.ReportMetric(float64(hits)/b.Elapsed().Seconds(), "hits/s")
		})
	}
}

// BenchmarkWriteBack has a million keys change, and writes them back between the batches.
func BenchmarkWriteBack(b *testing.B) {
	cold, err := disk.Open(b.Context(), disk.Options{Folder: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer cold.Close()
	records := benchRecords(b, benchBatches, benchHits, uniform(1_000_000))
	p := benchPartition(b, cold, 1_000_000, records)
	if err := p.count(b.Context(), records); err != nil {
		b.Fatal(err)
	}
	begun := time.Now()
	longest, calls := time.Duration(0), 0
	for p.windows.Dirty() > 0 {
		one := time.Now()
		if err := p.saver.WriteBack(b.Context()); err != nil {
			b.Fatal(err)
		}
		longest, calls = max(longest, time.Since(one)), calls+1
	}
	took := time.Since(begun)
	for b.Loop() { // it is measured once
	}
	b.ReportMetric(took.Seconds()*1e6/float64(calls*p.windows.WriteKeys), "µs/key")
	b.ReportMetric(float64(longest.Microseconds())/1000, "ms-longest")
}

// BenchmarkBytesPerHotKey is what a hot window takes with a few hits, everything that holds it included.
func BenchmarkBytesPerHotKey(b *testing.B) {
	const keys = 400_000
	for _, hits := range []int{3, 10} {
		b.Run(fmt.Sprint(hits, "hits"), func(b *testing.B) {
			next := 0
			records := benchRecords(b, keys*hits/benchHits, benchHits, func() int { next++; return next % keys })
			cold, err := disk.Open(b.Context(), disk.Options{Folder: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			defer cold.Close()
			p := benchPartition(b, cold, keys, records)
			before := heap()
			if err := p.count(b.Context(), records); err != nil {
				b.Fatal(err)
			}
			bytes := float64(heap()-before) / keys
			runtime.KeepAlive(p)
			for b.Loop() { // it is measured once
			}
			b.ReportMetric(bytes, "bytes/key")
		})
	}
}

// cpu is what the process has used of it.
func cpu() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// The counting path allocates nothing per hit: what a batch costs does not grow with its hits.
func TestCountingAllocatesNothingPerHit(t *testing.T) {
	records := benchRecords(t, 4, 3000, uniform(100))
	l := newLab(t, 1, newMemoryStore())
	if err := l.agg.Reload(parseRules(t, strings.Replace(benchRules, "600/min", "100000/min", 1))); err != nil {
		t.Fatal(err)
	}
	l.agg.config.HotKeys = 1000
	p := l.takes()
	for range 20 {
		p.forgetCounted()
		if err := p.count(t.Context(), records); err != nil {
			t.Fatal(err)
		}
	}
	allocations := testing.AllocsPerRun(50, func() {
		p.forgetCounted()
		if err := p.count(t.Context(), records); err != nil {
			t.Fatal(err)
		}
	})
	if allocations > 40 {
		t.Errorf("%v allocations for 12,000 hits in 4 batches", allocations)
	}
}

// BenchmarkCountingWithWriteBack counts hits of a million keys, each equally often, and writes them back as a partition does.
// It reports which share of the time that takes, and the longest that counting stood still for it.
func BenchmarkCountingWithWriteBack(b *testing.B) {
	for name, open := range benchStores(b) {
		b.Run(name, func(b *testing.B) {
			cold := open()
			defer cold.Close()
			records := benchRecords(b, benchBatches, benchHits, uniform(1_000_000))
			p := benchPartition(b, cold, 1_000_000, records)
			if err := p.count(b.Context(), records); err != nil {
				b.Fatal(err)
			}
			var pauses []time.Duration
			begun := time.Now()
			for b.Loop() {
				p.forgetCounted()
				for at := 0; at < len(records); at += 10 {
					if err := p.count(b.Context(), records[at:at+10]); err != nil {
						b.Fatal(err)
					}
					one := time.Now()
					if err := p.saver.WriteBack(b.Context()); err != nil {
						b.Fatal(err)
					}
					pauses = append(pauses, time.Since(one))
				}
			}
			total := time.Duration(0)
			for _, pause := range pauses {
				total += pause
			}
			slices.Sort(pauses)
			b.ReportMetric(100*total.Seconds()/time.Since(begun).Seconds(), "%-writing-back")
			b.ReportMetric(float64(pauses[len(pauses)*99/100].Microseconds())/1000, "ms-p99")
			b.ReportMetric(float64(pauses[len(pauses)-1].Microseconds())/1000, "ms-longest")
		})
	}
}
