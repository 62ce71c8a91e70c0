package window

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A levelHit is a member's block on paper: it counts from an instant until another; end is 0 for no end.
type levelHit struct {
	MemberBlock
	end int64
}

// onPaper judges the members' blocks of a group in the order of their times, as one would on paper. rest is what a group
// above counts of them.
func onPaper(c Config, hits []levelHit) (blocks []block, rest []levelHit) {
	hits = slices.Clone(hits)
	slices.SortFunc(hits, func(a, b levelHit) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.ID, b.ID)) })
	var now block
	inside := make([]bool, len(hits))
	for i := range hits {
		at := hits[i].At
		if at < now.until {
			inside[i] = true
			continue
		}
		if i+1 < len(hits) && hits[i+1].At == at {
			continue
		}
		for limit, l := range c.Limits {
			values := map[uint64]bool{}
			var led []int
			for j := 0; j <= i; j++ {
				h := &hits[j]
				if h.At < now.until || h.At <= at-l.Per.Milliseconds() {
					continue
				}
				led = append(led, j)
				if h.end == 0 || h.end > at {
					values[h.Value] = true
				}
			}
			if int64(len(values)) <= l.Hits {
				continue
			}
			book := textbook{Config: c}
			now = book.block(now, at, nil)
			now.limit, now.count = limit, l.Hits+1
			blocks = append(blocks, now)
			for _, j := range led {
				if hits[j].end == 0 || hits[j].end > at {
					hits[j].end = at
				}
			}
			break
		}
	}
	for i, h := range hits {
		if !inside[i] && (h.end == 0 || h.end > h.At) {
			rest = append(rest, h)
		}
	}
	return blocks, rest
}

// A tower is groups that stand above each other, as partitions count them: what a group passes on comes to the one above
// later, in the order in which it was passed on.
type tower struct {
	t      *testing.T
	r      *rand.Rand
	levels [][]*towerGroup
}

// A towerGroup is one window. The store has what was written of it; what it passed on since is passed on again if it is
// killed.
type towerGroup struct {
	p       *Policy
	state   State
	written []byte
	since   []MemberBlock
	topic   []MemberBlock // that it has passed on and has not arrived
}

func (w *tower) hit(level int, m MemberBlock) {
	groups := w.levels[level]
	g := groups[m.Value%uint64(len(groups))]
	g.count(m)
	g.since = append(g.since, m)
	switch w.r.IntN(12) {
	case 0:
		g.written, g.since = g.p.Append(nil, &g.state), nil
	case 1: // killed
		g.state = State{}
		if g.written != nil {
			if err := g.p.Read(g.written, &g.state); err != nil {
				w.t.Fatal(err)
			}
		}
		for _, m := range g.since {
			g.count(m)
		}
	}
}

func (g *towerGroup) count(m MemberBlock) {
	g.p.HitMember(&g.state, m)
	g.topic = append(g.topic, g.state.Passed()...)
}

// deliver has something of what a group has passed on arrive above.
func (w *tower) deliver(level int, g *towerGroup) {
	n := 1 + w.r.IntN(len(g.topic))
	some := g.topic[:n]
	g.topic = g.topic[n:]
	for _, m := range some {
		w.hit(level+1, m)
	}
}

// compare compares all groups with those on paper.
func (w *tower) compare(configs []Config, hits []levelHit) (blocks [3]int, ended int) {
	w.t.Helper()
	for n, groups := range w.levels {
		var rest []levelHit
		for number, g := range groups {
			var of []levelHit
			for _, h := range hits {
				if h.Value%uint64(len(groups)) == uint64(number) {
					of = append(of, h)
				}
			}
			want, more := onPaper(configs[n], of)
			rest = append(rest, more...)
			blocks[n] += len(want)
			var got []block
			if g.state.rare != nil && g.state.rare.unsettled != nil {
				got = g.state.rare.unsettled.blocks
			}
			if !slices.EqualFunc(got, want, block.same) {
				w.t.Fatalf("level %d, group %d: %+v\nhas blocks %+v\nwant       %+v", n, number, configs[n], got, want)
			}
		}
		hits = rest
		for _, h := range hits {
			ended += boolInt(h.end > 0)
		}
	}
	return blocks, ended
}

