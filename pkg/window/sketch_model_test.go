package window

import (
	"cmp"
	"encoding/hex"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"weir/internal/hyperloglog"
)

// An estimateBook is Policy with an estimate as one would write it on paper: it sorts all hits that have come, and looks at each
// part from the first one on, with the registers of all values of its window. It remembers everything.
type estimateBook struct {
	Config
	sketch
	hits   []valueHit
	newest int64
	judged int64 // no hit comes any more that is older than this less Late
}

func newEstimateBook(p *Policy, c Config) *estimateBook {
	c.Late = time.Duration(p.late) * time.Millisecond
	return &estimateBook{Config: c, sketch: *p.sketch}
}

// hit takes a hit, and says whether it is not late.
func (b *estimateBook) hit(at int64, value uint64) bool {
	if at < b.newest-b.late {
		return false
	}
	b.newest, b.judged = max(b.newest, at), max(b.judged, at)
	b.hits = append(b.hits, valueHit{at, value})
	slices.SortStableFunc(b.hits, func(x, y valueHit) int { return cmp.Compare(x.at, y.at) })
	return true
}

// run gives all blocks, and the hits that count.
func (b *estimateBook) run() (blocks []block, counting []valueHit) {
	var now block
	for i := 0; i < len(b.hits); {
		slot := b.hits[i].at / b.part
		for ; i < len(b.hits) && b.hits[i].at/b.part == slot; i++ {
			if b.hits[i].at >= now.until {
				counting = append(counting, b.hits[i])
			}
		}
		end := (slot+1)*b.part - 1
		number := b.within(counting, end)
		if end >= b.judged-b.late || number <= b.over {
			continue
		}
		book := textbook{Config: b.Config}
		now = book.block(now, end+1+b.late, nil)
		now.count = number
		blocks, counting = append(blocks, now), nil
	}
	return blocks, counting
}

// within estimates the values of the hits in the window up to an instant. They are no more than the hits.
func (b *estimateBook) within(hits []valueHit, end int64) (number int64) {
	registers, runs := map[int]uint8{}, hyperloglog.Runs{}
	for _, h := range hits {
		if h.at > end-b.parts*b.part && h.at <= end {
			register, run := hyperloglog.Place(b.hash(h.value), sketchRegisters)
			registers[register] = max(registers[register], run)
			number++
		}
	}
	for _, run := range registers {
		runs[run]++
	}
	runs[0] = sketchRegisters - int32(len(registers))
	return min(number, int64(math.Round(runs.Estimate(sketchRegisters))))
}

func mustEstimate(t testing.TB, c Config, most int64) *Policy {
	p := mustNew(t, c)
	p.sketch.most, p.sketch.over = most, most // as if so few were estimated
	return p
}

func randomEstimates(r *rand.Rand) (valueScene, int64) {
	most := 1 + r.Int64N(8)
	c := Config{
		Distinct: 7, Ones: true, Late: pick(r, 0, 100*time.Millisecond, 2*time.Second, 10*time.Second, time.Minute),
		Block:  Block{For: pick(r, time.Millisecond, time.Second, 10*time.Second, time.Minute), Forget: pick(r, 0, time.Second, time.Hour)},
		Limits: []Limit{{MostDistinct + 1, time.Duration((1+r.Int64N(5000))*pick[int64](r, 1, 10)) * time.Millisecond}},
	}
	for range r.IntN(3) {
		c.Block.Then = append(c.Block.Then, time.Duration(1+r.IntN(60))*time.Second)
	}
	sc := valueScene{config: c}
	different := 1 + uint64(r.Int64N(2*most+3))
	for _, m := range randomHits(r, 80, Limit{most, c.Limits[0].Per}, 1) {
		sc.hits = append(sc.hits, valueHit{m.at, r.Uint64N(different)})
	}
	return sc, most
}

