package window

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"

	"weir/internal/hyperloglog"
)

// MostEstimated is the largest limit of different values. One above MostDistinct is of an estimate.
const MostEstimated = 1_000_000

// sketch estimates how many different values the hits of a key have, for one limit of N per W above MostDistinct. Time has
// parts of W/16, aligned: a part is [i*W/16, (i+1)*W/16). Of each part a HyperLogLog keeps the values, and a window is the 16
// parts that end with one. The limit is broken when the estimate of a window, less three standard errors, is over N. A standard
// error is 1.15 % (hyperloglog.Error), so that is when the estimate is over 1.036 N. Of 63,300 windows with N values 1 broke
// the limit for an N of 10,000, 12 for 20,000, 39 for 50,000 and 80 for 1,000,000, because few values have a smaller error; of
// as many with 0.99 N 2 at most, with 0.98 N none, and with 1.1 N all. A key with at most 1.036 N hits in a window never
// breaks it. The values of 15/16 of W are together in some window; those of a longer time may not be.
//
// A window is judged when no hit can come any more that is before its end, e. Then a block begins that is
// [e+Late, e+Late+For): no hit from e on counts up to its end. The key's next hit behind e+Late decides it, or Judge. An
// estimate is a function of the set of values, so in any order of arrival within Late the blocks are the same, and none ever
// moves. Windows with at most N hits are not judged at all; so only keys with more than N wait for it.
//
// Hits that are later than 32 parts do not count. Where Late is longer than 2 W there are fewer parts in a window, so
// that Late has 32, and one at least. So a key has mostSketchParts parts at most. A part is a list of the registers that have
// something, 4 bytes each; from a quarter of the registers on it has all of them, a byte each. So memory never exceeds 4 bytes
// for each value of a part, and BytesOfEstimate.
//
// Values are hashed with a seed (Policy.Seeded): a client that knows it can choose values that count for many more, or for one.
//
// A hit costs a hash, and a search in the list of its part. A late hit or the first of a part also costs a walk over the parts,
// and a window that is judged one over the registers of its parts.
type sketch struct {
	of    uint64 // Config.Distinct
	seed  uint64
	most  int64 // N
	over  int64 // an estimate that is greater breaks the limit
	per   int64 // W
	part  int64 // milliseconds
	parts int64 // of a window
	late  int64
	lasts int64 // a block, at least
}

const (
	windowParts     = 16
	lateParts       = 32
	mostSketchParts = windowParts + lateParts + 1

	sketchRegisters = 1 << 13
	fewRegisters    = sketchRegisters / 4 // that are kept one by one, less one

	bytesOfPart = 64
)

// BytesOfEstimate is the memory that a key may take with an estimate of different values.
const BytesOfEstimate = mostSketchParts * (2*bytesOfPart + sketchRegisters)

// estimates reports whether limits of different values are estimated.
func (c *Config) estimates() bool {
	return c.Distinct != 0 && !c.Members && slices.ContainsFunc(c.Limits, func(l Limit) bool { return l.Hits > MostDistinct })
}

func newSketch(c *Config) (algorithm, error) {
	l := c.Limits[0]
	d := &sketch{of: c.Distinct, most: l.Hits, per: l.Per.Milliseconds(), late: c.Late.Milliseconds(), lasts: shortestOf(&c.Block)}
	d.parts = min(windowParts, d.per)
	if d.late > 0 {
		d.parts = max(1, min(d.parts, lateParts*d.per/d.late))
	}
	d.part = d.per / d.parts
	d.late = min(d.late, lateParts*d.part)
	d.over = int64(float64(d.most) / (1 - 3*hyperloglog.Error(sketchRegisters)))
	return d, nil
}

// Seeded is p with the values of hits hashed by a seed, where they are estimated. Of a state that was written with another
// seed it reads the block only.
func (p *Policy) Seeded(seed uint64) *Policy {
	if p.sketch == nil {
		return p
	}
	seeded, d := *p, *p.sketch
	d.seed = seed
	seeded.algorithm, seeded.sketch = &d, &d
	return &seeded
}

