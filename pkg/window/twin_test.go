package window

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// twin is Policy with Sliding, slow and obvious: it remembers every hit and counts all windows again for each hit.
type twin struct {
	limits      []Limit
	late        int64
	block       Block
	hits        []moment // in the order of time
	newest      int64
	from, until int64
	level       int
	waived      bool // the last block was
}

func newTwin(c Config) *twin {
	return &twin{limits: c.Limits, late: c.Late.Milliseconds(), block: c.Block}
}

func (w *twin) hit(at, cost int64) Outcome {
	if at < w.newest-w.late {
		return Outcome{Event: Late}
	}
	w.newest = max(w.newest, at)
	inside := at < w.until
	if inside && !w.block.Extend {
		return Outcome{Event: Blocked, From: w.from, Until: w.until, Level: w.level}
	}
	i, _ := slices.BinarySearchFunc(w.hits, at+1, func(m moment, t int64) int { return int(m.at - t) })
	w.hits = slices.Insert(w.hits, i, moment{at, cost})
	b := w.broken(at)
	switch {
	case inside:
		return w.extend(b)
	case b.limit < 0:
		return Outcome{}
	}
	w.waived = false
	w.level++
	if w.until == 0 || b.at >= w.until+w.block.Forget.Milliseconds() {
		w.level = 1
	}
	w.from, w.until = b.at, b.at+w.lasts()
	if !w.block.Extend {
		w.hits = slices.DeleteFunc(w.hits, func(m moment) bool { return m.at < w.until })
	}
	return Outcome{Event: Broke, Limit: b.limit, Count: b.count, From: w.from, Until: w.until, Level: w.level, First: w.from, FirstLevel: w.level}
}

func (w *twin) extend(b broken) Outcome {
	o := Outcome{Event: Blocked, From: w.from, Until: w.until, Level: w.level}
	if b.limit >= 0 && b.at >= w.from && !w.waived && (w.until-b.at)*2 < w.lasts() {
		w.until = b.at + w.lasts()
		o = Outcome{Event: Extended, Limit: b.limit, Count: b.count, From: w.from, Until: w.until, Level: w.level}
	}
	return o
}

// waive takes the last block back.
func (w *twin) waive(until int64) {
	w.from, w.until, w.level, w.waived = waivedFrom, until, w.level-1, true
}

func (w *twin) lasts() int64 {
	all := append([]time.Duration{w.block.For}, w.block.Then...)
	return all[min(w.level, len(all))-1].Milliseconds()
}

// broken is the first instant from at on whose window holds at and too many hits.
func (w *twin) broken(at int64) broken {
	for _, m := range w.hits {
		for i, l := range w.limits {
			per := l.Per.Milliseconds()
			if m.at >= at && at > m.at-per && hitsWithin(w.hits, m.at, per) > l.Hits {
				return broken{i, m.at, hitsWithin(w.hits, m.at, per)}
			}
		}
	}
	return unbroken
}

// hitsWithin counts the hits in (at-per, at].
func hitsWithin(hits []moment, at, per int64) (n int64) {
	for _, m := range hits {
		if m.at > at-per && m.at <= at {
			n += m.cost
		}
	}
	return n
}

// breaks says whether some span of per that ends at a hit has more hits than allowed.
func breaks(hits []moment, allowed, per int64) bool {
	return slices.ContainsFunc(hits, func(m moment) bool { return hitsWithin(hits, m.at, per) > allowed })
}

// A scene is random traffic of one key that comes close to its limits.
type scene struct {
	config Config
	hits   []moment // in the order of time
}

const someTime = 1_700_000_000_000

func randomScene(r *rand.Rand, a Algorithm) scene {
	c := Config{
		Algorithm: a,
		Late:      pick(r, 0, 100*time.Millisecond, 2*time.Second, time.Minute),
		Block:     Block{For: pick(r, time.Millisecond, time.Second, time.Minute), Forget: pick(r, 0, time.Second, time.Hour), Extend: r.IntN(3) == 0},
	}
	for range r.IntN(3) {
		c.Block.Then = append(c.Block.Then, time.Duration(1+r.IntN(60))*time.Second)
	}
	for range 1 + r.IntN(3) {
		c.Limits = append(c.Limits, Limit{1 + r.Int64N(12), time.Duration((1+r.Int64N(5000))*pick[int64](r, 1, 10)) * time.Millisecond})
	}
	return scene{c, randomHits(r, 60, c.Limits[0], 2)}
}

// randomHits are n moments about as dense as the limit allows, with ties, gaps and costs up to maxCost.
func randomHits(r *rand.Rand, n int, l Limit, maxCost int64) []moment {
	hits := make([]moment, n)
	at := int64(someTime)
	dense := 1 + (1+r.Int64N(8))*l.Per.Milliseconds()*maxCost/(1+l.Hits)
	for i := range hits {
		switch r.IntN(8) {
		case 0: // the same instant
		case 1:
			at += r.Int64N(2*l.Per.Milliseconds() + 1)
		default:
			at += r.Int64N(dense)
		}
		hits[i] = moment{at, 1 + r.Int64N(maxCost)}
	}
	return hits
}

// shuffled are the hits in an order in which none is later than late.
func shuffled(r *rand.Rand, hits []moment, late int64) []moment {
	order := slices.Clone(hits)
	key := make(map[moment]int64)
	for _, m := range order {
		key[m] = m.at + r.Int64N(late+1)
	}
	slices.SortStableFunc(order, func(a, b moment) int { return int(key[a] - key[b]) })
	return order
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func random(t testing.TB) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(uint64(len(t.Name())), 17))
}

func mustNew(t testing.TB, c Config) *Policy {
	t.Helper()
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
