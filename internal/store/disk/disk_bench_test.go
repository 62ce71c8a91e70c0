package disk

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"weir/internal/store"
)

const callKeys = 500

// cold returns the change that writes a key as an aggregator has it.
func cold(n int) store.Change {
	value := make([]byte, 40+n%21)
	rand.NewChaCha8([32]byte{byte(n), byte(n >> 8), byte(n >> 16)}).Read(value) // bytes that cannot be compressed
	return store.Change{Space: store.Windows, Key: fmt.Appendf(nil, "1/%d.%d.%d.%d", 10+n%180, n>>16&255, n>>8&255, n&255), Value: value}
}

func BenchmarkDisk(b *testing.B) {
	const keys = 5_000_000
	s := open(b, Options{Folder: b.TempDir()})
	defer s.Close()
	fence, err := s.Take(ctx, 0)
	if err != nil {
		b.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	write := func(key func(n int) int) {
		changes := make([]store.Change, callKeys)
		for i := range changes {
			changes[i] = cold(key(i))
		}
		if fence, err = s.Write(ctx, 0, fence, changes); err != nil {
			b.Fatal(err)
		}
	}
	for n := 0; n < keys; n += callKeys {
		write(func(i int) int { return n + i })
	}
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			write(func(int) int { return r.IntN(keys) })
		}
		b.ReportMetric(float64(b.N)*callKeys/b.Elapsed().Seconds(), "keys/s")
		b.ReportMetric(float64(pebbleOf(b, s).Metrics().DiskSpaceUsage())/keys, "bytes/key")
	})
	// Only reads are measured from here on, not the work that the writes have left.
	if err := pebbleOf(b, s).Compact(ctx, []byte{0}, []byte{0xff}, true); err != nil {
		b.Fatal(err)
	}
	for _, there := range []bool{true, false} {
		b.Run(fmt.Sprint("read/there=", there), func(b *testing.B) {
			for b.Loop() {
				all := make([][]byte, callKeys)
				for i := range all {
					n := r.IntN(keys)
					if !there {
						n += 1 << 24 // the same address except for its first number: no client has it
					}
					all[i] = cold(n).Key
				}
				values, _, err := s.Read(ctx, 0, store.Windows, all)
				if err != nil || (values[7] != nil) != there {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*callKeys/b.Elapsed().Seconds(), "keys/s")
		})
	}
}
