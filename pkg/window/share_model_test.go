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

// A shareBook is Policy with a share as one would write it on paper: it sorts all hits that have come, and counts from the
// first one. It remembers everything. A value of 1 matches.
type shareBook struct {
	Config
	hits   []valueHit
	newest int64
	judged int64 // no hit comes any more that is older than this less Late
}

// hit takes a hit, and says whether it is not late.
func (b *shareBook) hit(at int64, value uint64) bool {
	if at < b.newest-b.Late.Milliseconds() {
		return false
	}
	b.newest = max(b.newest, at)
	b.judged = max(b.judged, at)
	b.hits = append(b.hits, valueHit{at, value})
	slices.SortStableFunc(b.hits, func(x, y valueHit) int { return cmp.Compare(x.at, y.at) })
	return true
}

// run gives all blocks, when the first offence was that is pending, and the hits that count.
func (b *shareBook) run() (blocks []block, pending int64, counting []valueHit) {
	var now block
	pending = Never
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
		matching, all := shareWithin(counting, at, b.Limits[0].Per.Milliseconds())
		if pending != Never || all < b.Limits[0].Hits || matching*wholeShare <= b.Share.Over*all {
			continue
		}
		if at >= b.judged-b.Late.Milliseconds() {
			pending = at
			continue
		}
		book := textbook{Config: b.Config}
		now = book.block(now, at+b.Late.Milliseconds(), nil)
		now.count = matching
		blocks, counting = append(blocks, now), nil
	}
	return blocks, pending, counting
}

// shareWithin counts the hits in (at-per, at] that match, and all.
func shareWithin(hits []valueHit, at, per int64) (matching, all int64) {
	for _, h := range hits {
		if h.at > at-per && h.at <= at {
			matching += int64(h.value)
			all++
		}
	}
	return matching, all
}

func randomShares(r *rand.Rand) valueScene {
	c := Config{
		Share: &Share{Of: 7, Over: pick[int64](r, 1, 100_000, 333_333, 500_000, 500_000, 900_000, MostOver)}, Ones: true,
		Late:   pick(r, 0, 100*time.Millisecond, 2*time.Second, 10*time.Second, time.Minute),
		Block:  Block{For: pick(r, time.Millisecond, time.Second, 10*time.Second, time.Minute), Forget: pick(r, 0, time.Second, time.Hour)},
		Limits: []Limit{{1 + r.Int64N(8), time.Duration((1+r.Int64N(5000))*pick[int64](r, 1, 10)) * time.Millisecond}},
	}
	for range r.IntN(3) {
		c.Block.Then = append(c.Block.Then, time.Duration(1+r.IntN(60))*time.Second)
	}
	sc := valueScene{config: c}
	bad := r.Float64()
	for _, m := range randomHits(r, 80, c.Limits[0], 1) {
		if r.IntN(15) == 0 {
			bad = r.Float64()
		}
		sc.hits = append(sc.hits, valueHit{m.at, uint64(boolInt(r.Float64() < bad))})
	}
	return sc
}

