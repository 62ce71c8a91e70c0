package window

import (
	"math/big"
	"testing"
	"time"
)

// Each algorithm has a twin that knows all hits so far and judges the last by the definition.
var judges = map[Algorithm]func(c Config, l Limit, hits []moment) bool{
	Fixed: func(_ Config, l Limit, hits []moment) bool {
		last, per := hits[len(hits)-1], l.Per.Milliseconds()
		start := last.at / per * per
		return hitsWithin(hits, start+per-1, per) > l.Hits
	},
	Counter: func(c Config, l Limit, hits []moment) bool {
		last, per := hits[len(hits)-1], l.Per.Milliseconds()
		n := int64(max(1, c.Subwindows))
		slot := last.at * n / per
		var estimate big.Rat
		for _, m := range hits {
			s := m.at * n / per
			if s > slot-n && s <= slot {
				estimate.Add(&estimate, big.NewRat(m.cost, 1))
			}
			if s == slot-n {
				estimate.Add(&estimate, big.NewRat(m.cost*(per-last.at*n%per), per))
			}
		}
		return estimate.Cmp(big.NewRat(l.Hits, 1)) > 0
	},
	Token: func(c Config, l Limit, hits []moment) bool {
		if c.Burst > 0 {
			return !fits(hits, l, c.Burst)
		}
		return !fits(hits, l, l.Hits)
	},
	Uniform: func(c Config, l Limit, hits []moment) bool { return !fits(hits, l, 1+c.Burst) },
	Leaky:   func(_ Config, l Limit, hits []moment) bool { return !fits(hits, l, l.Hits) },
}

// fits pours the hits into a bucket that holds some and drains l.Hits in l.Per, in fractions.
func fits(hits []moment, l Limit, holds int64) bool {
	var in, drained big.Rat
	for i, m := range hits {
		if i > 0 {
			in.Sub(&in, drained.Mul(big.NewRat(l.Hits, l.Per.Milliseconds()), big.NewRat(m.at-hits[i-1].at, 1)))
			if in.Sign() < 0 {
				in.SetInt64(0)
			}
		}
		if in.Add(&in, big.NewRat(m.cost, 1)); in.Cmp(big.NewRat(holds, 1)) > 0 {
			return false
		}
	}
	return true
}

func otherScene(t testing.TB, a Algorithm) func() scene {
	r := random(t)
	return func() scene {
		sc := randomScene(r, a)
		sc.config.Block = Block{For: time.Millisecond}
		if a != Fixed && a != Counter {
			sc.config.Burst = r.Int64N(5)
		}
		if a == Counter {
			sc.config.Subwindows = int(pick(r, 0, 1, 2, 10, sc.config.Limits[0].Per.Milliseconds()))
			sc.config.Subwindows = min(sc.config.Subwindows, 1000)
			sc.config.Limits = sc.config.Limits[:1]
		}
		if a == Uniform {
			sc.hits = randomHits(r, 60, Limit{1, sc.config.Limits[0].Per / time.Duration(sc.config.Limits[0].Hits)}, 1)
		}
		return sc
	}
}

// In the order of time, every algorithm breaks at the hit and by the limit that the definition says.
func TestOthersAreTheirDefinition(t *testing.T) {
	for a, judge := range judges {
		t.Run(a.String(), func(t *testing.T) {
			next, broke, kept := otherScene(t, a), 0, 0
			for range 600 {
				sc := next()
				p := mustNew(t, sc.config)
				var s State
				for i, m := range sc.hits {
					want := Counted
					limit := 0
					for j := len(sc.config.Limits) - 1; j >= 0; j-- {
						if judge(sc.config, sc.config.Limits[j], sc.hits[:i+1]) {
							want, limit = Broke, j
						}
					}
					got := p.Hit(&s, m.at, m.cost)
					if got.Event != want || got.Limit != limit {
						t.Fatalf("%+v\nhit %d of %v:\ngot %+v, want event %d limit %d", sc.config, i, sc.hits[:i+1], got, want, limit)
					}
					if want == Broke {
						broke++
						break
					}
					kept++
				}
			}
			if broke < 100 || kept < 600 {
				t.Errorf("%d broke and %d kept the limit: the traffic shows too little", broke, kept)
			}
		})
	}
}

