package window

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A groupBook is a Policy that counts blocks of members as one would write it on paper: it has each block as it is now,
// sorts them, and counts from the first one. It remembers everything.
type groupBook struct {
	Config
	now map[[2]uint64]MemberBlock
}

func (b *groupBook) run() (blocks []block, counting []valueHit) {
	book := valueBook{Config: b.Config}
	for _, m := range b.now {
		if !m.Gone {
			value := m.Value
			if value >= 1<<32 {
				value >>= b.Shift
			}
			book.hits = append(book.hits, valueHit{m.At, value})
		}
	}
	slices.SortFunc(book.hits, func(x, y valueHit) int { return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.value, y.value)) })
	return book.run()
}

// randomGroup is blocks of members as they are found one after another. Some move or go afterwards, at random moments.
// Those of one block are in order, and are late by no more than the lateness; blocks that go are among them.
func randomGroup(r *rand.Rand, c Config) []MemberBlock {
	late := c.Late.Milliseconds()
	type keyed struct {
		MemberBlock
		key int64
	}
	var all []keyed
	at, different := int64(someTime), 1+r.Uint64N(2*uint64(c.Limits[0].Hits)+3)
	for id := range uint64(60) {
		at += r.Int64N(2 * c.Limits[0].Per.Milliseconds() / c.Limits[0].Hits)
		m := MemberBlock{At: at, Value: r.Uint64N(different), ID: id}
		if c.Shift > 0 && r.IntN(4) > 0 { // one of several that count as one
			m.Value = 1<<32 | m.Value<<c.Shift | r.Uint64N(1<<c.Shift)
		}
		key := at + r.Int64N(late/2+1)
		all = append(all, keyed{m, key})
		for r.IntN(3) == 0 { // it is corrected, also after a while
			m.At = max(0, m.At+r.Int64N(late/4+1)-late/8)
			key += r.Int64N(late/4 + 1)
			all = append(all, keyed{m, key})
		}
		if r.IntN(8) == 0 {
			m.Gone = true
			all = append(all, keyed{m, key + r.Int64N(late/4+1)})
		}
	}
	slices.SortStableFunc(all, func(a, b keyed) int { return cmp.Compare(a.key, b.key) })
	var found []MemberBlock
	for i, k := range all {
		found = append(found, k.MemberBlock)
		if r.IntN(10) == 0 { // what was found before is found again, as after a crash, in its order
			for _, again := range all[max(0, i-5) : i+1] {
				found = append(found, again.MemberBlock)
			}
		}
	}
	return found
}

func TestBlocksOfGroupsAreThoseOfTheSortedLog(t *testing.T) {
	r := random(t)
	events, late := map[Event]int{}, 0
	for range 1500 {
		c := Config{Distinct: 7, Members: true, Ones: true, Shift: pick[uint](r, 0, 0, 16), Late: pick(r, 2*time.Second, time.Minute, time.Hour),
			Block: Block{For: pick(r, time.Millisecond, time.Second, 10*time.Second, time.Minute), Forget: pick(r, 0, time.Second, time.Hour)}}
		for range r.IntN(3) {
			c.Block.Then = append(c.Block.Then, time.Duration(1+r.IntN(60))*time.Second)
		}
		for range 1 + r.IntN(3) {
			c.Limits = append(c.Limits, Limit{1 + r.Int64N(8), time.Duration(1+r.Int64N(5000)) * time.Millisecond})
		}
		p, book := mustNew(t, c), &groupBook{c, map[[2]uint64]MemberBlock{}}
		var s State
		for i, m := range randomGroup(r, c) {
			key, settled := [2]uint64{m.Value, m.ID}, s.newest-c.Late.Milliseconds()
			if before, known := book.now[key]; known && before.At < settled || m.At < settled {
				late++
				if o := p.HitMember(&s, MemberBlock{At: settled - 1, Value: m.Value, ID: m.ID + 1000}); o.Event != Late {
					t.Fatalf("%+v: a late one: %+v", c, o)
				}
				continue
			}
			was, _ := book.run()
			got := p.HitMember(&s, m)
			events[got.Event]++
			book.now[key] = m
			want, counting := book.run()
			if fault := groupDiffers(&s, got, was, want); fault != "" {
				t.Fatalf("%+v\nblock %d, %+v: %s\ngot  %+v\nwant %+v\nwas %+v", c, i, m, fault, got, want, was)
			}
			for limit, l := range c.Limits {
				if got, want := p.Count(&s, limit, s.newest), differentWithin(counting, s.newest, l.Per.Milliseconds()); got != want {
					t.Fatalf("%+v\nblock %d, %+v: limit %d counts %d, want %d", c, i, m, limit, got, want)
				}
			}
			if r.IntN(8) == 0 { // it is written and read
				s = reread(t, p, &s)
			}
		}
	}
	for _, e := range []Event{Counted, Broke, Blocked, Moved, Undone} {
		if events[e] < 300 {
			t.Errorf("only %d changes were of event %d: the blocks show too little", events[e], e)
		}
	}
	if late < 100 {
		t.Errorf("only %d blocks were late", late)
	}
}