// After every hit, in any order of arrival, the blocks are those of the sorted log, to the millisecond, and so are the offence
// that is pending and the hits that count; and each block comes once.
func TestBlocksOfSharesAreThoseOfTheSortedLog(t *testing.T) {
	r := random(t)
	events := map[Event]int{}
	vanished, judged := 0, 0
	for range 1500 {
		sc := randomShares(r)
		p, book := mustNew(t, sc.config), &shareBook{Config: sc.config}
		late := sc.config.Late.Milliseconds()
		var s State
		begun, was := 0, Never
		check := func(i int, o Outcome) {
			t.Helper()
			blocks, pending, counting := book.run()
			if o.Event == Broke {
				begun++
			}
			if begun != len(blocks) {
				t.Fatalf("%+v %+v\nhit %d: %d blocks have begun, want %d: %+v", sc.config, sc.config.Share, i, begun, len(blocks), o)
			}
			if begun > 0 {
				want := blocks[begun-1]
				from, until, level, _ := s.Block()
				if from != want.from || until != want.until || level != want.level {
					t.Fatalf("%+v\nhit %d: the block is %d to %d at level %d, want %+v", sc.config, i, from, until, level, want)
				}
				if o.Event == Broke && (o.From != from || o.Until != until || o.Level != level || o.Count != want.count || o.First != from) {
					t.Fatalf("%+v\nhit %d: %+v, want %+v", sc.config, i, o, want)
				}
			}
			if got := p.Pending(&s); got != pending {
				t.Fatalf("%+v %+v\nhit %d of %v: pending is %d, want %d", sc.config, sc.config.Share, i, book.hits, got, pending)
			}
			if was != Never && pending == Never && o.Event != Broke {
				vanished++
			}
			was = pending
			matching, all := p.Share(&s, s.newest)
			if m, a := shareWithin(counting, s.newest, sc.config.Limits[0].Per.Milliseconds()); m != matching || a != all {
				t.Fatalf("%+v\nhit %d: %d of %d, want %d of %d", sc.config, i, matching, all, m, a)
			}
		}
		for i, h := range shuffledValues(r, sc.hits, late*5/4) {
			if h.at >= book.newest-late && h.at < book.judged-late {
				continue
			}
			accepted := book.hit(h.at, h.value)
			o := p.HitValue(&s, h.at, h.value)
			events[o.Event]++
			if (o.Event == Late) != !accepted {
				t.Fatalf("%+v: hit %d, %v: %+v", sc.config, i, h, o)
			}
			check(i, o)
			if r.IntN(4) == 0 { // others move the time on
				book.judged = max(book.judged, book.newest+r.Int64N(late+2))
				o := p.Judge(&s, book.judged)
				judged += boolInt(o.Event == Broke)
				check(i, o)
			}
			if r.IntN(8) == 0 { // it is written and read
				s = reread(t, p, &s)
				check(i, Outcome{})
			}
		}
	}
	for _, e := range []Event{Counted, Broke, Blocked, Late} {
		if events[e] < 300 {
			t.Errorf("only %d hits were of event %d: the traffic shows too little", events[e], e)
		}
	}
	if vanished < 100 || judged < 100 {
		t.Errorf("%d offences vanished, and %d were judged without a hit: the traffic shows too little", vanished, judged)
	}
}

// A key with more cells than it may have is blocked for nothing that the sorted log does not have, in any order, and its
// memory has a bound; and one that keeps on is blocked all the same.
func TestSharesAboveTheBound(t *testing.T) {
	r := random(t)
	blocked, guilty, kept := 0, 0, 0
	for range 300 {
		limit := Limit{1 + r.Int64N(30), time.Duration(500+r.Int64N(5000)) * time.Millisecond}
		c := Config{Share: &Share{Of: 7, Over: 500_000}, Late: pick(r, 0, time.Second, 5*time.Second), Limits: []Limit{limit}, Block: Block{For: 24 * time.Hour}}
		p, book := mustNew(t, c), &shareBook{Config: c}
		p.share.most = 64
		bad := pick(r, 0.3, 0.47, 0.5, 0.55, 0.9)
		at := int64(someTime)
		var hits []valueHit
		for range 1500 {
			at += r.Int64N(20)
			hits = append(hits, valueHit{at, uint64(boolInt(r.Float64() < bad))})
		}
		var s State
		for _, h := range shuffledValues(r, hits, c.Late.Milliseconds()) {
			p.HitValue(&s, h.at, h.value)
			if n := len(s.rare.shared.cells); n > 80 {
				t.Fatalf("%d cells", n)
			}
			if r.IntN(100) == 0 {
				s = reread(t, p, &s)
			}
		}
		book.hits = hits
		book.newest, book.judged = at, at+c.Late.Milliseconds()+1
		blocks, _, _ := book.run()
		p.Judge(&s, book.judged)
		from, _, _, ok := s.Block()
		switch {
		case ok && (len(blocks) == 0 || from < blocks[0].from):
			t.Fatalf("%+v: blocked from %d on, want %+v", c, from, blocks)
		case ok:
			blocked++
		case bad == 0.9:
			t.Fatalf("%+v: not blocked", c)
		}
		guilty += boolInt(len(blocks) > 0)
		kept += boolInt(len(blocks) == 0)
	}
	if blocked < 100 || kept < 20 {
		t.Errorf("%d of %d are blocked, and %d have kept the limit: the traffic shows too little", blocked, guilty, kept)
	}
}