// A late hit counts in its own period and sub-window.
func TestLateHitsCountWhereTheyBelong(t *testing.T) {
	for _, a := range []Algorithm{Fixed, Counter} {
		t.Run(a.String(), func(t *testing.T) {
			next, r, late := otherScene(t, a), random(t), 0
			for range 1500 {
				sc := next()
				p := mustNew(t, sc.config)
				var s State
				var seen []moment
				for i, m := range shuffled(r, sc.hits, sc.config.Late.Milliseconds()) {
					seen = append(seen, m)
					if m.at < s.newest {
						late++
					}
					want := Counted
					for _, l := range sc.config.Limits {
						if judges[a](sc.config, l, seen) {
							want = Broke
						}
					}
					if got := p.Hit(&s, m.at, m.cost); got.Event != want {
						t.Fatalf("%+v\nhit %d of %v:\ngot %+v, want event %d", sc.config, i, seen, got, want)
					}
					if want == Broke {
						break
					}
				}
			}
			if late < 500 {
				t.Errorf("%d hits were late: the traffic shows too little", late)
			}
		})
	}
}

// In any order, who keeps the limit of a bucket is not blocked.
func TestLateHitsInBucketsBlockNobodyElse(t *testing.T) {
	for _, a := range []Algorithm{Token, Uniform, Leaky} {
		t.Run(a.String(), func(t *testing.T) {
			next, r, broke, kept := otherScene(t, a), random(t), 0, 0
			for range 800 {
				sc := next()
				p := mustNew(t, sc.config)
				mayBreak := false
				for i := range sc.hits {
					for _, l := range sc.config.Limits {
						mayBreak = mayBreak || judges[a](sc.config, l, sc.hits[:i+1])
					}
				}
				does := everBreaks(p, shuffled(r, sc.hits, sc.config.Late.Milliseconds()))
				if does && !mayBreak {
					t.Fatalf("%+v\nwho kept the limit is blocked: %v", sc.config, sc.hits)
				}
				if does {
					broke++
				} else if !mayBreak {
					kept++
				}
			}
			if broke < 50 || kept < 50 {
				t.Errorf("%d broke and %d kept the limit: the traffic shows too little", broke, kept)
			}
		})
	}
}

// The bounds that the comments of the algorithms name, at their worst case.
func TestErrorBounds(t *testing.T) {
	limit := Limit{10, time.Minute}
	tests := []struct {
		config Config
		passes int64 // the most within a minute
	}{
		{Config{Algorithm: Sliding}, 10},
		{Config{Algorithm: Fixed}, 20},
		{Config{Algorithm: Token}, 20},
		{Config{Algorithm: Token, Burst: 3}, 13},
		{Config{Algorithm: Uniform}, 11},
		{Config{Algorithm: Uniform, Burst: 4}, 15},
		{Config{Algorithm: Leaky}, 20},
	}
	r := random(t)
	for _, test := range tests {
		test.config.Limits, test.config.Block.For = []Limit{limit}, time.Hour
		p, most := mustNew(t, test.config), int64(0)
		for range 2000 {
			most = max(most, greedy(p, r.Int64N(60_000), r.Int64N(60_000)))
		}
		if most > test.passes || most < test.passes-1 {
			t.Errorf("%v burst %d: up to %d hits pass within a minute, want %d", test.config.Algorithm, test.config.Burst, most, test.passes)
		}
	}
}

// greedy sends whatever passes at two instants and every second from the second on, and returns the most in a minute.
func greedy(p *Policy, first, second int64) int64 {
	var s State
	var hits []moment
	send := func(at int64) {
		for {
			trial := copyOf(p, &s)
			if p.Hit(&trial, at, 1).Event != Counted {
				return
			}
			s = trial
			hits = append(hits, moment{at, 1})
		}
	}
	send(someTime + first)
	for at := someTime + first + second; at < someTime+first+second+61_000; at += 1000 {
		send(at)
	}
	var most int64
	for _, m := range hits {
		most = max(most, hitsWithin(hits, m.at, 60_000))
	}
	return most
}

func copyOf(p *Policy, s *State) State {
	var c State
	if err := p.Read(p.Append(nil, s), &c); err != nil {
		panic(err)
	}
	return c
}
