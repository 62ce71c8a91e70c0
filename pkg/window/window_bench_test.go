package window

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"testing"
	"time"
)

const benchKeys = 1_000_000

// traffic is an endless stream of hits: keys either uniform or skewed (Zipf, as users are), five thousand hits a second,
// one in twenty late by up to two seconds.
type traffic struct {
	keys []string
	pick []uint32
	at   []int64
}

func newTraffic(skewed bool) *traffic {
	r := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(r, 1.1, 10, benchKeys-1)
	t := &traffic{keys: make([]string, benchKeys), pick: make([]uint32, 1<<22), at: make([]int64, 1<<22)}
	for i := range t.keys {
		t.keys[i] = "user-" + strconv.Itoa(i*7919%benchKeys)
	}
	for i := range t.pick {
		t.pick[i] = uint32(r.IntN(benchKeys))
		if skewed {
			t.pick[i] = uint32(zipf.Uint64())
		}
		t.at[i] = someTime + int64(i)/5
		if r.IntN(20) == 0 {
			t.at[i] -= r.Int64N(2000)
		}
	}
	return t
}

// benchBatch is how many keys are looked up before their hits are counted, as a consumer of batches does: the misses of
// the caches then overlap.
const benchBatch = 256

// run calls hit with the state of each key of the traffic, found in a map as a hot set does, after p has counted it all
// twice. Lookup and a read of what is remembered come first for a batch, then hit.
func (t *traffic) run(b *testing.B, p *Policy, hit func(s *State, at int64)) {
	states := make(map[string]*State, benchKeys)
	for _, k := range t.keys {
		states[k] = &State{}
	}
	round := int64(len(t.pick)) / 5
	at := func(i int) int64 { return t.at[i%len(t.at)] + round*int64(i/len(t.at)) }
	for i := range 2 * len(t.pick) {
		p.Hit(states[t.keys[t.pick[i%len(t.pick)]]], at(i), 1)
	}
	runtime.GC()
	b.ReportAllocs()
	b.ResetTimer()
	var batch [benchBatch]*State
	var read uint64
	for i := 0; i < b.N; i += benchBatch {
		for j := range batch {
			s := states[t.keys[t.pick[(i+j)%len(t.pick)]]]
			if batch[j] = s; len(s.first) > 0 {
				read += s.first[len(s.first)-1]
			}
		}
		for j, s := range batch {
			hit(s, at(2*len(t.pick)+i+j))
		}
	}
	b.StopTimer()
	var held int
	for _, s := range states {
		held += s.Bytes()
	}
	b.ReportMetric(float64(held)/benchKeys, "state-B/key")
	runtime.KeepAlive(read)
}

// BenchmarkHit is the time of a hit among a million keys, the lookup included; "lookup" is the lookup alone.
func BenchmarkHit(b *testing.B) {
	limits := []Limit{{5, time.Second}, {10, time.Minute}, {100, 10 * time.Minute}}
	for _, skewed := range []bool{false, true} {
		t, name := newTraffic(skewed), "uniform"
		if skewed {
			name = "skewed"
		}
		for _, a := range Algorithms() {
			p := mustNew(b, Config{Algorithm: a, Limits: limits, Subwindows: 10, Late: 10 * time.Minute, Block: Block{For: 10 * time.Minute}})
			if a == Sliding {
				b.Run(name+"/lookup", func(b *testing.B) { t.run(b, p, func(*State, int64) {}) })
			}
			b.Run(name+"/"+a.String(), func(b *testing.B) { t.run(b, p, func(s *State, at int64) { p.Hit(s, at, 1) }) })
		}
	}
}

// BenchmarkOneKey is the time of a hit of one key that stays just below its limits.
func BenchmarkOneKey(b *testing.B) {
	for _, hits := range []int64{10, 1000, 100_000} {
		for _, a := range Algorithms() {
			b.Run(fmt.Sprintf("%v/%d", a, hits), func(b *testing.B) {
				p := mustNew(b, Config{Algorithm: a, Limits: []Limit{{hits, time.Hour}}, Block: Block{For: time.Millisecond}, Burst: hits})
				var s State
				at, step := int64(someTime), 3_700_000/hits
				b.ReportAllocs()
				for range b.N {
					at += step
					p.Hit(&s, at, 1)
				}
			})
		}
	}
}

