package window

import (
	"cmp"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A valueHit is a hit with a value.
type valueHit struct {
	at    int64
	value uint64
}

// A valueBook is Policy with different values as one would write it on paper: it sorts all hits that have come, and counts
// from the first one. It remembers everything.
type valueBook struct {
	Config
	hits   []valueHit
	newest int64
	waived block // the block before all hits, which was waived
}

// hit takes a hit, and says whether it counts as one.
func (b *valueBook) hit(at int64, value uint64) bool {
	if at < b.newest-b.Late.Milliseconds() {
		return false
	}
	b.newest = max(b.newest, at)
	b.hits = append(b.hits, valueHit{at, value})
	slices.SortStableFunc(b.hits, func(x, y valueHit) int { return cmp.Compare(x.at, y.at) })
	return true
}

// run gives all blocks, and the hits that count behind the last.
func (b *valueBook) run() (blocks []block, counting []valueHit) {
	now := b.waived
	for i := 0; i < len(b.hits); {
		at := b.hits[i].at
		var instant []valueHit
		for ; i < len(b.hits) && b.hits[i].at == at; i++ {
			instant = append(instant, b.hits[i])
		}
		if at < now.until {
			continue
		}
		counting = append(counting, instant...)
		for limit, l := range b.Limits {
			if differentWithin(counting, at, l.Per.Milliseconds()) > l.Hits {
				book := textbook{Config: b.Config}
				now = book.block(now, at, nil)
				now.limit, now.count = limit, l.Hits+1
				blocks, counting = append(blocks, now), nil
				break
			}
		}
	}
	return blocks, counting
}

// differentWithin counts the values of the hits in (at-per, at].
func differentWithin(hits []valueHit, at, per int64) int64 {
	values := map[uint64]bool{}
	for _, h := range hits {
		if h.at > at-per && h.at <= at {
			values[h.value] = true
		}
	}
	return int64(len(values))
}

// A valueScene is random traffic of one key that comes close to its limits.
type valueScene struct {
	config Config
	hits   []valueHit
}

func randomValues(r *rand.Rand) valueScene {
	c := Config{
		Distinct: 7, Ones: true, Late: pick(r, 0, 100*time.Millisecond, 2*time.Second, 10*time.Second, time.Minute),
		Block: Block{For: pick(r, time.Millisecond, time.Second, 2*time.Second, 10*time.Second, time.Minute), Forget: pick(r, 0, time.Second, time.Hour)},
	}
	for range r.IntN(3) {
		c.Block.Then = append(c.Block.Then, time.Duration(1+r.IntN(60))*time.Second)
	}
	for range 1 + r.IntN(3) {
		c.Limits = append(c.Limits, Limit{1 + r.Int64N(8), time.Duration((1+r.Int64N(5000))*pick[int64](r, 1, 10)) * time.Millisecond})
	}
	sc := valueScene{config: c}
	different := 1 + uint64(r.Int64N(2*c.Limits[0].Hits+3))
	for _, m := range randomHits(r, 80, c.Limits[0], 1) {
		sc.hits = append(sc.hits, valueHit{m.at, r.Uint64N(different)})
	}
	return sc
}

// shuffledValues are the hits in an order in which none is later than late.
func shuffledValues(r *rand.Rand, hits []valueHit, late int64) []valueHit {
	type keyed struct {
		valueHit
		key int64
	}
	var order []keyed
	for _, h := range hits {
		order = append(order, keyed{h, h.at + r.Int64N(late+1)})
	}
	slices.SortStableFunc(order, func(a, b keyed) int { return cmp.Compare(a.key, b.key) })
	var all []valueHit
	for _, k := range order {
		all = append(all, k.valueHit)
	}
	return all
}

// After every hit, in any order of arrival, the blocks are those of the sorted log, to the millisecond: from, until, level
// and limit; and so is the number of different values behind them.
func TestBlocksOfDifferentValuesAreThoseOfTheSortedLog(t *testing.T) {
	r := random(t)
	events := map[Event]int{}
	several, others, waived := 0, 0, 0
	for range 1200 {
		sc := randomValues(r)
		p, book := mustNew(t, sc.config), &valueBook{Config: sc.config}
		var s State
		for i, h := range shuffledValues(r, sc.hits, sc.config.Late.Milliseconds()*5/4) {
			was, _ := book.run()
			accepted := book.hit(h.at, h.value)
			want, counting := book.run()
			got := p.HitValue(&s, h.at, h.value)
			events[got.Event]++
			others += len(s.Others())
			if (got.Event == Late) != !accepted {
				t.Fatalf("%+v: hit %d, %v: %+v", sc.config, i, h, got)
			}
			if fault := differs(&s, got, was, want); fault != "" {
				t.Fatalf("%+v\nhit %d, %v of %v: %s\ngot  %+v\nwant %+v\nwas %+v", sc.config, i, h, book.hits, fault, got, want, was)
			}
			for limit, l := range sc.config.Limits {
				if got, want := p.Count(&s, limit, s.newest), differentWithin(counting, s.newest, l.Per.Milliseconds()); got != want {
					t.Fatalf("%+v\nhit %d, %v of %v: limit %d counts %d, want %d", sc.config, i, h, book.hits, limit, got, want)
				}
			}
			if u := s.unsettledOf(); u != nil && len(u.blocks) > 2 {
				several++
			}
			if n := len(want); n > 0 && r.IntN(12) == 0 {
				until := want[n-1].from + 1 + r.Int64N(want[n-1].until-want[n-1].from)
				book.hits, book.waived = counting, block{until: until, level: want[n-1].level - 1}
				p.Waive(&s, until)
				waived++
			}
			if r.IntN(8) == 0 { // it is written and read
				s = reread(t, p, &s)
			}
			if s.rare == nil || s.rare.seen == nil {
				continue
			}
			if fault := s.rare.seenFault(); got.Event != Late && fault != "" {
				t.Fatalf("%+v\nhit %d, %v of %v: %s", sc.config, i, h, book.hits, fault)
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

// seenFault says what of the places that refer to each other is wrong.
func (r *rare) seenFault() string {
	v := r.seen
	newest := map[uint64]int{}
	for j := range v.values {
		one := &v.values[j]
		before, known := newest[one.value]
		switch {
		case !known:
			before = -1
		case v.values[before].word&valueNext == 0:
			return "a hit does not know that it has a next one"
		}
		if v.before(j) != before {
			return "a hit has another before it"
		}
		if j > 0 && one.at() < v.values[j-1].at() {
			return "hits are not in order"
		}
		newest[one.value] = j
	}
	for value, j := range newest {
		if v.find(value) != j || v.values[j].word&valueNext != 0 {
			return "the index has another place"
		}
	}
	if v.different != len(newest) {
		return "the number of values is another"
	}
	return ""
}

// In the order of time, blocks are exact whatever a key does, and its memory has a bound.
func TestDifferentValuesInOrderAreExactWithinTheirMemory(t *testing.T) {
	r := random(t)
	broke, full := 0, 0
	for range 60 {
		c := Config{Distinct: 7, Late: pick(r, 0, time.Second, time.Minute, time.Hour), Block: Block{For: pick(r, time.Millisecond, time.Second, 2*time.Hour)}}
		for range 1 + r.IntN(2) {
			c.Limits = append(c.Limits, Limit{1 + r.Int64N(40), pick(r, 10*time.Millisecond, time.Second, time.Minute, time.Hour)})
		}
		p := mustNew(t, c)
		d := p.distinct
		var most int64
		for _, l := range c.Limits {
			most = max(most, BytesOfDistinct(l, c.Late))
		}
		most += 200 + int64(d.most/4+3)*2*64 // blocks
		if r.IntN(2) == 0 {
			d.most = 4 * (40 + 1)
		}

		var s State
		var until int64
		newest, from := map[uint64]int64{}, int64(0)
		at, different := int64(someTime), uint64(1+r.Int64N(2*c.Limits[0].Hits))
		for range 6000 {
			at += r.Int64N(1 + 3*c.Limits[0].Per.Milliseconds()/c.Limits[0].Hits)
			if r.IntN(5) > 0 {
				at -= at % 10
				at = max(at, s.newest)
			}
			value := r.Uint64N(different)
			o := p.HitValue(&s, at, value)
			full += boolInt(s.rare.seen != nil && len(s.rare.seen.values) == d.most)
			if n := int64(s.Bytes()); n > most {
				t.Fatalf("%+v: %d bytes, want %d at most", c, n, most)
			}
			if at < until {
				if o.Event != Blocked && o.Event != Moved {
					t.Fatalf("%+v: inside a block: %+v", c, o)
				}
				continue
			}
			newest[value] = at
			breaks := false
			for _, l := range c.Limits {
				n := int64(0)
				for _, last := range newest {
					n += int64(boolInt(last > at-l.Per.Milliseconds() && last >= from))
				}
				breaks = breaks || n > l.Hits
			}
			if breaks != (o.Event == Broke) {
				t.Fatalf("%+v: it breaks is %v: %+v", c, breaks, o)
			}
			if breaks {
				broke++
				until = o.Until
				from = until
				clear(newest)
			}
		}
	}
	if broke < 500 || full < 50 {
		t.Errorf("%d blocks, and a key had all that it may keep %d times: the traffic shows too little", broke, full)
	}
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// A key that kept the limit is never blocked, in any order and above the bound too. A key with more hits than are kept has
// the memory that it may have.
func TestDifferentValuesAboveTheBound(t *testing.T) {
	r := random(t)
	kept, full := 0, 0
	for range 200 {
		limit := Limit{1 + r.Int64N(10), time.Duration(10+r.Int64N(100)) * time.Millisecond}
		c := Config{Distinct: 7, Late: 20 * time.Second, Limits: []Limit{limit}, Block: Block{For: pick(r, 10*time.Millisecond, time.Minute)}}
		p := mustNew(t, c)
		p.distinct.most = leastSeen
		var hits []valueHit
		at := int64(someTime)
		for range 1000 {
			at += r.Int64N(2 * limit.Per.Milliseconds() / limit.Hits)
			hits = append(hits, valueHit{at, r.Uint64N(3 * uint64(limit.Hits))})
			if differentWithin(hits, at, limit.Per.Milliseconds()) > limit.Hits {
				hits = hits[:len(hits)-1]
			}
		}
		var s State
		for _, h := range shuffledValues(r, hits, c.Late.Milliseconds()) {
			if o := p.HitValue(&s, h.at, h.value); o.Event != Counted {
				t.Fatalf("%+v: who kept the limit: %+v", c, o)
			}
			if len(s.rare.seen.values) > leastSeen {
				t.Fatalf("%d hits are kept", len(s.rare.seen.values))
			}
			full += boolInt(len(s.rare.seen.values) == leastSeen)
		}
		kept += len(hits)
	}
	if kept < 100_000 || full < 1000 {
		t.Errorf("%d hits, %d of them with all that a key may keep: the traffic shows too little", kept, full)
	}
}

// A late hit of random traffic that exceeds what is kept never ends a block, and never has one begin later.
func TestDifferentValuesBeyondTheBoundKeepTheirBlocks(t *testing.T) {
	r := random(t)
	for range 200 {
		sc := randomValues(r)
		sc.config.Late = time.Minute
		p := mustNew(t, sc.config)
		p.distinct.most = 12
		var s State
		var first int64
		for _, h := range shuffledValues(r, sc.hits, 60_000) {
			o := p.HitValue(&s, h.at, h.value)
			if o.Event == Broke && first == 0 {
				first = o.From
			}
			if fault := s.rare.seenFault(); fault != "" {
				t.Fatal(fault)
			}
			if _, _, _, ok := s.Block(); first > 0 && !ok {
				t.Fatalf("the block is gone: %+v", o)
			}
		}
	}
}

// A key with few values keeps few hits, however many come, where blocks are longer than hits may be late.
func TestRepeatedValuesTakeLittle(t *testing.T) {
	p := mustNew(t, Config{Distinct: 7, Limits: []Limit{{200, time.Hour}}, Late: 10 * time.Minute, Block: Block{For: 10 * time.Minute}})
	var s State
	for i := range int64(100_000) {
		p.HitValue(&s, someTime+i*10, uint64(i%3))
	}
	if s.Bytes() > 1000 {
		t.Errorf("%d bytes", s.Bytes())
	}

	// Hits of the last ten minutes are kept, where a block may end within them.
	short := mustNew(t, Config{Distinct: 7, Limits: []Limit{{200, time.Hour}}, Late: 20 * time.Minute, Block: Block{For: 10 * time.Minute}})
	s = State{}
	for i := range int64(1000) {
		short.HitValue(&s, someTime+i*10_000, uint64(i%3))
	}
	if s.Bytes() > 3000 {
		t.Errorf("%d bytes", s.Bytes())
	}
}

// The bytes of version 4, held for ever.
func TestBytesOfVersion4(t *testing.T) {
	p := mustNew(t, Config{Distinct: 7, Limits: []Limit{{3, time.Minute}}, Late: time.Minute, Block: Block{For: time.Second}})
	var s State
	for i, value := range []uint64{1, 2, 1, 3, 4, 9, 9} {
		p.HitValue(&s, someTime+int64(i)*700, value)
	}
	const want = "4011e8f095ffbc310700000000000000e807f0150101f015e807010004f015010780a0abfef9620100000000000000f80a0200000000000000f90a01f80a0300000000000000f80a0400000000000000f80a0900000000000000f90a00701ab88671ba366f"
	if got := hex.EncodeToString(p.Append(nil, &s)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Under values of something else, or without values, a key that is read keeps its block and nothing more; under smaller
// limits its hits too.
func TestDifferentValuesUnderOtherRules(t *testing.T) {
	c := Config{Distinct: 7, Limits: []Limit{{3, time.Minute}}, Late: time.Minute, Block: Block{For: 10 * time.Second}}
	p := mustNew(t, c)
	var s State
	for i := range int64(3) {
		p.HitValue(&s, someTime+i, uint64(i))
	}
	counting := p.Append(nil, &s)
	p.HitValue(&s, someTime+5, 99)
	blocked := p.Append(nil, &s)

	other, plain, smaller := c, c, c
	other.Distinct, plain.Distinct, smaller.Limits = 8, 0, []Limit{{2, time.Minute}}
	for _, test := range []struct {
		config Config
		count  int64
	}{{c, 3}, {other, 0}, {plain, 0}, {smaller, 3}} {
		into := mustNew(t, test.config)
		var read State
		if err := into.Read(counting, &read); err != nil || into.Count(&read, 0, read.newest) != test.count {
			t.Errorf("%+v: %v, %d", test.config, err, into.Count(&read, 0, read.newest))
		}
		if err := into.Read(blocked, &read); err != nil {
			t.Error(err)
		}
		if from, until, _, ok := read.Block(); !ok || from != someTime+5 || until != someTime+10_005 {
			t.Errorf("%+v: the block is %d to %d, %v", test.config, from, until, ok)
		}
	}

	var hits State
	sliding := mustNew(t, plain)
	for i := range int64(4) {
		sliding.Hit(&hits, someTime+i, 1)
	}
	var read State
	if err := p.Read(sliding.Append(nil, &hits), &read); err != nil || p.Count(&read, 0, someTime+10) != 0 {
		t.Error(err)
	}
	if _, _, _, ok := read.Block(); !ok {
		t.Error("a block of hits is gone where values are counted")
	}
	damaged := slices.Clone(counting)
	damaged[9] ^= 1
	if err := p.Read(damaged, &read); !errors.Is(err, ErrCorrupt) {
		t.Error(err)
	}
}

func TestDifferentValuesThatCannotBe(t *testing.T) {
	good := Config{Distinct: 7, Limits: []Limit{{MostDistinct, time.Minute}}, Block: Block{For: time.Second}}
	mustNew(t, good)
	for name, change := range map[string]func(*Config){
		"too many":     func(c *Config) { c.Limits = []Limit{{MostEstimated + 1, time.Minute}} },
		"of members":   func(c *Config) { c.Members, c.Limits = true, []Limit{{MostDistinct + 1, time.Minute}} },
		"two limits":   func(c *Config) { c.Limits = append(c.Limits, Limit{MostDistinct + 1, time.Hour}) },
		"an algorithm": func(c *Config) { c.Algorithm = Token },
		"at once":      func(c *Config) { c.AtOnce = []int{0} },
		"extend":       func(c *Config) { c.Block.Extend = true },
		"clear":        func(c *Config) { c.Block.Clear = true },
	} {
		c := good
		change(&c)
		if _, err := New(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A hit allocates nothing but the growth of its state.
func TestDifferentValuesAllocateNothing(t *testing.T) {
	p := mustNew(t, Config{Distinct: 7, Limits: []Limit{{200, time.Hour}}, Late: 20 * time.Minute, Block: Block{For: 10 * time.Minute}})
	var s State
	at, n := int64(someTime), uint64(0)
	hit := func() {
		at += 18_100
		n++
		p.HitValue(&s, at, n%190)
		p.HitValue(&s, at-1000, n*7%190)
		p.Touch(&s)
	}
	for range 5000 {
		hit()
	}
	if allocations := testing.AllocsPerRun(2000, hit); allocations > 0 {
		t.Errorf("%v allocations for two hits", allocations)
	}
}