func groupDiffers(s *State, o Outcome, was, want []block) string {
	if len(want) >= len(was) && len(want) > 0 {
		return differs(s, o, was, want)
	}
	if len(want) < len(was) {
		last := was[len(was)-1]
		if n := len(want); n > 0 && want[n-1].until > last.from {
			return differs(s, o, nil, want) // it has moved to where others were
		}
		if o.Event != Undone || o.From != last.from || o.Until != last.until || o.Level != last.level {
			return "the last block is not undone"
		}
		if len(want) > 0 {
			return differs(s, Outcome{Event: Moved, From: want[len(want)-1].from, Until: want[len(want)-1].until, Level: want[len(want)-1].level,
				Limit: want[len(want)-1].limit, Count: want[len(want)-1].count}, nil, want)
		}
	}
	if from, until, level, ok := s.Block(); ok {
		return fmt.Sprintf("the last block is %d to %d, level %d", from, until, level)
	}
	return ""
}

// A group keeps no more than it may, and with more only lets through: who kept the limit is never blocked.
func TestGroupsAboveTheBound(t *testing.T) {
	r := random(t)
	full := 0
	for range 40 {
		limit := Limit{1 + r.Int64N(10), time.Duration(10+r.Int64N(100)) * time.Second}
		p := mustNew(t, Config{Distinct: 7, Members: true, Late: 24 * time.Hour, Limits: []Limit{limit}, Block: Block{For: pick(r, time.Second, time.Hour)}})
		p.members.most = 64
		var hits []valueHit
		var s, broken State
		at := int64(someTime)
		for id := range uint64(600) {
			at += r.Int64N(2 * limit.Per.Milliseconds() / limit.Hits)
			m := MemberBlock{At: at, Value: r.Uint64N(3 * uint64(limit.Hits)), ID: id}
			p.HitMember(&broken, m)
			if hits = append(hits, valueHit{at, m.Value}); differentWithin(hits, at, limit.Per.Milliseconds()) > limit.Hits {
				hits = hits[:len(hits)-1]
				continue
			}
			if o := p.HitMember(&s, m); o.Event != Counted {
				t.Fatalf("who kept the limit: %+v", o)
			}
			for _, one := range []*State{&s, &broken} {
				n := len(one.rare.members.hits)
				if n > p.members.most {
					t.Fatalf("%d blocks are kept", n)
				}
				full += boolInt(n == p.members.most)
			}
		}
	}
	if full < 100 {
		t.Errorf("a group had all that it may keep only %d times", full)
	}
}

