package window

import (
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// takeTwin is Take and Settle, slow and obvious: it remembers every attempt that was admitted, at what it cost, and judges
// each by the definition. Only the buckets, whose drops have no time, it keeps as fractions.
type takeTwin struct {
	c       Config
	hits    []moment
	newest  int64
	levels  []*big.Rat // of buckets
	levelAt int64
}

func (w *takeTwin) isBuckets() bool { return w.c.Algorithm >= Token }

func newTakeTwin(c Config) *takeTwin {
	w := &takeTwin{c: c}
	for range c.Limits {
		w.levels = append(w.levels, new(big.Rat))
	}
	return w
}

// admits reports whether a limit admits an attempt.
func (w *takeTwin) admits(i int, at, cost int64) bool {
	l := w.c.Limits[i]
	if !w.isBuckets() {
		hits := append(slices.Clone(w.hits), moment{at, cost})
		if w.c.Algorithm == Sliding {
			return hitsWithin(hits, at, l.Per.Milliseconds()) <= l.Hits
		}
		return !judges[w.c.Algorithm](w.c, l, hits)
	}
	level := w.level(i, at)
	return level.Add(level, big.NewRat(cost, 1)).Cmp(big.NewRat(w.holds(l), 1)) <= 0
}

func (w *takeTwin) holds(l Limit) int64 {
	switch {
	case w.c.Algorithm == Uniform:
		return 1 + w.c.Burst
	case w.c.Algorithm == Token && w.c.Burst > 0:
		return w.c.Burst
	}
	return l.Hits
}

func (w *takeTwin) level(i int, at int64) *big.Rat {
	return drain(w.levels[i], w.c.Limits[i], at-w.levelAt)
}

// drain is what is left of a level after some milliseconds.
func drain(level *big.Rat, l Limit, millis int64) *big.Rat {
	left := new(big.Rat).Mul(big.NewRat(l.Hits, l.Per.Milliseconds()), big.NewRat(millis, 1))
	if left.Sub(level, left).Sign() < 0 {
		left.SetInt64(0)
	}
	return left
}

func (w *takeTwin) take(now, cost int64) bool {
	now = max(now, w.newest)
	for i := range w.c.Limits {
		if !w.admits(i, now, cost) {
			return false
		}
	}
	w.add(now, cost)
	return true
}

func (w *takeTwin) add(at, cost int64) {
	if at > w.newest || len(w.hits) == 0 {
		w.newest = at
	}
	w.hits = append(w.hits, moment{at, cost})
	for i := range w.levels {
		level := w.level(i, at)
		w.levels[i] = level.Add(level, big.NewRat(cost, 1))
	}
	w.levelAt = at
}

func (w *takeTwin) settle(now int64, m moment, actual int64) {
	if actual == m.cost {
		return
	}
	now = max(now, w.newest)
	for i := range w.hits {
		if w.hits[i] == m {
			w.hits[i].cost = actual
			break
		}
	}
	for i, l := range w.c.Limits {
		level := w.level(i, now)
		change := big.NewRat(actual-m.cost, 1)
		if most := drain(big.NewRat(m.cost, 1), l, now-m.at); change.Sign() < 0 && most.Cmp(new(big.Rat).Neg(change)) < 0 {
			change.Neg(most)
		}
		if level.Add(level, change).Sign() < 0 {
			level.SetInt64(0)
		}
		w.levels[i] = level
	}
	w.newest, w.levelAt = now, now
}

func takeScene(r *rand.Rand, a Algorithm) scene {
	sc := randomScene(r, a)
	sc.config.Late, sc.config.Block = 0, Block{For: time.Millisecond}
	switch a {
	case Counter:
		sc.config.Subwindows = int(min(pick(r, 0, 1, 2, 10, sc.config.Limits[0].Per.Milliseconds()), 1000))
		sc.config.Limits = sc.config.Limits[:1]
	case Uniform:
		sc.hits = randomHits(r, 60, Limit{1, max(time.Millisecond, sc.config.Limits[0].Per/time.Duration(sc.config.Limits[0].Hits)).Truncate(time.Millisecond)}, 1)
		fallthrough
	case Token, Leaky:
		sc.config.Burst = r.Int64N(5)
	}
	return sc
}

// For each algorithm, with costs that are settled later and clocks that go back: who is admitted, how many remain and when
// the next is admitted are what the definition says.
func TestTakeIsItsDefinition(t *testing.T) {
	for _, a := range Algorithms() {
		t.Run(a.String(), func(t *testing.T) {
			r, admitted, refused, settled := random(t), 0, 0, 0
			for range 400 {
				sc := takeScene(r, a)
				p, w := mustNew(t, sc.config), newTakeTwin(sc.config)
				var s State
				var open []moment
				for i, m := range sc.hits {
					now := m.at - pick[int64](r, 0, 0, 0, 0, 3)
					if len(open) > 0 && r.IntN(3) == 0 {
						m := open[0]
						open = open[1:]
						actual := r.Int64N(m.cost + 2)
						p.Settle(&s, now, m.at, m.cost, actual)
						w.settle(now, m, actual)
						settled++
					}

					got, want := p.Take(&s, now, m.cost), w.take(now, m.cost)
					if got.Admitted != want || got.At != max(now, w.newest) {
						t.Fatalf("%+v\nattempt %d of %v at %d: got %+v, want %v at %d", sc.config, i, sc.hits[:i+1], now, got, want, max(now, w.newest))
					}
					w.check(t, got, m.cost)
					if want {
						open = append(open, moment{got.At, m.cost})
						admitted++
					} else {
						refused++
					}
				}
			}
			if admitted < 3000 || refused < 500 || settled < 3000 {
				t.Errorf("%d admitted, %d refused, %d settled: the traffic shows too little", admitted, refused, settled)
			}
		})
	}
}

// check compares the other parts of an answer with the definition.
func (w *takeTwin) check(t *testing.T, got Taken, cost int64) {
	t.Helper()
	all := func(at, cost int64) bool {
		for i := range w.c.Limits {
			if !w.admits(i, at, cost) {
				return false
			}
		}
		return true
	}
	switch {
	case got.Remaining > 0 && !w.admits(got.Limit, got.At, got.Remaining), w.admits(got.Limit, got.At, got.Remaining+1):
		t.Fatalf("%+v %v: %d do not remain of limit %d", w.c, w.hits, got.Remaining, got.Limit)
	case got.Admitted && !all(got.At, got.Remaining):
		t.Fatalf("%+v %v: %d remain of limit %d, and fewer of another", w.c, w.hits, got.Remaining, got.Limit)
	case !got.Admitted && w.admits(got.Limit, got.At, cost):
		t.Fatalf("%+v %v: limit %d does not refuse %d", w.c, w.hits, got.Limit, cost)
	case got.Again == Never:
		if all(got.At+1<<40, cost) {
			t.Fatalf("%+v %v: %d are admitted some time", w.c, w.hits, cost)
		}
	case !all(got.Again, cost):
		t.Fatalf("%+v %v: %d are not admitted at %d, %d ms later", w.c, w.hits, cost, got.Again, got.Again-got.At)
	case got.Again > got.At && all(got.Again-1, cost):
		t.Fatalf("%+v %v: %d are admitted before %d, %d ms later", w.c, w.hits, cost, got.Again, got.Again-got.At)
	}
}

// The attempts that were admitted keep the limits of the definition, also by the costs that they settle to.
func TestSettledBucketsAreNeverGenerous(t *testing.T) {
	for _, a := range []Algorithm{Token, Uniform, Leaky} {
		t.Run(a.String(), func(t *testing.T) {
			r, less := random(t), 0
			for range 600 {
				sc := takeScene(r, a)
				p := mustNew(t, sc.config)
				var s State
				var hits []moment
				settled := 0
				for _, m := range sc.hits {
					if settled < len(hits) && r.IntN(2) == 0 {
						of := &hits[settled]
						actual := r.Int64N(of.cost + 1)
						p.Settle(&s, m.at, of.at, of.cost, actual)
						of.cost = actual
						settled++
						less++
					}
					if got := p.Take(&s, m.at, m.cost); got.Admitted {
						hits = append(hits, moment{got.At, m.cost})
					}
				}
				hits = slices.DeleteFunc(hits, func(m moment) bool { return m.cost == 0 })
				for _, l := range sc.config.Limits {
					if len(hits) > 0 && judges[a](sc.config, l, hits) {
						t.Fatalf("%+v: too many were admitted: %v", sc.config, hits)
					}
				}
			}
			if less < 3000 {
				t.Errorf("%d were settled: the traffic shows too little", less)
			}
		})
	}
}

// Refused attempts delay nothing: who polls faster than a bucket fills gets all that it fills.
func TestRefusedAttemptsDelayNothing(t *testing.T) {
	for _, a := range Algorithms() {
		p := mustNew(t, Config{Algorithm: a, Limits: []Limit{{10, time.Minute}}, Subwindows: 10, Block: Block{For: time.Minute}})
		var s State
		admitted := int64(0)
		for at := int64(someTime); at < someTime+10*60_000; at += 100 {
			if p.Take(&s, at, 1).Admitted {
				admitted++
			}
		}
		if admitted < 99 || admitted > 110 {
			t.Errorf("%v: %d were admitted in ten minutes at 10/min", a, admitted)
		}
	}
}

func TestTakeOddNumbers(t *testing.T) {
	for _, a := range Algorithms() {
		p := mustNew(t, Config{Algorithm: a, Limits: []Limit{{10, time.Minute}, {1 << 30, time.Hour}}, Block: Block{For: time.Minute}})
		var s State
		for _, now := range []int64{-1, 0, Never, 5} {
			if got := p.Take(&s, now, 1<<60); got.Admitted || got.Again != Never {
				t.Errorf("%v: more than a limit allows: %+v", a, got)
			}
			if got := p.Take(&s, now, -5); !got.Admitted || got.Remaining < 0 {
				t.Errorf("%v: a negative cost: %+v", a, got)
			}
		}
		p.Take(&s, someTime, 1)
		for range 3 {
			p.Settle(&s, someTime, someTime, 1, 1<<60)
			p.Settle(&s, Never, someTime, 1<<60, -1)
			p.Settle(&s, 0, Never, 1, 0)
			p.Settle(&s, 0, -1, 1, 2)
		}
		p.Take(&s, Never, 1)
	}
}

// Above the exactness bound: who keeps the limit is not refused, and at most N are admitted within W less 1/64.
func TestTakeAboveTheBound(t *testing.T) {
	r := random(t)
	refused := 0
	for range 200 {
		per := pick[int64](r, 200, 5000, 100_000)
		limit := Limit{minRemember + 1 + r.Int64N(100), time.Duration(per) * time.Millisecond}
		p := mustNew(t, Config{Limits: []Limit{limit}, Remember: minRemember, Block: Block{For: time.Second}})
		var s State
		var hits []moment
		for _, m := range boundHits(r, limit, per) {
			if p.Take(&s, m.at, m.cost).Admitted {
				hits = append(hits, m)
				continue
			}
			if refused++; hitsWithin(append(hits, m), m.at, per) <= limit.Hits {
				t.Fatalf("%+v: who kept the limit is refused at %d", limit, m.at)
			}
		}
		if breaks(hits, limit.Hits, per-per/64) {
			t.Fatalf("%+v: too many were admitted", limit)
		}
	}
	if refused < 100 {
		t.Errorf("%d were refused: the traffic shows too little", refused)
	}
}

// A key that has counted more than a limit allows, because the limit was lowered, waits until it has less.
func TestTakeAfterALimitWasLowered(t *testing.T) {
	for _, perHit := range []int64{1, 3} {
		before := mustNew(t, Config{Limits: []Limit{{40, time.Minute}}, Block: Block{For: time.Millisecond}, Remember: 4096})
		after := mustNew(t, Config{Limits: []Limit{{10, time.Minute}}, Block: Block{For: time.Millisecond}, Remember: 4096})
		var s, lowered State
		for second := range int64(12) {
			if got := before.Take(&s, someTime+1000*second, perHit); !got.Admitted {
				t.Fatalf("%+v", got)
			}
		}
		if err := after.Read(before.Append(nil, &s), &lowered); err != nil {
			t.Fatal(err)
		}

		kept := 9 / perHit // so many of the newest leave room for one more
		again := someTime + 1000*(11-kept) + 60_000
		for _, now := range []int64{someTime + 12_000, again - 1} {
			if got := after.Take(&lowered, now, 1); got.Admitted || got.Remaining != 0 || got.Again != again {
				t.Errorf("at %d: %+v; it is admitted at %d", now-someTime, got, again-someTime)
			}
		}
		if got := after.Take(&lowered, someTime+12_000, 0); got.Admitted || got.Again > again {
			t.Errorf("nothing, while more than the limit counts: %+v", got)
		}
		if got := after.Take(&lowered, again, 1); !got.Admitted || got.Remaining != 9-kept*perHit {
			t.Errorf("at %d: %+v", again-someTime, got)
		}
	}
}

// Settled costs still count after a state was written and read, also where they are more than a bucket takes.
func TestSettledToMoreIsKeptInBytes(t *testing.T) {
	for _, a := range []Algorithm{Token, Uniform, Leaky} {
		p := mustNew(t, Config{Algorithm: a, Limits: []Limit{{60, time.Minute}}, Block: Block{For: time.Minute}})
		var s, back State
		taken := p.Take(&s, someTime, 1)
		p.Settle(&s, someTime, taken.At, 1, 500)
		if err := p.Read(p.Append(nil, &s), &back); err != nil {
			t.Fatal(err)
		}
		if got, want := p.Take(&back, someTime, 1), p.Take(&s, someTime, 1); got != want || got.Again < someTime+400_000 {
			t.Errorf("%v: %+v after it was read, %+v before", a, got, want)
		}
	}
}