// Estimates reports whether p estimates how many different values hits have.
func (p *Policy) Estimates() bool { return p.sketch != nil }

// A sketched is what is known of the values of a key.
type sketched struct {
	parts   []sketchPart // in the order of time
	pending int64        // the last instant of the first part whose window has more than N hits, and is not judged yet; Never
	judged  int64        // no window is judged any more that ends up to here
	hits    int64        // in the window that ends with the newest part
}

// A sketchPart has the values of a part of time.
type sketchPart struct {
	slot int64 // it begins at slot * part
	hits int64
	few  []uint32              // of each register that has something, in their order: the register and, in 8 bits, its run
	all  hyperloglog.Registers // instead; nil while there are few
}

func newSketched() *sketched { return &sketched{pending: Never, judged: -1} }

// end is the last instant of a part.
func (d *sketch) end(slot int64) int64 { return (slot+1)*d.part - 1 }

// judgeSketch judges the windows that end before an instant less Late, up to the first offence.
func (p *Policy) judgeSketch(s *State, now int64) Outcome {
	d, r := p.sketch, s.rare
	for v := r.sketched; v.pending < now-p.late; {
		end := v.pending
		if number := d.count(s, 0, end); number > d.over {
			begun := p.next(s, r.last(), broken{0, end + 1 + p.late, number})
			r.set(begun)
			*v = *newSketched() // all that came is before the end of the block
			return begun.outcome(Broke)
		}
		v.judged = end
		d.sum(v)
	}
	return Outcome{}
}

// add adds a hit that counts.
func (d *sketch) add(s *State, at int64, value uint64) {
	v, slot := s.rare.sketched, at/d.part
	i := len(v.parts) - 1
	newest := i >= 0 && v.parts[i].slot == slot
	if !newest {
		i = d.partOf(s, slot)
	}

	part := &v.parts[i]
	part.hits++
	part.add(d.hash(value))
	if !newest {
		d.sum(v)
		return
	}
	v.hits++
	if v.hits > d.most && v.pending == Never && d.end(slot) > v.judged {
		v.pending = d.end(slot)
	}
}

// partOf is the place of a slot's part, which is made if there is none.
func (d *sketch) partOf(s *State, slot int64) int {
	v := s.rare.sketched
	i, found := v.find(slot)
	if found {
		return i
	}
	d.drop(s)
	i, _ = v.find(slot)
	v.parts = slices.Insert(v.parts, i, sketchPart{slot: slot})
	return i
}

func (v *sketched) find(slot int64) (int, bool) {
	return slices.BinarySearchFunc(v.parts, slot, func(part sketchPart, slot int64) int { return cmp.Compare(part.slot, slot) })
}

// drop drops the parts that are in no window any more that is judged.
func (d *sketch) drop(s *State) {
	v := s.rare.sketched
	oldest := max(0, s.newest-d.late)/d.part - d.parts + 1
	i, _ := v.find(oldest)
	v.parts = slices.Delete(v.parts, 0, i)
}

// sum counts the hits of windows again, when parts are others than they were.
func (d *sketch) sum(v *sketched) {
	v.pending, v.hits = Never, 0
	first := 0
	for i := range v.parts {
		v.hits += v.parts[i].hits
		for ; v.parts[first].slot <= v.parts[i].slot-d.parts; first++ {
			v.hits -= v.parts[first].hits
		}
		if end := d.end(v.parts[i].slot); v.hits > d.most && v.pending == Never && end > v.judged {
			v.pending = end
		}
	}
}

// hash is that of a value.
func (d *sketch) hash(value uint64) uint64 {
	var digest xxhash.Digest
	digest.ResetWithSeed(d.seed)
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], value)
	digest.Write(b[:])
	return digest.Sum64()
}

// add adds a value by its hash.
func (part *sketchPart) add(hash uint64) {
	if part.all != nil {
		part.all.Add(hash)
		return
	}

	register, run := hyperloglog.Place(hash, sketchRegisters)
	first := uint32(register) << 8
	i := part.place(first)
	if i < len(part.few) && part.few[i]>>8 == uint32(register) {
		part.few[i] = max(part.few[i], first|uint32(run))
		return
	}
	if len(part.few) == fewRegisters-1 {
		part.spread()
		part.all.Add(hash)
		return
	}
	if n := len(part.few); n == cap(part.few) {
		part.few = append(make([]uint32, 0, min(n+n/2+4, fewRegisters-1)), part.few...)
	}
	part.few = slices.Insert(part.few, i, first|uint32(run))
}

