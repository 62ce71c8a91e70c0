package window

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A textbook is Policy with Sliding as one would write it on paper: it sorts all hits that have come and counts from the
// first one. It remembers everything.
type textbook struct {
	Config
	hits   []moment // by time; those of one instant are one
	newest int64

	waived block    // the block before all hits, which was waived
	kept   []moment // hits before it that still count
}

// hit takes a hit, and says whether it counts as one.
func (b *textbook) hit(at, cost int64) bool {
	if at < b.newest-b.Late.Milliseconds() {
		return false
	}
	b.newest = max(b.newest, at)
	b.insert(at, cost)
	return true
}

func (b *textbook) insert(at, cost int64) {
	i, found := slices.BinarySearchFunc(b.hits, at, func(m moment, at int64) int { return int(m.at - at) })
	if found {
		b.hits[i].cost += cost
		return
	}
	b.hits = slices.Insert(b.hits, i, moment{at, cost})
}

// run gives all blocks, and the hits that count behind the last.
func (b *textbook) run() (blocks []block, counting []moment) {
	now, counting := b.waived, slices.Clone(b.kept)
	for _, m := range b.hits {
		for left := m.cost; left > 0 && m.at >= now.until; {
			cost := left
			if b.Ones {
				cost = 1
			}
			left -= cost
			counting = append(counting, moment{m.at, cost})
			if next, ok := b.broken(now, counting); ok {
				now = next
				blocks = append(blocks, now)
				if !b.Block.Clear {
					counting = nil
				}
			}
		}
	}
	return blocks, counting
}

// waive takes the last block back: it ends at an instant, and what is before it counts as it did.
func (b *textbook) waive(last block, until int64) {
	_, counting := b.run()
	n := slices.IndexFunc(counting, func(m moment) bool { return m.at >= last.until })
	if n < 0 {
		n = len(counting)
	}
	b.kept, b.hits = counting[:n:n], nil
	for _, m := range counting[n:] {
		b.insert(m.at, m.cost)
	}
	b.waived = block{until: until, level: last.level - 1}
}

// broken is the block that the last hit begins, if it does.
func (b *textbook) broken(before block, counting []moment) (block, bool) {
	at := counting[len(counting)-1].at
	for i, l := range b.Limits {
		if count := hitsWithin(counting, at, l.Per.Milliseconds()); count > l.Hits {
			if b.Ones { // more, where a block was waived that these hits led to
				count = l.Hits + 1
			}
			now := b.block(before, at, counting)
			now.limit, now.count = i, count
			return now, true
		}
	}
	return block{}, false
}

func (b *textbook) block(before block, at int64, counting []moment) block {
	level := 1
	if before.until > 0 && at < before.until+b.Block.Forget.Milliseconds() {
		level = before.level + 1
	}
	all := append([]time.Duration{b.Block.For}, b.Block.Then...)
	until := at + all[min(level, len(all))-1].Milliseconds()
	if b.Block.Clear && !b.admits(counting, until) {
		var ends []int64
		for _, m := range counting {
			for _, l := range b.Limits {
				if end := m.at + l.Per.Milliseconds(); end > until {
					ends = append(ends, end)
				}
			}
		}
		slices.Sort(ends)
		until = ends[slices.IndexFunc(ends, func(at int64) bool { return b.admits(counting, at) })]
	}
	return block{from: at, until: until, level: level}
}

// admits says whether one more hit would be within the limits.
func (b *textbook) admits(counting []moment, at int64) bool {
	return !slices.ContainsFunc(b.Limits, func(l Limit) bool { return hitsWithin(counting, at, l.Per.Milliseconds()) >= l.Hits })
}

// unsettledScene is traffic of blocks that are short and long, compared to the lateness.
func unsettledScene(r *rand.Rand) scene {
	sc := randomScene(r, Sliding)
	sc.config.Block.Extend = false
	sc.config.Block.Clear = r.IntN(3) == 0
	sc.config.Ones = r.IntN(2) == 0
	sc.config.Late = pick(r, 100*time.Millisecond, 2*time.Second, 10*time.Second, time.Minute)
	sc.config.Block.For = pick(r, time.Millisecond, time.Second, 2*time.Second, 10*time.Second, time.Minute)
	if sc.config.Ones && r.IntN(2) == 0 { // else those of one instant come together, as in batches
		sc.hits = singly(sc.hits)
	}
	return sc
}

// singly are hits that cost one each, some of them several at one instant.
func singly(hits []moment) (ones []moment) {
	for _, m := range hits {
		for range min(m.cost, 4) {
			ones = append(ones, moment{m.at, 1})
		}
	}
	return ones
}