// A key with as many milliseconds as it may have is counted exactly.
func TestSharesUpToTheBoundAreExact(t *testing.T) {
	r := random(t)
	c := Config{Share: &Share{Of: 7, Over: 500_000}, Late: time.Minute, Limits: []Limit{{20, 10 * time.Minute}}, Block: Block{For: time.Hour}}
	p := mustNew(t, c)
	var s State
	at := int64(someTime)
	for range 50_000 {
		at += 1 + 660_000/mostCells
		p.HitValue(&s, at-r.Int64N(100), uint64(r.IntN(5)/4))
		if s.rare.shared.span != 1 {
			t.Fatalf("cells of %d ms with %d of them", s.rare.shared.span, len(s.rare.shared.cells))
		}
	}
}

// In coarse cells, the time that a block begins later is short.
func TestSharesOfBusyKeys(t *testing.T) {
	c := Config{Share: &Share{Of: 7, Over: 500_000}, Late: time.Minute, Limits: []Limit{{20, 10 * time.Minute}}, Block: Block{For: time.Hour}}
	p := mustNew(t, c)
	var s State
	at := int64(someTime)
	for i := range 100_000 { // ten minutes of ten in a hundred
		at += 6
		p.HitValue(&s, at, uint64(boolInt(i%10 == 0)))
	}
	from := at
	for p.Pending(&s) == Never {
		at += 6
		p.HitValue(&s, at, 1)
	}
	// Of the last ten minutes 10,000 matched. For a half, 40,000 more have to match in place of others; the window moves on.
	exact := from + 44_445*6
	if late := p.Pending(&s) - exact; late < 0 || late > 3*(11*60_000)/2048 {
		t.Errorf("it is found %d ms behind the exact time", late)
	}
	if s.Bytes() > BytesOfShare+1000 {
		t.Errorf("%d bytes", s.Bytes())
	}
}