func BenchmarkBytes(b *testing.B) {
	p := mustNew(b, Config{Limits: []Limit{{10, time.Minute}, {1000, time.Hour}}, Late: time.Minute, Block: Block{For: time.Minute}})
	s := tenHits(rand.New(rand.NewPCG(1, 2)), p, 60_000, 1)
	buf := p.Append(nil, s)
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			buf = p.Append(buf[:0], s)
		}
	})
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			if err := p.Read(buf, s); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkDistinct is the time of a hit of one key that stays below 200 different values an hour, next to that of plain
// counting: with values that come again soon, with 190 in turn, and with one in twenty late by up to two seconds.
func BenchmarkDistinct(b *testing.B) {
	for _, late := range []int64{0, 20} {
		for _, different := range []uint64{0, 3, 190} {
			c := Config{Limits: []Limit{{200, time.Hour}}, Late: 10 * time.Minute, Ones: true, Block: Block{For: 10 * time.Minute}}
			name := "sliding"
			if different > 0 {
				c.Distinct, name = 7, fmt.Sprintf("distinct/%d", different)
			}
			if late > 0 {
				name += "/late"
			}
			b.Run(name, func(b *testing.B) {
				p := mustNew(b, c)
				var s State
				r := rand.New(rand.NewPCG(1, 2))
				at := int64(someTime)
				b.ReportAllocs()
				for i := range b.N {
					at += 18_500
					if different > 0 && different < 10 {
						at -= 18_400
					}
					when := at
					if late > 0 && i%int(late) == 0 {
						when -= r.Int64N(2000)
					}
					if different == 0 {
						p.Hit(&s, when, 1)
					} else {
						p.HitValue(&s, when, uint64(i)%different)
					}
				}
				b.ReportMetric(float64(s.Bytes()), "state-B/key")
			})
		}
	}
}

// BenchmarkShare is the time of a hit of one key that stays below half of its hits, next to that of plain counting: with 200
// hits that are kept and with 4,000, in order and with one in twenty late by up to two seconds.
func BenchmarkShare(b *testing.B) {
	for _, late := range []int{0, 20} {
		for _, hits := range []int64{200, 4000} {
			for _, shared := range []bool{false, true} {
				c := Config{Limits: []Limit{{hits, time.Hour}}, Late: 10 * time.Minute, Ones: true, Block: Block{For: 10 * time.Minute}}
				name := "sliding"
				if shared {
					c.Share, c.Limits[0].Hits, name = &Share{Of: 7, Over: 500_000}, 20, "share"
				}
				name += fmt.Sprint("/", hits)
				if late > 0 {
					name += "/late"
				}
				b.Run(name, func(b *testing.B) {
					p := mustNew(b, c)
					var s State
					r := rand.New(rand.NewPCG(1, 2))
					at, step := int64(someTime), 4_200_000/hits // of the hour and the lateness
					b.ReportAllocs()
					for i := range b.N {
						at += step
						when := at
						if late > 0 && i%late == 0 {
							when -= r.Int64N(2000)
						}
						if shared {
							p.HitValue(&s, when, uint64(i&7/7))
						} else {
							p.Hit(&s, when, 1)
						}
					}
					b.ReportMetric(float64(s.Bytes()), "state-B/key")
				})
			}
		}
	}
}

// BenchmarkEstimate is the time of a hit of one key that stays below a limit of different values that is estimated, next to
// that of plain counting and of different values that are exact: with few values in each part, in lists, and with many; in
// order, and with one in twenty late by up to two seconds.
func BenchmarkEstimate(b *testing.B) {
	for _, late := range []int{0, 20} {
		for _, kind := range []struct {
			name      string
			limit     int64
			different uint64
			distinct  uint64
		}{{"sliding", 4000, 0, 0}, {"exact/3500", 4000, 3500, 7}, {"estimate/190", 100_000, 190, 7}, {"estimate/3500", 100_000, 3500, 7}, {"estimate/90000", 100_000, 90_000, 7}} {
			c := Config{Distinct: kind.distinct, Limits: []Limit{{kind.limit, time.Hour}}, Late: 10 * time.Minute, Ones: true, Block: Block{For: 10 * time.Minute}}
			name := kind.name
			if late > 0 {
				name += "/late"
			}
			b.Run(name, func(b *testing.B) {
				p := mustNew(b, c)
				var s State
				r := rand.New(rand.NewPCG(1, 2))
				at, step := int64(someTime), int64(1020)
				if kind.different > 4000 {
					step = 40
				}
				b.ReportAllocs()
				for i := range b.N {
					at += step
					when := at
					if late > 0 && i%late == 0 {
						when -= r.Int64N(2000)
					}
					if kind.different == 0 {
						p.Hit(&s, when, 1)
					} else {
						p.HitValue(&s, when, uint64(i)%kind.different)
					}
				}
				b.ReportMetric(float64(s.Bytes()), "state-B/key")
			})
		}
	}
}

// BenchmarkJudge is the time that it takes to judge a window whose parts have all registers.
func BenchmarkJudge(b *testing.B) {
	p := mustNew(b, Config{Distinct: 7, Limits: []Limit{{100_000, time.Hour}}, Block: Block{For: 10 * time.Minute}})
	var s State
	for i := range uint64(90_000) {
		p.HitValue(&s, someTime+int64(i)*40, i)
	}
	for range b.N {
		if p.Count(&s, 0, s.newest) > 95_000 {
			b.Fatal("it is far too high")
		}
	}
}
