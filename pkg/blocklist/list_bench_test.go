package blocklist

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"syscall"
	"testing"
	"time"
)

const million = 1_000_000

// millionRecords are typical verdicts: over addresses, one in five over IPv6 networks.
func millionRecords(b testing.TB) []Change {
	random := rand.New(rand.NewPCG(1, 1))
	changes := make([]Change, million)
	for i := range changes {
		key := netip.AddrFrom4([4]byte{byte(i >> 16), byte(i >> 8), byte(i), byte(random.IntN(256))}).String()
		if i%5 == 0 {
			key = fmt.Sprintf("2001:db8:%x:%x::/64", i>>8, i&255)
		}
		e := &Entry{ID: ID("per-ip", key, at, 1), Rule: "per-ip", Key: key, Fields: map[string]string{"ip": key}, From: at + int64(i),
			Until: at + 3600_000 + int64(random.IntN(3600_000)), Decided: at + int64(i) + 5, Limit: "100/min", Count: 101, Level: 1, By: "weir", Generation: 1, Offset: int64(i) * 7}
		changes[i] = record(b, int64(i), e)
	}
	return changes
}

func millionSet(b testing.TB, changes []Change) *Set {
	s := NewSet(Limits{})
	f := s.Fill()
	for _, c := range changes {
		if err := f.Apply(at, c); err != nil {
			b.Fatal(err)
		}
	}
	f.Swap(State{Version{list, f.Last}, true, at}, at)
	return s
}

// BenchmarkMillion measures a list of a million entries: its memory, filling it from records, writing and reading it.
// For comparison it measures a copy of the same bytes, and the same entries as plain JSON.
func BenchmarkMillion(b *testing.B) {
	changes := millionRecords(b)
	raw := 0
	for _, c := range changes {
		raw += len(c.Key) + len(c.Value)
	}
	s := millionSet(b, changes)
	b.Run("fill", func(b *testing.B) {
		defer cpu(b)()
		for b.Loop() {
			s = millionSet(b, changes)
		}
	})
	b.Run("memory", func(b *testing.B) {
		for b.Loop() {
			s = nil
			before := heap()
			s = millionSet(b, changes)
			b.ReportMetric(float64(heap()-before)/million, "B/entry")
		}
		b.ReportMetric(float64(raw)/million, "raw-B/entry")
	})
	var snapshot bytes.Buffer
	b.Run("write", func(b *testing.B) {
		defer cpu(b)()
		for b.Loop() {
			snapshot.Reset()
			if _, err := s.WriteSnapshot(&snapshot, at); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(snapshot.Len())/million, "B/entry")
	})
	b.Run("read", func(b *testing.B) {
		defer cpu(b)()
		for b.Loop() {
			if _, err := NewSet(Limits{}).Read(bytes.NewReader(snapshot.Bytes()), at); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("copy", func(b *testing.B) {
		defer cpu(b)()
		to := make([]byte, snapshot.Len())
		for b.Loop() {
			copy(to, snapshot.Bytes())
		}
	})
	b.Run("json", func(b *testing.B) {
		defer cpu(b)()
		var to bytes.Buffer
		for b.Loop() {
			to.Reset()
			if err := s.WriteJSONAfter(&to, Version{}, at, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("plain-json", func(b *testing.B) {
		defer cpu(b)()
		type plain Entry
		e := plain(*changes[7].Entry())
		var to bytes.Buffer
		for b.Loop() {
			to.Reset()
			encoder := json.NewEncoder(&to)
			for range million {
				_ = encoder.Encode(&e)
			}
		}
	})
	runtime.KeepAlive(s)
}

// cpu adds the CPU seconds per operation to a benchmark, including the garbage collector's: other processes do not
// change them as much as the wall clock's.
func cpu(b *testing.B) func() {
	used := func() time.Duration {
		var r syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
			b.Fatal(err)
		}
		return time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	before := used()
	return func() { b.ReportMetric((used()-before).Seconds()*1e9/float64(b.N), "cpu-ns/op") }
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkCheck asks a list of a million entries for clients that are not on it, that are on it, and that have orders;
// the same few again and again, and all of them at random.
func BenchmarkCheck(b *testing.B) {
	changes := millionRecords(b)
	s := millionSet(b, changes)
	random := rand.New(rand.NewPCG(2, 2))
	missing := make([]Asked, 1<<16)
	found := make([]Asked, 1<<16)
	for i := range missing {
		_, key, _ := splitKey(changes[random.IntN(million)].Key)
		found[i] = Asked{Keys: []RuleKey{{"per-ip", key}}}
		missing[i] = Asked{Keys: []RuleKey{{"per-ip", fmt.Append(nil, "absent-", i)}}}
	}
	ask := func(name string, asked []Asked) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			defer cpu(b)()
			for i := 0; b.Loop(); i++ {
				s.Check(&asked[i%len(asked)], at)
			}
		})
	}
	ask("absent", missing[:16])
	ask("refused", found[:16])
	ask("absent-at-random", missing)
	ask("refused-at-random", found)
	for i := range 1000 {
		o := allow(fmt.Sprintf("10.%d.%d.0/24", i/256, i%256))
		o.Kind = Kind(1 + i%2)
		if err := s.Order(o, at); err != nil {
			b.Fatal(err)
		}
	}
	for i := range missing {
		missing[i].IP, found[i].IP = parsed("203.0.113.7"), parsed("203.0.113.7")
	}
	ask("absent-beside-1000-orders", missing[:16])
	for i := range found[:16] {
		found[i].IP = parsed("10.0.0.7")
	}
	ask("blocked-by-order", found[:16])
}
