package redis

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"weir/internal/store"
	"weir/internal/store/redis/redistest"
)

// cold returns the change that writes a key as an aggregator has it: a rule's number and an address, and the
// window of a key with a few hits.
func cold(n int) store.Change {
	value := make([]byte, 40+n%21)
	rand.NewChaCha8([32]byte{byte(n), byte(n >> 8), byte(n >> 16)}).Read(value) // bytes that cannot be compressed
	return store.Change{Space: store.Windows, Key: fmt.Appendf(nil, "1/%d.%d.%d.%d", 10+n%180, n>>16&255, n>>8&255, n&255), Value: value}
}

const callKeys = 500

// fill writes keys to 16 partitions, and returns the fences.
func fill(tb testing.TB, s *Store, keys int) [16]store.Fence {
	var fences [16]store.Fence
	var changes [16][]store.Change
	var err error
	flush := func(p int) {
		if fences[p], err = s.Write(ctx, p, fences[p], changes[p]); err != nil {
			tb.Fatal(err)
		}
		changes[p] = changes[p][:0]
	}
	for p := range fences {
		if fences[p], err = s.Take(ctx, p); err != nil {
			tb.Fatal(err)
		}
	}
	for n := range keys {
		p := n % 16
		if changes[p] = append(changes[p], cold(n)); len(changes[p]) == callKeys {
			flush(p)
		}
	}
	for p := range changes {
		flush(p)
	}
	return fences
}

func BenchmarkRedis(b *testing.B) {
	const keys = 1_000_000
	server := redistest.Start(b)
	s := open(b, Options{URL: "redis://" + server.Addr})
	defer s.Close()
	empty := server.Memory()
	fences := fill(b, s, keys)
	perKey := float64(server.Memory()-empty) / keys
	r := rand.New(rand.NewPCG(1, 2))
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			p := r.IntN(16)
			changes := make([]store.Change, callKeys)
			for i := range changes {
				changes[i] = cold(r.IntN(keys/16)*16 + p)
			}
			var err error
			if fences[p], err = s.Write(ctx, p, fences[p], changes); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.N)*callKeys/b.Elapsed().Seconds(), "keys/s")
		b.ReportMetric(perKey, "bytes/key")
	})
	for _, there := range []bool{true, false} {
		b.Run(fmt.Sprint("read/there=", there), func(b *testing.B) {
			for b.Loop() {
				p := r.IntN(16)
				all := make([][]byte, callKeys)
				for i := range all {
					n := r.IntN(keys/16)*16 + p
					if !there {
						n += 1 << 24 // the same address except for its first number: no client has it
					}
					all[i] = cold(n).Key
				}
				values, _, err := s.Read(ctx, p, store.Windows, all)
				if err != nil || (values[7] != nil) != there {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*callKeys/b.Elapsed().Seconds(), "keys/s")
		})
	}
	b.Run("scan", func(b *testing.B) {
		pairs := 0
		for from := store.Cursor(""); b.Loop(); {
			page, err := s.Scan(ctx, 3, store.Windows, from, callKeys)
			if err != nil {
				b.Fatal(err)
			}
			from, pairs = page.Next, pairs+len(page.Pairs)
		}
		b.ReportMetric(float64(pairs)/b.Elapsed().Seconds(), "keys/s")
	})
}