// Groups above each other have the blocks that one finds on paper, in any order in which the blocks of members are found,
// move and go, however late what is passed on arrives, and whatever is killed.
func TestGroupsAboveEachOtherAreThoseOfTheSortedLog(t *testing.T) {
	r := random(t)
	var blocks [3]int
	ended := 0
	for range 400 {
		w := &tower{t: t, r: r}
		var configs []Config
		for n, groups := range []int{6, 2, 1} {
			c := Config{Distinct: 7, Members: true, Ones: true, Passes: n < 2, Late: 24 * time.Hour,
				Block: Block{For: pick(r, time.Millisecond, time.Second, 10*time.Second, time.Minute), Forget: pick(r, 0, time.Second, time.Hour)}}
			for range 1 + r.IntN(2) {
				c.Limits = append(c.Limits, Limit{1 + r.Int64N(4), time.Duration(1+r.Int64N(20_000)) * time.Millisecond})
			}
			configs = append(configs, c)
			var level []*towerGroup
			for range groups {
				level = append(level, &towerGroup{p: mustNew(t, c)})
			}
			w.levels = append(w.levels, level)
		}

		now := map[uint64]levelHit{}
		for _, m := range randomGroup(r, Config{Late: time.Minute, Limits: []Limit{{6, time.Duration(1+r.Int64N(20)) * time.Second}}}) {
			if m.Gone && r.IntN(2) == 0 {
				m.Gone = false // it moves
			}
			now[m.ID] = levelHit{MemberBlock: m}
			w.hit(0, m)
			w.arrive(r.IntN(4))
		}
		for n := range w.levels[1:] {
			for _, g := range w.levels[n] {
				for len(g.topic) > 0 {
					w.deliver(n, g)
				}
			}
		}
		var hits []levelHit
		for _, h := range now {
			if !h.Gone {
				hits = append(hits, h)
			}
		}
		some, ends := w.compare(configs, hits)
		for n := range blocks {
			blocks[n] += some[n]
		}
		ended += ends
	}
	if min(blocks[0], blocks[1], blocks[2]) < 200 || ended < 200 {
		t.Errorf("%d blocks by level, and %d ends of members' blocks: too few", blocks, ended)
	}
}

// arrive has some of what was passed on arrive above.
func (w *tower) arrive(times int) {
	for range times {
		n := w.r.IntN(len(w.levels) - 1)
		if g := w.levels[n][w.r.IntN(len(w.levels[n]))]; len(g.topic) > 0 {
			w.deliver(n, g)
		}
	}
}

// A group passes on what makes the one above count less before what makes it count more, and nothing twice.
func TestAGroupPassesOnWhatItDoesNotBlock(t *testing.T) {
	p := mustNew(t, Config{Distinct: 7, Members: true, Passes: true, Late: 24 * time.Hour, Limits: []Limit{{2, time.Minute}}, Block: Block{For: time.Minute}})
	var s State
	const second = 1000
	for _, step := range []struct {
		hit  MemberBlock
		want []MemberBlock
	}{
		{MemberBlock{At: someTime, Value: 1, ID: 1}, []MemberBlock{{At: someTime, Value: 1, ID: 1}}},
		{MemberBlock{At: someTime, Value: 1, ID: 1}, nil},
		{MemberBlock{At: someTime + 9*second, Value: 2, ID: 2}, []MemberBlock{{At: someTime + 9*second, Value: 2, ID: 2}}},
		// The third begins a block: the two end there, and the third is inside.
		{MemberBlock{At: someTime + 20*second, Value: 3, ID: 3}, []MemberBlock{{At: someTime + 20*second, Value: 1, ID: 1 | MemberEnd}, {At: someTime + 20*second, Value: 2, ID: 2 | MemberEnd}}},
		{MemberBlock{At: someTime + 30*second, Value: 4, ID: 4}, nil},
		// The block moves: the second never was, and the fourth ends the first and the third.
		{MemberBlock{At: someTime + 9*second, Value: 2, ID: 2, Gone: true}, []MemberBlock{{At: someTime + 9*second, Value: 2, ID: 2, Gone: true},
			{At: someTime + 30*second, Value: 3, ID: 3 | MemberEnd},
			{At: someTime + 30*second, Value: 1, ID: 1 | MemberEnd}, {At: someTime + 20*second, Value: 2, ID: 2 | MemberEnd, Gone: true}, {At: someTime + 20*second, Value: 3, ID: 3}}},
		// Without a block nothing ends.
		{MemberBlock{At: someTime + 30*second, Value: 4, ID: 4, Gone: true}, []MemberBlock{
			{At: someTime + 30*second, Value: 1, ID: 1 | MemberEnd, Gone: true}, {At: someTime + 30*second, Value: 3, ID: 3 | MemberEnd, Gone: true}}},
	} {
		p.HitMember(&s, step.hit)
		if got := s.Passed(); !slices.Equal(got, step.want) {
			t.Fatalf("%+v passes on\n%+v, want\n%+v", step.hit, got, step.want)
		}
		s = reread(t, p, &s)
	}
}