// After every hit, in any order of arrival, the blocks are those of the textbook, to the millisecond: from, until, level,
// limit and count; and so is what counts behind them.
func TestBlocksAreThoseOfTheSortedLog(t *testing.T) {
	r := random(t)
	events := map[Event]int{}
	several, others, waived := 0, 0, 0
	for range 1500 {
		sc := unsettledScene(r)
		p, book := mustNew(t, sc.config), &textbook{Config: sc.config}
		var s State
		for i, m := range shuffled(r, sc.hits, sc.config.Late.Milliseconds()*5/4) {
			was, _ := book.run()
			accepted := book.hit(m.at, m.cost)
			want, counting := book.run()
			got := p.Hit(&s, m.at, m.cost)
			events[got.Event]++
			others += len(s.Others())
			if (got.Event == Late) != !accepted {
				t.Fatalf("%+v: hit %d, %v: %+v", sc.config, i, m, got)
			}
			if fault := differs(&s, got, was, want); fault != "" {
				t.Fatalf("%+v\nhit %d, %v of %v: %s\ngot  %+v\nwant %+v", sc.config, i, m, book.hits, fault, got, want)
			}
			for limit, l := range sc.config.Limits {
				if got, want := p.Count(&s, limit, s.newest), hitsWithin(counting, s.newest, l.Per.Milliseconds()); got != want {
					t.Fatalf("%+v\nhit %d, %v of %v: limit %d counts %d, want %d", sc.config, i, m, book.hits, limit, got, want)
				}
			}
			if u := s.unsettledOf(); u != nil && len(u.blocks) > 2 {
				several++
			}
			if n := len(want); n > 0 && r.IntN(12) == 0 {
				until := want[n-1].from + 1 + r.Int64N(want[n-1].until-want[n-1].from)
				book.waive(want[n-1], until)
				p.Waive(&s, until)
				waived++
			}
			if r.IntN(8) == 0 { // it is written and read
				bytes := p.Append(nil, &s)
				s = State{}
				if err := p.Read(bytes, &s); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for _, e := range []Event{Counted, Broke, Blocked, Late, Moved} {
		if events[e] < 300 {
			t.Errorf("only %d hits were of event %d: the traffic shows too little", events[e], e)
		}
	}
	if several < 500 || others < 50 || waived < 500 {
		t.Errorf("several blocks could move %d times, %d others did, and %d were waived: the traffic shows too little", several, others, waived)
	}
}

func (s *State) unsettledOf() *unsettled {
	if s.rare == nil || s.rare.unsettled == nil || len(s.rare.unsettled.blocks) == 0 {
		return nil
	}
	return s.rare.unsettled
}

// differs says what of a state is not as the textbook's blocks are.
func differs(s *State, o Outcome, was, want []block) string {
	from, until, level, ok := s.Block()
	if ok != (len(want) > 0) {
		return fmt.Sprintf("blocked is %v", ok)
	}
	if !ok {
		return ""
	}
	last := want[len(want)-1]
	if from != last.from || until != last.until || level != last.level {
		return fmt.Sprintf("the last block is %d to %d, level %d", from, until, level)
	}
	changed := len(was) != len(want) || !was[len(was)-1].same(last)
	if said := o.Event == Broke || o.Event == Moved; said != changed {
		return fmt.Sprintf("that the last block is another is %v", changed)
	}
	if changed && (o.From != last.from || o.Until != last.until || o.Level != last.level || o.Limit != last.limit || o.Count != last.count) {
		return "the outcome is not the last block"
	}
	if u := s.unsettledOf(); u != nil {
		for i, n := len(u.blocks)-1, len(want)-1; i >= 0 && u.blocks[i].from != waivedFrom; i, n = i-1, n-1 {
			if n < 0 || u.blocks[i].from != want[n].from || u.blocks[i].until != want[n].until || u.blocks[i].level != want[n].level {
				return fmt.Sprintf("the blocks are %+v", u.blocks)
			}
		}
	}
	return ""
}

// Of hits of one instant that come together, the limit is the one that the first offending hit breaks, with each algorithm.
func TestTheLimitOfHitsThatComeTogether(t *testing.T) {
	for _, algorithm := range []Algorithm{Sliding, Fixed} {
		for _, ones := range []bool{true, false} {
			config := Config{Algorithm: algorithm, Limits: []Limit{{5, time.Minute}, {15, time.Hour}}, Block: Block{For: time.Hour}, Ones: ones}
			p, single := mustNew(t, config), mustNew(t, config)
			begin := int64(someTime) / 3_600_000 * 3_600_000
			var together, apart State
			for i := range int64(14) {
				p.Hit(&together, begin+i*60_000, 1)
				single.Hit(&apart, begin+i*60_000, 1)
			}

			at := begin + 20*60_000
			got := p.Hit(&together, at, 6)
			want := Outcome{Event: Broke, Limit: 0, Count: 6}
			if ones {
				for range 2 {
					want = single.Hit(&apart, at, 1)
				}
				if want.Limit != 1 || want.Count != 16 {
					t.Fatalf("%v: one by one they are %+v", algorithm, want)
				}
			}
			if got.Event != want.Event || got.Limit != want.Limit || got.Count != want.Count {
				t.Errorf("%v, each one request is %v: %+v, want %+v", algorithm, ones, got, want)
			}
		}
	}
}

// Where every block lasts longer than hits may be late, a key that is blocked remembers no more than before.
func TestHitsInsideALongBlockAreNotKept(t *testing.T) {
	p := mustNew(t, Config{Limits: []Limit{{10, time.Minute}}, Late: 10 * time.Minute, Block: Block{For: 10 * time.Minute}})
	var s State
	for i := range int64(10_000) {
		p.Hit(&s, someTime+i*10, 1)
	}
	if u := s.unsettledOf(); u == nil || len(u.past) > 12 {
		t.Errorf("%d hits are kept", len(s.unsettledOf().past))
	}
	p.Hit(&s, someTime+15*time.Minute.Milliseconds(), 1)
	if s.unsettledOf() != nil {
		t.Error("a block that cannot move any more is kept as if it could")
	}
}

// A key with more hits than can be kept: its block stays, wherever late hits are.
func TestBlocksStayWhereTooMuchWouldBeKept(t *testing.T) {
	p := mustNew(t, Config{Limits: []Limit{{100, time.Second}}, Remember: minRemember, Late: 10 * time.Minute, Block: Block{For: time.Minute}})
	var s State
	for i := range int64(101) {
		p.Hit(&s, someTime+600_000+i, 1)
	}
	for i := range int64(2000) {
		p.Hit(&s, someTime+100+i*250, 1)
	}
	from, _, level, ok := s.Block()
	if !ok || from != someTime+600_100 || level != 1 || s.Bytes() > 8*1024 {
		t.Errorf("%v from %d, level %d, %d bytes", ok, from-someTime, level, s.Bytes())
	}
}

// A client that waits out each block and breaks the limit again has no hit inside a block. Its hits and blocks are kept
// for late hits, but no more of them than a key may keep.
func TestBlocksThatFollowEachOtherKeepWithinTheirMemory(t *testing.T) {
	for _, c := range []struct {
		limit, cost int64
		clear       bool
	}{{1, 1, false}, {100, 1, false}, {250, 1, false}, {minRemember, narrowHits, false}, {minRemember, maxHits, false}, {1, 1, true}} {
		p := mustNew(t, Config{Limits: []Limit{{c.limit, 2 * time.Second}}, Remember: minRemember, Late: 20 * time.Minute,
			Block: Block{For: time.Millisecond, Clear: c.clear}})
		var s State
		var breaks int
		at := int64(someTime)
		for i := range 20_000 {
			_, until, _, _ := s.Block()
			at = max(at+1, until)
			if o := p.Hit(&s, at, c.cost); o.Event == Broke {
				breaks++
				if o.From != at {
					t.Fatalf("%+v: the block begins %d ms before its hit", c, at-o.From)
				}
			}
			if u := s.unsettledOf(); u != nil && (int64(8*cap(u.past)) > BytesOfHit(c.limit)*minRemember || len(u.blocks) > minRemember+1) {
				t.Fatalf("%+v: after %d hits %d words and %d blocks are kept", c, i+1, cap(u.past), len(u.blocks))
			}
		}
		if breaks < 50 {
			t.Errorf("%+v: %d blocks only", c, breaks)
		}
	}
}

// A key whose hits within Late and the longest limit are as many as can be remembered has the blocks that it would have
// if all were.
func TestBlocksMoveUpToTheBound(t *testing.T) {
	r := random(t)
	events := map[Event]int{}
	for range 40 {
		c := Config{Limits: []Limit{{pick[int64](r, 1, 10, 30), time.Second}, {100, 2 * time.Second}}, Remember: minRemember, Late: 2 * time.Second,
			Block: Block{For: pick(r, 50*time.Millisecond, 300*time.Millisecond, time.Second), Forget: time.Second, Clear: r.IntN(3) == 0}}
		few := mustNew(t, c)
		c.Remember = maxRemember
		all := mustNew(t, c)

		// An instant in sixteen milliseconds: 250 within four seconds.
		hits := make([]moment, 3000)
		for i := range hits {
			hits[i] = moment{someTime + 16*int64(i) + r.Int64N(16), 1}
		}
		late := pick[int64](r, 20, 200, 1999)
		var a, b State
		for i, m := range shuffled(r, hits, late) {
			got, want := few.Hit(&a, m.at, m.cost), all.Hit(&b, m.at, m.cost)
			if got != want || !slices.Equal(a.Others(), b.Others()) {
				t.Fatalf("%+v late %d, hit %d: got %+v, want %+v", c, late, i, got, want)
			}
			events[got.Event]++
		}
	}
	if events[Moved] < 100 || events[Broke] < 100 {
		t.Errorf("%v: the traffic shows too little", events)
	}
}
