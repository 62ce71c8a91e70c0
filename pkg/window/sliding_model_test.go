package window

import (
	"testing"
	"time"

	"math/rand/v2"
)

// Where hits inside blocks count: in any order of arrival, late hits among them, every outcome is that of the twin.
func TestSlidingIsTheTextbookLog(t *testing.T) {
	r := random(t)
	events := map[Event]int{}
	for range 4000 {
		sc := randomScene(r, Sliding)
		sc.config.Block.Extend = true
		hits := shuffled(r, sc.hits, 2*sc.config.Late.Milliseconds())
		p, w := mustNew(t, sc.config), newTwin(sc.config)
		var s State
		for i, m := range hits {
			got, want := p.Hit(&s, m.at, m.cost), w.hit(m.at, m.cost)
			if got != want {
				t.Fatalf("%+v\nhit %d of %v:\ngot  %+v\nwant %+v", sc.config, i, hits[:i+1], got, want)
			}
			events[got.Event]++
			if from, until, _, ok := s.Block(); ok && r.IntN(12) == 0 {
				at := from + 1 + r.Int64N(until-from)
				p.Waive(&s, at)
				w.waive(at)
			}
			s = readAgain(t, p, r, s)
		}
	}
	for _, e := range []Event{Counted, Broke, Extended, Blocked, Late} {
		if events[e] < 100 {
			t.Errorf("only %d hits were of event %d: the traffic shows too little", events[e], e)
		}
	}
}

// Which keys break a limit does not depend on the order of arrival within the lateness.
func TestSlidingOrderDoesNotMatter(t *testing.T) {
	r := random(t)
	broke := 0
	for range 3000 {
		sc := randomScene(r, Sliding)
		sc.config.Block.Extend = false
		p := mustNew(t, sc.config)
		want := everBreaks(p, sc.hits)
		if want {
			broke++
		}
		for range 4 {
			if hits := shuffled(r, sc.hits, sc.config.Late.Milliseconds()); everBreaks(p, hits) != want {
				t.Fatalf("%+v\nin order breaks: %v, but not in this order: %v", sc.config, want, hits)
			}
		}
	}
	if broke < 300 || broke > 2700 {
		t.Errorf("%d of 3000 break: the traffic shows too little", broke)
	}
}

func everBreaks(p *Policy, hits []moment) bool {
	var s State
	for _, m := range hits {
		if p.Hit(&s, m.at, m.cost).Event == Broke {
			return true
		}
	}
	return false
}

// A plain ring of the newest ten forgets the first ten when the eleven come.
func TestSlidingLateHitAmongOldOnes(t *testing.T) {
	p := mustNew(t, Config{Limits: []Limit{{10, time.Minute}}, Late: 10 * time.Minute, Block: Block{For: time.Minute}})
	var s State
	for i := range int64(10) {
		p.Hit(&s, someTime+i*1000, 1)
	}
	for i := range int64(10) {
		if o := p.Hit(&s, someTime+90_000+i*7000, 1); o.Event != Counted {
			t.Fatalf("a minute later: %+v", o)
		}
	}
	o := p.Hit(&s, someTime+5500, 1)
	want := Outcome{Event: Broke, From: someTime + 9000, Until: someTime + 69_000, Count: 11, Level: 1, First: someTime + 9000, FirstLevel: 1}
	if o != want {
		t.Fatalf("got  %+v\nwant %+v", o, want)
	}
}

// Above the exactness bound, in any order: who kept the limit is never blocked, and more than N hits within W less 1/64
// always break it.
func TestSlidingAboveTheBound(t *testing.T) {
	r := random(t)
	var kept, broken int
	for range 400 {
		per := pick[int64](r, 200, 5000, 100_000)
		limit := Limit{minRemember + 1 + r.Int64N(100), time.Duration(per) * time.Millisecond}
		late := pick(r, 0, per/50, per/3)
		p := mustNew(t, Config{Limits: []Limit{limit}, Remember: minRemember, Late: time.Duration(late) * time.Millisecond, Block: Block{For: time.Second}})
		hits := boundHits(r, limit, per)
		got := everBreaks(p, shuffled(r, hits, late))
		if got && !breaks(hits, limit.Hits, per) {
			t.Fatalf("%+v late %d: who kept the limit is blocked: %v", limit, late, hits)
		}
		if !got && breaks(hits, limit.Hits, per-per/64) {
			t.Fatalf("%+v late %d: who broke the limit by far is let through: %v", limit, late, hits)
		}
		if got {
			broken++
		} else {
			kept++
		}
	}
	if kept < 50 || broken < 50 {
		t.Errorf("%d kept the limit and %d broke it: the traffic shows too little", kept, broken)
	}
}

// boundHits are two windows of traffic at about the limit.
func boundHits(r *rand.Rand, l Limit, per int64) []moment {
	hits := make([]moment, 0, 2*l.Hits)
	gap := float64(per) / float64(l.Hits) * (0.9 + 0.25*r.Float64())
	at := float64(someTime)
	for range 2 * l.Hits {
		at += gap * 2 * r.Float64()
		hits = append(hits, moment{int64(at), 1})
	}
	return hits
}

// A limit as large as the bound is exact while more hits than the bound come in.
func TestSlidingExactUpToTheBound(t *testing.T) {
	r := random(t)
	for range 20 {
		limit := Limit{minRemember, time.Minute}
		c := Config{Limits: []Limit{limit, {5, 200 * time.Millisecond}}, Remember: minRemember, Late: time.Second, Ones: true, Block: Block{For: time.Second}}
		p, w := mustNew(t, c), newTwin(c)
		var s State
		for i, m := range randomHits(r, 1200, limit, 1) {
			got, want := p.Hit(&s, m.at, m.cost), w.hit(m.at, m.cost)
			if want.Event == Broke {
				want.Count = min(want.Count, c.Limits[want.Limit].Hits+1)
			}
			if got != want {
				t.Fatalf("hit %d: got %+v, want %+v", i, got, want)
			}
			if n := len(s.first); n > minRemember+minRemember/4 {
				t.Fatalf("%d cells are kept", n)
			}
		}
	}
}

// With Extend hits are counted for as long as the block lasts: sums that would overflow lose the oldest hits only.
func TestSlidingSumsDoNotOverflow(t *testing.T) {
	r := random(t)
	for _, most := range []int64{10, 500_000, 1 << 40} {
		c := Config{Limits: []Limit{{most, time.Hour}}, Remember: maxRemember, Late: time.Minute, Block: Block{For: time.Minute, Extend: true}}
		if most > 1<<20 {
			c.Remember = minRemember
		}
		p := mustNew(t, c)
		var s State
		if o := p.Hit(&s, someTime, most+1); o.Event != Broke || o.Count != most+1 {
			t.Fatalf("limit %d: %+v", most, o)
		}
		at, until := int64(someTime), int64(someTime+60_000)
		for i := range 20_000 {
			at += r.Int64N(100)
			o := p.Hit(&s, at-r.Int64N(2)*r.Int64N(1000), 1+r.Int64N(most))
			if at >= until+1000 && o.Event == Counted {
				t.Fatalf("limit %d, hit %d: counted, though the window is full", most, i)
			}
			until = max(until, o.Until)
		}
	}
}
