package seen_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"weir/internal/seen"
)

// A twin does the same with a list.
type twin struct {
	most   int
	within int64
	ring   []place // the oldest first
	early  int64
	newest int64
}

type place struct {
	seen.Value
	gone bool
}

func (t *twin) find(hash uint64) int {
	return slices.IndexFunc(t.ring, func(p place) bool { return p.Hash == hash && !p.gone })
}

func (t *twin) add(v seen.Value) bool {
	if i := t.find(v.Hash); i >= 0 {
		if at := t.ring[i].At; v.At-at <= t.within && at-v.At <= t.within {
			return true
		} else if at > v.At {
			v.At = at
		}
		t.ring[i].gone = true
	}
	t.newest = max(t.newest, v.At)
	if len(t.ring) == t.most {
		if old := t.ring[0]; !old.gone && t.newest-old.At <= t.within {
			t.early++
		}
		t.ring = t.ring[1:]
	}
	t.ring = append(t.ring, place{Value: v})
	return false
}

func (t *twin) forget(v seen.Value) {
	if i := t.find(v.Hash); i >= 0 && t.ring[i].At == v.At {
		t.ring[i].gone = true
	}
}

func (t *twin) len() (n int) {
	for _, p := range t.ring {
		if !p.gone {
			n++
		}
	}
	return n
}

// A memory answers as a list does, whatever comes: few values and many, hashes that share their last bits, times that go back.
func TestAMemoryIsAsItsTwin(t *testing.T) {
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 1))
		most, values, stride := 1+random.IntN(300), 1+random.Uint64N(600), uint64(1)<<random.IntN(40)
		m, other := seen.New(most, time.Second), &twin{most: most, within: 1000}
		for i := range 4000 {
			v := seen.Value{Hash: random.Uint64N(values) * stride, At: int64(i) + random.Int64N(3000)}
			if random.IntN(10) == 0 {
				m.Forget(v)
				other.forget(v)
				continue
			}
			if is, want := m.Add(v), other.add(v); is != want {
				t.Fatalf("seed %d: value %d, %+v: seen is %t, want %t", seed, i, v, is, want)
			}
			if m.Len() != other.len() || m.Early != other.early {
				t.Fatalf("seed %d: value %d: %d values and %d early, want %d and %d", seed, i, m.Len(), m.Early, other.len(), other.early)
			}
		}
	}
}

func TestAMemoryThatIsFullAllocatesNothing(t *testing.T) {
	m := seen.New(1000, time.Minute)
	v := seen.Value{}
	for range 3000 {
		v.Hash += 0x9e3779b97f4a7c15
		m.Add(v)
	}
	if n := testing.AllocsPerRun(1000, func() {
		v.Hash += 0x9e3779b97f4a7c15
		v.At++
		m.Add(v)
		m.Add(v)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if m.Len() != 1000 || m.Early < 3000 {
		t.Errorf("%d values, %d early", m.Len(), m.Early)
	}
}

func BenchmarkAdd(b *testing.B) {
	m := seen.New(1_000_000, time.Minute)
	v := seen.Value{}
	b.ReportAllocs()
	for b.Loop() {
		v.Hash += 0x9e3779b97f4a7c15
		v.At++
		m.Add(v)
	}
}
