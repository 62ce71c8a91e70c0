package crash

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"weir/internal/store"
	"weir/internal/store/disk"
	"weir/internal/store/redis"
	"weir/internal/topic"
)

const (
	coldKeys   = 200_000
	coldRounds = 10
)

// BenchmarkColdKeys has an aggregator count ten hits of each of many keys. A tenth of the keys may be hot, and no key
// is hot when its turn comes. For comparison it also measures the store alone in the same run: the same number of keys
// read and written, 500 a call, by as many callers as there are partitions.
//
//	go test -run '^$' -bench ColdKeys -benchtime 1x ./test/crash
func BenchmarkColdKeys(b *testing.B) {
	for _, store := range []string{"redis", "disk"} {
		b.Run(store, func(b *testing.B) {
			for b.Loop() {
				benchColdKeys(b, store)
			}
		})
	}
}

func benchColdKeys(b *testing.B, kind string) {
	r := newRiver(b, 4, `rules: [{name: limited, key: user, limits: [5/min, 50/hour], block: {for: 24h}}]`)
	r.hotKeys, r.patience = coldKeys/10, 5*time.Minute
	if kind == "disk" {
		r.place = ""
	}
	r.sendCold()
	empty := r.redis.Memory()
	m := r.install()
	m.start()
	r.eventually("it runs", func() error { return m.get("/v1/partitions", &[]struct{}{}) })
	begun := time.Now()
	r.drained()
	took := time.Since(begun).Seconds()
	const hits = coldKeys * coldRounds
	b.ReportMetric(hits/took, "hits/s")
	b.ReportMetric(m.processorTime().Seconds()/hits*1e6, "cpu-s/million")
	m.stop()
	if kind == "redis" {
		b.ReportMetric(float64(r.redis.Memory()-empty)/coldKeys, "bytes/key")
	}
	s := r.bareStore(kind)
	defer s.Close()
	b.ReportMetric(bareKeys(b, s, r.partitions), "store-keys/s")
}

func (r *river) sendCold() {
	r.t.Helper()
	producer := r.client.Appender(topic.AppenderConfig{Topic: r.prefix + "hits", Partitions: r.partitions})
	begin := time.Now().Add(-coldRounds * 30 * time.Second).UnixMilli()
	const step = 4000
	for n := 0; n < coldKeys*coldRounds; n += step {
		at := begin + int64(n/coldKeys)*30*second
		batch := newBatches(r, int64(n), step)
		for k := n; k < n+step; k++ {
			batch.hit(fmt.Sprintf("10.%d.%d.%d", k%coldKeys>>16, k%coldKeys>>8&255, k%coldKeys&255), at)
		}
		if err := producer.Send(r.t.Context(), batch.messages(at)...); err != nil {
			r.t.Fatal(err)
		}
	}
	if err := producer.Close(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

func (r *river) bareStore(kind string) (s store.Store) {
	r.t.Helper()
	var err error
	if kind == "redis" {
		s, err = redis.Open(r.t.Context(), redis.Options{URL: "redis://" + r.redis.Addr, Prefix: "bare."})
	} else {
		s, err = disk.Open(r.t.Context(), disk.Options{Folder: r.t.TempDir()})
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// bareKeys is how many keys a second a store reads and writes, all partitions at once.
func bareKeys(b *testing.B, s store.Store, partitions int) float64 {
	const perCall, calls = 500, 200
	done := make(chan error, partitions)
	begun := time.Now()
	for p := range partitions {
		go func() { done <- readAndWrite(b, s, p, calls, perCall) }()
	}
	for range partitions {
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
	return float64(partitions*calls*perCall) / time.Since(begun).Seconds()
}

func readAndWrite(b *testing.B, s store.Store, partition, calls, perCall int) error {
	random := rand.New(rand.NewPCG(uint64(partition), 8))
	fence, err := s.Take(b.Context(), partition)
	for call := 0; call < calls && err == nil; call++ {
		keys, changes := make([][]byte, perCall), make([]store.Change, perCall)
		for i := range keys {
			keys[i] = fmt.Appendf(nil, "limited/10.0.%d", random.IntN(coldKeys))
			changes[i] = store.Change{Space: store.Windows, Key: keys[i], Value: make([]byte, 40)}
		}
		if _, _, err = s.Read(b.Context(), partition, store.Windows, keys); err == nil {
			fence, err = s.Write(b.Context(), partition, fence, changes)
		}
	}
	return err
}