// The bytes of version 5, held for ever.
func TestBytesOfVersion5(t *testing.T) {
	p := mustNew(t, Config{Share: &Share{Of: 7, Over: 500_000}, Limits: []Limit{{3, time.Minute}}, Late: 2 * time.Second, Block: Block{For: time.Second}})
	var s State
	for i, value := range []uint64{1, 1, 1, 0, 0, 0, 0, 1, 0, 1, 1} {
		p.HitValue(&s, someTime+int64(i)*700, value)
	}
	const want = "5001d88696ffbc310700000000000000e0d403d00fe807a038010104a4f695ffbc310100bc050001bc050100bc050100c2f6ff558169ab65"
	if got := hex.EncodeToString(p.Append(nil, &s)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Under a share of something else, or where hits may come later than was known when it was written, a key that is read keeps
// its block and nothing more; under a smaller share its hits too.
func TestSharesUnderOtherRules(t *testing.T) {
	c := Config{Share: &Share{Of: 7, Over: 500_000}, Limits: []Limit{{3, time.Minute}}, Late: time.Second, Block: Block{For: time.Hour}}
	p := mustNew(t, c)
	var s State
	for i := range int64(2) {
		p.HitValue(&s, someTime+i, 1)
	}
	counting := p.Append(nil, &s)
	p.HitValue(&s, someTime+5, 1)
	if o := p.Judge(&s, someTime+1007); o.Event != Broke {
		t.Fatal(o)
	}
	blocked := p.Append(nil, &s)

	other, plain, smaller, longer, later, sooner := c, c, c, c, c, c
	other.Share, plain.Share = &Share{Of: 8, Over: 500_000}, nil
	smaller.Limits, longer.Limits = []Limit{{2, time.Minute}}, []Limit{{3, time.Hour}}
	later.Late, sooner.Late = time.Minute, time.Millisecond
	for _, test := range []struct {
		config  Config
		count   int64
		pending bool
	}{{c, 2, false}, {other, 0, false}, {plain, 0, false}, {smaller, 2, true}, {longer, 0, false}, {later, 0, false}, {sooner, 2, false}} {
		into := mustNew(t, test.config)
		var read State
		if err := into.Read(counting, &read); err != nil || into.Count(&read, 0, read.newest) != test.count || (into.Pending(&read) != Never) != test.pending {
			t.Errorf("%+v: %v, %d, %d", test.config, err, into.Count(&read, 0, read.newest), into.Pending(&read))
		}
		if err := into.Read(blocked, &read); err != nil {
			t.Error(err)
		}
		if from, until, _, ok := read.Block(); !ok || from != someTime+1005 || until != someTime+1005+3_600_000 {
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
		t.Error("a block of hits is gone where a share is counted")
	}
	damaged := slices.Clone(counting)
	damaged[9] ^= 1
	if err := p.Read(damaged, &read); !errors.Is(err, ErrCorrupt) {
		t.Error(err)
	}
}

// A key that may be forgotten leaves nothing behind that changes an answer, also for hits that come late.
func TestSharesAreClearWhenNothingOfThemCounts(t *testing.T) {
	r := random(t)
	compared := 0
	for range 1000 {
		sc := randomShares(r)
		p := mustNew(t, sc.config)
		var s, zero State
		for _, h := range sc.hits {
			p.HitValue(&s, h.at, h.value)
		}
		at := p.Clear(&s)
		p.Judge(&s, at)
		if _, _, _, blocked := s.Block(); blocked { // hits that come late are inside it
			continue
		}
		compared++
		for _, h := range []valueHit{{at, 1}, {at - r.Int64N(sc.config.Late.Milliseconds()+1), 1}, {at, 1}, {at + 1, 1}, {at + 2, 0}} {
			p.HitValue(&s, h.at, h.value)
			p.HitValue(&zero, h.at, h.value)
			if p.Pending(&s) != p.Pending(&zero) {
				t.Fatalf("%+v: %d, want %d", sc.config, p.Pending(&s), p.Pending(&zero))
			}
		}
	}
	if compared < 100 {
		t.Errorf("only %d keys were compared", compared)
	}
}

func TestSharesThatCannotBe(t *testing.T) {
	good := Config{Share: &Share{Of: 7, Over: MostOver}, Limits: []Limit{{MostInShare, time.Minute}}, Block: Block{For: time.Second}}
	mustNew(t, good)
	for name, change := range map[string]func(*Config){
		"too many":         func(c *Config) { c.Limits = []Limit{{MostInShare + 1, time.Minute}} },
		"two limits":       func(c *Config) { c.Limits = append(c.Limits, c.Limits...) },
		"everything":       func(c *Config) { c.Share = &Share{Of: 7, Over: wholeShare} },
		"nothing":          func(c *Config) { c.Share = &Share{Of: 7} },
		"of nothing":       func(c *Config) { c.Share = &Share{Over: 7} },
		"an algorithm":     func(c *Config) { c.Algorithm = Token },
		"at once":          func(c *Config) { c.AtOnce = []int{0} },
		"different values": func(c *Config) { c.Distinct = 7 },
		"extend":           func(c *Config) { c.Block.Extend = true },
		"clear":            func(c *Config) { c.Block.Clear = true },
	} {
		c := good
		change(&c)
		if _, err := New(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A hit allocates nothing but the growth of its state.
func TestSharesAllocateNothing(t *testing.T) {
	p := mustNew(t, Config{Share: &Share{Of: 7, Over: 500_000}, Limits: []Limit{{20, time.Hour}}, Late: 20 * time.Minute, Block: Block{For: 10 * time.Minute}})
	var s State
	at, n := int64(someTime), uint64(0)
	hit := func() {
		at += 18_100
		n++
		p.HitValue(&s, at, n%3/2)
		p.HitValue(&s, at-1000, 0)
		p.Touch(&s)
	}
	for range 5000 {
		hit()
	}
	if allocations := testing.AllocsPerRun(2000, hit); allocations > 0 {
		t.Errorf("%v allocations for two hits", allocations)
	}
}