// A member that is blocked again and again, as under a key with a path too, does not hide the others.
func TestOneMemberDoesNotPushOutOthers(t *testing.T) {
	p := mustNew(t, Config{Distinct: 7, Members: true, Late: 24 * time.Hour, Limits: []Limit{{5, 10 * time.Minute}}, Block: Block{For: time.Hour}})
	var s State
	at := int64(someTime)
	for value := range uint64(5) {
		p.HitMember(&s, MemberBlock{At: at + int64(value), Value: value, ID: value})
	}
	for id := range uint64(5000) {
		at += 100
		p.HitMember(&s, MemberBlock{At: at, Value: 0, ID: 100 + id})
		if n := len(s.rare.members.hits); n > leastMembers {
			t.Fatalf("%d blocks are kept", n)
		}
	}
	if o := p.HitMember(&s, MemberBlock{At: at + 1000, Value: 9, ID: 99}); o.Event != Broke || o.Count != 6 {
		t.Errorf("with a sixth member: %+v", o)
	}
}

// A block of a group that lasts ends with its members', however long ago these were found.
func TestAGroupEndsWithItsMembers(t *testing.T) {
	p := mustNew(t, Config{Distinct: 7, Members: true, Late: time.Hour, Limits: []Limit{{2, time.Minute}}, Block: Block{For: Forever}})
	var s State
	for value := range uint64(4) {
		p.HitMember(&s, MemberBlock{At: someTime + int64(value), Value: value, ID: value})
	}
	day := int64(24 * 3_600_000)
	p.HitMember(&s, MemberBlock{At: someTime + 3*day, Value: 9, ID: 9})
	s = reread(t, p, &s)
	if o := p.HitMember(&s, MemberBlock{At: someTime, Value: 0, ID: 0, Gone: true}); o.Event != Moved || o.From != someTime+3 {
		t.Fatalf("with one of four gone: %+v", o)
	}
	if o := p.HitMember(&s, MemberBlock{At: someTime + 1, Value: 1, ID: 1, Gone: true}); o.Event != Undone || o.First != someTime+2 {
		t.Fatalf("with two of four gone: %+v", o)
	}
	if _, _, _, ok := s.Block(); ok {
		t.Fatal("the group is still blocked")
	}
}

// Where a member's end has an earlier block of the group move to where the last one was, the last one is that block.
func TestABlockOfAGroupMovesOverALaterOne(t *testing.T) {
	p := mustNew(t, Config{Distinct: 7, Members: true, Late: time.Hour, Limits: []Limit{{2, time.Minute}}, Block: Block{For: 10 * time.Second}})
	var s State
	for value, at := range []int64{0, 1, 2, 10, 13, 14, 15} {
		p.HitMember(&s, MemberBlock{At: someTime + at*1000, Value: uint64(value), ID: uint64(value)})
	}
	if from, _, _, ok := s.Block(); !ok || from != someTime+15_000 {
		t.Fatalf("the second block is from %d", from)
	}
	o := p.HitMember(&s, MemberBlock{At: someTime, ID: 0, Gone: true})
	if o.Event != Moved || o.From != someTime+10_000 || o.Until != someTime+20_000 || o.First != someTime+2000 || len(s.Gone()) != 1 {
		t.Errorf("%+v, gone %+v", o, s.Gone())
	}
}

// An unblocked group begins again, and blocks of members from before do not count.
func TestAnUnblockedGroupBeginsAgain(t *testing.T) {
	p := mustNew(t, Config{Distinct: 7, Members: true, Late: time.Hour, Limits: []Limit{{2, time.Minute}}, Block: Block{For: time.Hour}})
	var s State
	hit := func(at int64, value uint64) Event {
		return p.HitMember(&s, MemberBlock{At: someTime + at, Value: value, ID: value}).Event
	}
	hit(1000, 1)
	hit(2000, 2)
	if e := hit(3000, 3); e != Broke {
		t.Fatalf("the third member: %d", e)
	}
	p.Unblock(&s, someTime+10_000)
	s = reread(t, p, &s)
	hit(4000, 4)
	hit(11_000, 5)
	hit(12_000, 6)
	s = reread(t, p, &s)
	if from, _, _, ok := s.Block(); ok {
		t.Fatalf("blocked from %d", from)
	}
	if e := hit(13_000, 7); e != Broke {
		t.Fatalf("the third member behind the unblock: %d", e)
	}
}