// place is the place of a register in the list, or the one that it would have. Comparisons of hashes cannot be foreseen, so
// this has no branches by them.
func (part *sketchPart) place(first uint32) int {
	few, i := part.few, 0
	for n := len(few); n > 0; {
		half := (n + 1) / 2
		next := i
		if few[i+half-1] < first {
			next = i + half
		}
		i, n = next, n-half
	}
	return i
}

// spread has the part have all registers.
func (part *sketchPart) spread() {
	all := make(hyperloglog.Registers, sketchRegisters)
	part.mergeInto(all)
	part.few, part.all = nil, all
}

// mergeInto adds the values of the part to registers.
func (part *sketchPart) mergeInto(all hyperloglog.Registers) {
	if part.all != nil {
		all.Merge(part.all)
	}
	for _, one := range part.few {
		all[one>>8] = max(all[one>>8], uint8(one))
	}
}

// count is the estimate of the window that ends with the part of an instant. It is not more than there were hits.
func (d *sketch) count(s *State, _ int, at int64) int64 {
	if s.rare == nil || s.rare.sketched == nil {
		return 0
	}
	v, last := s.rare.sketched, at/d.part
	from, _ := v.find(last - d.parts + 1)
	to, _ := v.find(last + 1)
	hits := int64(0)
	for _, part := range v.parts[from:to] {
		hits += part.hits
	}
	if hits == 0 {
		return 0
	}
	return min(hits, int64(math.Round(estimate(v.parts[from:to]))))
}

// estimate is how many different values parts have together.
func estimate(parts []sketchPart) float64 {
	const small = 512
	few := 0
	for i := range parts {
		if few += len(parts[i].few); parts[i].all != nil {
			few = small + 1
			break
		}
	}

	// Most keys have few values, and are asked about more often than judged.
	if few <= small {
		var room [small]uint32
		together := room[:0]
		for i := range parts {
			together = append(together, parts[i].few...)
		}
		slices.Sort(together)
		var runs hyperloglog.Runs
		runs[0] = sketchRegisters
		for i, one := range together {
			if i+1 == len(together) || together[i+1]>>8 != one>>8 {
				runs[0]--
				runs[uint8(one)]++
			}
		}
		return runs.Estimate(sketchRegisters)
	}

	var room [sketchRegisters]uint8
	union := hyperloglog.Registers(room[:])
	for i := range parts {
		parts[i].mergeInto(union)
	}
	return union.Estimate()
}

// touch reads what the next hit of s begins with.
func (d *sketch) touch(s *State) int64 {
	if s.rare == nil || s.rare.sketched == nil || len(s.rare.sketched.parts) == 0 {
		return 0
	}
	parts := s.rare.sketched.parts
	return parts[len(parts)-1].slot
}

func (d *sketch) clear(s *State) int64 {
	if s.rare == nil || s.rare.sketched == nil || len(s.rare.sketched.parts) == 0 {
		return 0
	}
	v := s.rare.sketched
	clear := d.end(v.parts[len(v.parts)-1].slot) + d.per + d.late
	if v.pending != Never {
		clear = max(clear, v.pending+1+d.late+d.lasts)
	}
	return clear
}

func (d *sketch) forget(s *State, _ int64) {
	if s.rare != nil {
		s.rare.sketched = nil
	}
}

// hit counts nothing: Hit leaves hits to hitPending.
func (d *sketch) hit(*State, int64, int64) broken { return unbroken }

// Estimates are not taken: New refuses limits at once, and pkg/rule inline rules.
func (d *sketch) room(*State, int, int64) int64             { return 0 }
func (d *sketch) admits(*State, int, int64, int64) int64    { return Never }
func (d *sketch) settle(*State, int64, int64, int64, int64) {}
func (d *sketch) shapes() []shape                           { return nil }