// After every hit, in any order of arrival, the blocks are those of the sorted log, to the millisecond, and so is the estimate;
// and each block comes once.
func TestBlocksOfEstimatesAreThoseOfTheSortedLog(t *testing.T) {
	r := random(t)
	events := map[Event]int{}
	judged, vain := 0, 0
	for range 1500 {
		sc, most := randomEstimates(r)
		p := mustEstimate(t, sc.config, most).Seeded(r.Uint64())
		book := newEstimateBook(p, sc.config)
		var s State
		begun := 0
		check := func(i int, o Outcome) {
			t.Helper()
			blocks, counting := book.run()
			if o.Event == Broke {
				begun++
			}
			if begun != len(blocks) {
				t.Fatalf("%+v, %d\nhit %d of %v: %d blocks have begun, want %+v: %+v", sc.config, most, i, book.hits, begun, blocks, o)
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
			end := book.end(s.newest / book.part)
			if got, want := p.Count(&s, 0, s.newest), book.within(counting, end); got != want {
				t.Fatalf("%+v\nhit %d of %v: the estimate is %d, want %d", sc.config, i, book.hits, got, want)
			}
			if s.rare != nil && s.rare.sketched != nil && len(s.rare.sketched.parts) > mostSketchParts {
				t.Fatalf("%+v: %d parts", sc.config, len(s.rare.sketched.parts))
			}
		}
		for i, h := range shuffledValues(r, sc.hits, p.late*5/4) {
			if h.at >= book.newest-p.late && h.at < book.judged-p.late {
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
				book.judged = max(book.judged, book.newest+r.Int64N(p.late+p.sketch.part+2))
				due := p.Due(&s) < book.judged
				o := p.Judge(&s, book.judged)
				judged += boolInt(o.Event == Broke)
				vain += boolInt(due && o.Event != Broke)
				if p.Due(&s) < book.judged {
					t.Fatalf("%+v: it is due at %d, and was judged at %d", sc.config, p.Due(&s), book.judged)
				}
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
	if judged < 100 || vain < 100 {
		t.Errorf("%d were judged without a hit, and %d in vain: the traffic shows too little", judged, vain)
	}
}

// manyValues are hits of one key with so many different values, one in three of them again, over a time that is shorter than a
// window by a part, and some are late.
func manyValues(r *rand.Rand, p *Policy, different int64) (hits []valueHit) {
	spread := (p.sketch.parts - 1) * p.sketch.part
	for i := range different {
		at := someTime + i*spread/different
		hits = append(hits, valueHit{max(someTime, at-r.Int64N(p.late)), r.Uint64()})
		if i%3 == 0 {
			hits = append(hits, valueHit{at, hits[r.IntN(len(hits))].value})
		}
	}
	return hits
}

// blockedBy reports whether a key is blocked by hits, and then all that is pending.
func blockedBy(p *Policy, hits []valueHit) bool {
	var s State
	for _, h := range hits {
		if o := p.HitValue(&s, h.at, h.value); o.Event == Broke {
			return true
		}
	}
	return p.Judge(&s, MaxTime).Event == Broke
}

// With other seeds and other values, a key with 0.98 N is never blocked and one with 1.1 N always, at the time of any hits; one
// with N in about one of 1,000.
func TestTheErrorOfEstimatedLimits(t *testing.T) {
	r := random(t)
	for _, n := range []int64{5000, 20_000, 100_000} {
		c := Config{Distinct: 7, Limits: []Limit{{n, time.Hour}}, Late: time.Minute, Block: Block{For: time.Minute}}
		seeds := int(1_000_000 / n)
		blocked := map[int64]int{}
		for range seeds {
			for _, percent := range []int64{98, 100, 104, 110} {
				p := mustNew(t, c).Seeded(r.Uint64())
				blocked[percent] += boolInt(blockedBy(p, manyValues(r, p, n*percent/100)))
			}
		}
		if blocked[98] > 0 || blocked[100] > 1+seeds/100 || blocked[110] != seeds {
			t.Errorf("limit %d: of %d keys are blocked, by percent of it: %v", n, seeds, blocked)
		}
	}
}

// An estimate is not more than the requests of a key: so one that sends no more of them is never blocked.
func TestAnEstimateIsNotMoreThanTheHits(t *testing.T) {
	p := mustNew(t, Config{Distinct: 7, Limits: []Limit{{5000, time.Hour}}, Block: Block{For: time.Minute}})
	p.sketch.over = 5100 // every second estimate of so many would exceed it
	r := random(t)
	for range 20 {
		var hits []valueHit
		for range 5100 {
			hits = append(hits, valueHit{someTime, r.Uint64()})
		}
		if blockedBy(p, hits) {
			t.Fatal("blocked")
		}
	}
}

// A client that does not know the seed cannot choose few values that count for many, nor many that count for few.
func TestValuesThatAreLookedForCountAsTheyAre(t *testing.T) {
	known := mustNew(t, Config{Distinct: 7, Limits: []Limit{{5000, time.Hour}}, Block: Block{For: time.Minute}})
	seeded := known.Seeded(0x5eed)
	var high, one []uint64 // a value of a long run for each register, and many values of a few registers
	found := map[int]bool{}
	for value := uint64(0); len(high) < sketchRegisters || len(one) < 6000; value++ {
		register, run := hyperloglog.Place(known.sketch.hash(value), sketchRegisters)
		if run > 5 && !found[register] {
			found[register] = true
			high = append(high, value)
		}
		if register < 4 && len(one) < 6000 {
			one = append(one, value)
		}
	}
	estimated := func(p *Policy, values []uint64) int64 {
		var s State
		for range 30 {
			for _, value := range values {
				p.HitValue(&s, someTime, value)
			}
		}
		return p.Count(&s, 0, someTime)
	}
	for _, values := range [][]uint64{high, one} {
		if n := estimated(known, values); n > 600 && n < 60_000 {
			t.Errorf("who knows the hashes has %d for %d values", n, len(values))
		}
		if n := estimated(seeded, values); math.Abs(float64(n)/float64(len(values))-1) > 0.05 {
			t.Errorf("%d for %d values", n, len(values))
		}
	}
}

// The memory of a key is that of its values, up to its bound.
func TestMemoryOfEstimates(t *testing.T) {
	for _, late := range []time.Duration{0, time.Minute, time.Hour, 24 * time.Hour} {
		c := Config{Distinct: 7, Limits: []Limit{{MostEstimated, time.Hour}}, Late: late, Block: Block{For: time.Minute}}
		p := mustNew(t, c)
		r := random(t)
		var few, many State
		for i := range int64(600_000) {
			at := someTime + i*20*p.sketch.part/100_000
			p.HitValue(&many, at, r.Uint64())
			if i%5000 == 0 {
				p.HitValue(&few, at, uint64(i/5000%50))
			}
		}
		for i := range int64(50 * 4000) { // as many parts as it may have
			p.HitValue(&many, someTime+21*p.sketch.part+i*p.sketch.part/4000, r.Uint64())
		}
		if few.Bytes() > 4500 || few.Bytes() < 500 {
			t.Errorf("late %v: 50 values take %d bytes", late, few.Bytes())
		}
		parts := len(many.rare.sketched.parts)
		if many.Bytes() > BytesOfEstimate+1000 || many.Bytes() > parts*(sketchRegisters+2*bytesOfPart)+1000 {
			t.Errorf("late %v: %d bytes in %d parts, at most %d", late, many.Bytes(), parts, BytesOfEstimate)
		}
		t.Logf("late %v: 50 values take %d bytes, many %d in %d parts, and %d when written", late, few.Bytes(), many.Bytes(), parts, len(p.Append(nil, &many)))
	}
}

// Parts are at most a sixteenth of a window together as long as it, and hold all late hits.
func TestPartsOfEstimates(t *testing.T) {
	for _, test := range []struct{ per, late, part, parts, counted time.Duration }{
		{time.Hour, 20 * time.Minute, 225 * time.Second, 16, 20 * time.Minute},
		{10 * time.Minute, 20 * time.Minute, 37500 * time.Millisecond, 16, 20 * time.Minute},
		{4 * time.Minute, 20 * time.Minute, 40 * time.Second, 6, 20 * time.Minute},
		{time.Minute, 20 * time.Minute, time.Minute, 1, 20 * time.Minute},
		{time.Second, 20 * time.Minute, time.Second, 1, 32 * time.Second},
		{time.Hour, 0, 225 * time.Second, 16, 0},
		{time.Second, 0, 62 * time.Millisecond, 16, 0},
		{3 * time.Millisecond, 0, time.Millisecond, 3, 0},
	} {
		p := mustNew(t, Config{Distinct: 7, Limits: []Limit{{5000, test.per}}, Late: test.late, Block: Block{For: time.Minute}})
		if d := p.sketch; d.part != test.part.Milliseconds() || d.parts != int64(test.parts) || p.late != test.counted.Milliseconds() || d.parts*d.part > d.per {
			t.Errorf("%v, late %v: %d parts of %d ms, late %d ms", test.per, test.late, d.parts, d.part, p.late)
		}
	}
}

// The bytes of version 7, held for ever.
func TestBytesOfVersion7(t *testing.T) {
	p := mustEstimate(t, Config{Distinct: 7, Limits: []Limit{{5000, time.Minute}}, Late: 2 * time.Second, Block: Block{For: time.Second}}, 3)
	var s State
	for i, value := range []uint64{1, 2, 3, 4, 4, 4, 5, 6, 7, 8, 9, 9, 1} {
		p.HitValue(&s, someTime+int64(i)*2000, value)
	}
	const want = "7001c08b97ffbc310700000000000000e0d403a61dd00fe807a8460101dba295d80102028c1301882001e6ac8ffc14fa70ce"
	if got := hex.EncodeToString(p.Append(nil, &s)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Under an estimate of something else, in other parts, or where hits may come later than was known when it was written, a key
// that is read keeps its block and nothing more; under a smaller limit its values too.
func TestEstimatesUnderOtherRules(t *testing.T) {
	c := Config{Distinct: 7, Limits: []Limit{{5000, time.Hour}}, Late: time.Second, Block: Block{For: time.Hour}}
	p := mustNew(t, c)
	var s State
	hit := func(n int) {
		for i := range n {
			p.HitValue(&s, someTime+int64(i), uint64(i))
		}
	}
	hit(4500)
	counting := p.Append(nil, &s)
	count := p.Count(&s, 0, someTime)
	hit(5500)
	end := p.sketch.end(someTime / p.sketch.part)
	if o := p.Judge(&s, end+1001); o.Event != Broke {
		t.Fatal(o)
	}
	blocked := p.Append(nil, &s)

	other, plain, exact, smaller, longer, later, sooner := c, c, c, c, c, c, c
	other.Distinct, plain.Distinct = 8, 0
	exact.Limits = []Limit{{MostDistinct, time.Hour}}
	smaller.Limits, longer.Limits = []Limit{{4200, time.Hour}}, []Limit{{5000, 2 * time.Hour}}
	later.Late, sooner.Late = time.Minute, time.Millisecond
	for _, test := range []struct {
		config  Config
		count   int64
		pending bool
	}{{c, count, false}, {other, 0, false}, {plain, 0, false}, {exact, 0, false}, {smaller, count, true}, {longer, 0, false}, {later, 0, false}, {sooner, count, false}} {
		into := mustNew(t, test.config)
		var read State
		if err := into.Read(counting, &read); err != nil || into.Count(&read, 0, read.newest) != test.count || (into.Pending(&read) != Never) != test.pending {
			t.Errorf("%+v: %v, %d, %d", test.config, err, into.Count(&read, 0, read.newest), into.Pending(&read))
		}
		if err := into.Read(blocked, &read); err != nil {
			t.Error(err)
		}
		if from, until, _, ok := read.Block(); !ok || from != end+1001 || until != end+1001+3_600_000 {
			t.Errorf("%+v: the block is %d to %d, %v", test.config, from, until, ok)
		}
	}

	// Registers of another seed have the same values in other places.
	var seeded State
	reseeded := p.Seeded(1)
	if err := reseeded.Read(counting, &seeded); err != nil || reseeded.Count(&seeded, 0, seeded.newest) != 0 {
		t.Errorf("with another seed: %v, %d", err, reseeded.Count(&seeded, 0, seeded.newest))
	}
	if err := reseeded.Read(blocked, &seeded); err != nil || seeded.rare.until != end+1001+3_600_000 {
		t.Errorf("with another seed: %v, %+v", err, seeded.rare)
	}

	var few State
	counted := mustNew(t, exact)
	for i := range uint64(10) {
		counted.HitValue(&few, someTime, i)
	}
	var read State
	if err := p.Read(counted.Append(nil, &few), &read); err != nil || p.Count(&read, 0, someTime) != 0 {
		t.Error(err)
	}
	damaged := slices.Clone(counting)
	damaged[9] ^= 1
	if err := p.Read(damaged, &read); !errors.Is(err, ErrCorrupt) {
		t.Error(err)
	}
}

// A key that may be forgotten leaves nothing behind that changes an answer, also for hits that come late.
func TestEstimatesAreClearWhenNothingOfThemCounts(t *testing.T) {
	r := random(t)
	compared := 0
	for range 1000 {
		sc, most := randomEstimates(r)
		p := mustEstimate(t, sc.config, most)
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
		for _, h := range []valueHit{{at, 1}, {at - r.Int64N(p.late+1), 2}, {at, 3}, {at + 1, 1}, {at + 2, 0}} {
			p.HitValue(&s, h.at, h.value)
			p.HitValue(&zero, h.at, h.value)
			if p.Pending(&s) != p.Pending(&zero) || p.Count(&s, 0, h.at) != p.Count(&zero, 0, h.at) {
				t.Fatalf("%+v: %d, want %d", sc.config, p.Pending(&s), p.Pending(&zero))
			}
		}
	}
	if compared < 100 {
		t.Errorf("only %d keys were compared", compared)
	}
}

// A hit allocates nothing but the growth of its state.
func TestEstimatesAllocateNothing(t *testing.T) {
	for _, different := range []uint64{1000, 100_000} {
		p := mustNew(t, Config{Distinct: 7, Limits: []Limit{{50_000, time.Hour}}, Late: 20 * time.Minute, Block: Block{For: 10 * time.Minute}})
		var s State
		n := uint64(0)
		hit := func() {
			n++
			p.HitValue(&s, someTime, n%different)
			p.HitValue(&s, someTime-1000, n%different)
			p.Touch(&s)
		}
		for range different {
			hit()
		}
		if allocations := testing.AllocsPerRun(2000, hit); allocations > 0 {
			t.Errorf("%d values: %v allocations for two hits", different, allocations)
		}
	}
}
