package window

import (
	"encoding/binary"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"weir/internal/varint"
)

const (
	maxLogs  = 1000
	maxParts = 1000
)

// Read reads what Append wrote into s. Where the bytes are of a policy with other limits or another algorithm, what the
// hits that they remember say of p's is kept: hits remembered exactly serve every limit, cells and buckets those of
// the same length and rate. The block is always kept.
func (p *Policy) Read(b []byte, s *State) error {
	*s = State{}
	if len(b) < 2 {
		return ErrCorrupt
	}

	switch v := b[0] >> 4; {
	case v == versionDistinct && sealed(b):
		return p.readDistinct(b[:len(b)-8], s)
	case v == versionShare && sealed(b):
		return p.readShare(b[:len(b)-8], s)
	case v == versionMembers && sealed(b):
		return p.readMembers(b[:len(b)-8], s)
	case v == versionSketch && sealed(b):
		return p.readSketch(b[:len(b)-8], s)
	// A greater version is believed only with a checksum. Otherwise damaged bytes would look as if a newer Weir had
	// written them, and no operator would dare to drop them.
	case v > versionSketch && sealed(b):
		return fmt.Errorf("%w: version %d, want %d", ErrNewer, v, versionSketch)
	case v < version || v > versionAtOnce || (v == versionUnsettled) != (b[1]&flagUnsettled != 0):
		return ErrCorrupt
	case (v == versionAtOnce) != (b[1]&flagAtOnce != 0) || v == versionAtOnce && !sealed(b):
		return ErrCorrupt
	case v == versionAtOnce:
		b = b[:len(b)-8]
	}

	r := reader{Reader: varint.Reader{Left: b[2:]}, scale: 1}
	flags := b[1]
	if flags&flagSeconds != 0 {
		r.scale = second
	}

	s.newest = r.AtMost(MaxTime/r.scale) * r.scale
	if flags&flagBlock != 0 {
		r.block(s)
	}
	if flags&flagUnsettled != 0 {
		r.unsettled(p, s)
	}

	if flags&flagBuckets != 0 {
		r.buckets(p, s, flags&flagOwes != 0)
	} else {
		r.logs(p, s, flags)
	}
	if flags&flagAtOnce != 0 {
		r.atOnce(p, s)
	}

	if r.Failed || len(r.Left) > 0 {
		*s = State{}
		return ErrCorrupt
	}

	// The bytes may come from before a change of the rule: with another Block, hits inside the block were kept.
	if p.group != nil && s.rare != nil && s.rare.until > 0 {
		p.forgetBlocked(s) // another Block may have kept what counts no more
	}
	return nil
}

// atOnce reads what limits at once count. Where p has none, it is dropped.
func (r *reader) atOnce(p *Policy, s *State) {
	exact := shape{span: 1, parts: 1}
	var into []target
	if p.leased != nil {
		into = append(into, target{&p.leased.own.shape, s.log(p.leased.log)})
	}
	r.log(s, &exact, into)
}

// sealed says whether bytes end with the checksum of all before it.
func sealed(b []byte) bool {
	end := len(b) - 8
	return end > 1 && xxhash.Sum64(b[:end]) == binary.LittleEndian.Uint64(b[end:])
}

type reader struct {
	varint.Reader
	scale int64
}

// before reads a number whose difference to from is written, between 0 and most.
func (r *reader) before(from, most int64) int64 {
	v := r.Signed()
	if r.Failed || v > from || v < from-most {
		r.Fail()
		return 0
	}
	return from - v
}

func (r *reader) block(s *State) {
	lasts := r.AtMost(Never - MaxTime - 1)
	s.rare = &rare{from: r.before(s.newest, MaxTime)}
	s.rare.level = r.level(s.rare.from)
	s.rare.until = s.rare.from + lasts
	if lasts == 0 {
		s.rare.until = Never
	}
}

// level reads the level of a block; that of an unblock is 0.
func (r *reader) level(from int64) int {
	n := int(r.AtMost(1 << 31))
	if n == 0 {
		r.Fail()
	}
	switch from {
	case 0:
		return 0
	case waivedFrom:
		return n - 1
	}
	return n
}

// unsettled reads the blocks that can still move, and what does not count now. Where p moves none they stay as they are.
func (r *reader) unsettled(p *Policy, s *State) {
	u := r.blocks(s)
	if r.Failed {
		return
	}

	exact := shape{span: 1, parts: 1}
	into := []target{}
	if p.group != nil {
		into = append(into, target{&p.group.shape, &u.past})
	}

	// The log is read even where p keeps none: what follows it stands behind.
	r.log(s, &exact, into)
	if p.group != nil && !r.Failed {
		s.rare.unsettled = u
	}
}

// blocks reads the blocks that can still move.
func (r *reader) blocks(s *State) *unsettled {
	u := &unsettled{}
	for range r.AtMost(int64(len(r.Left))) {
		b := block{from: r.before(s.newest, MaxTime)}
		lasts := r.AtMost(Never - MaxTime - 1)
		if b.until = b.from + lasts; lasts == 0 {
			b.until = Never
		}

		// The limit may be beyond those of p, for the rule may have had more. It is only compared, never used as an
		// index.
		b.level, b.limit, b.count = r.level(b.from), int(r.AtMost(maxLogs)), r.AtMost(Never)
		b.first, b.firstLevel = r.before(s.newest, MaxTime), int(r.AtMost(1<<31))
		if r.Failed || len(u.blocks) > 0 && u.last().until > b.from {
			r.Fail()
			return u
		}

		u.blocks = append(u.blocks, b)
	}

	// The last of the blocks stands in the bytes twice; one that differs would have hits judged by another block than
	// the one that is published.
	if len(u.blocks) == 0 || s.rare == nil || u.last().from != s.rare.from || u.last().until != s.rare.until {
		r.Fail()
	}
	return u
}

func (r *reader) logs(p *Policy, s *State, flags byte) {
	stored, exact := shape{span: 1, parts: 1}, flags&flagExact != 0
	logs := int64(1)
	if !exact {
		logs = r.AtMost(maxLogs)
	}

	for i := range int(logs) {
		if !exact {
			stored.span, stored.parts = r.AtMost(maxPer.Milliseconds()), r.AtMost(maxParts)
		}
		if stored.parts < 1 || stored.parts > stored.span {
			r.Fail()
			return
		}

		r.log(s, &stored, s.into(p.algorithm.shapes(), i, &stored))
		if r.Failed {
			return
		}
	}
}

// log reads a log into others.
func (r *reader) log(s *State, stored *shape, into []target) {
	n := r.AtMost(1 << 32)
	ones, cells := n&1 == 1, n>>1
	// A cell takes a bit at least, so that bytes that claim more cells than they have bits are refused before memory is
	// taken for them.
	if cells == 0 || cells > int64(8*len(r.Left)+1) {
		if cells > 0 {
			r.Fail()
		}
		return
	}

	// Slots come newest first and hits oldest first, so the slots are kept until the hits are read. Those of a usual
	// key fit the stack.
	var few [64]int64
	slots := append(few[:0], make([]int64, cells)...)
	r.slots(stored, s.newest, slots)
	for _, slot := range slots {
		hits := int64(1)
		if !ones {
			hits = r.AtMost(maxHits + 1)
		}

		if r.Failed || hits == 0 {
			r.Fail()
			return
		}

		for _, t := range into {
			t.add(t.log, t.slotOf(stored.start(slot)), s.newest, hits)
		}
	}
}

// A target is a log that is read into.
type target struct {
	*shape
	log *log
}

// into are the logs of s that the i-th log stored is read into: that with the same cells, in its place or else wherever it
// is, and where it is exact every other that has nothing yet, until the one with the same cells comes.
func (s *State) into(shapes []shape, i int, stored *shape) []target {
	same := func(sh *shape) bool { return sh.span == stored.span && sh.parts == stored.parts }
	inPlace := i < len(shapes) && same(&shapes[i])
	if len(shapes) > 0 {
		s.log(len(shapes) - 1) // all of them now: one that is made later would have those before it move
	}

	var into []target
	for j := range shapes {
		sh, l := &shapes[j], s.log(j)
		switch {
		case same(sh) && (j == i || !inPlace && !stored.exact()):
			*l = nil
			into = append(into, target{sh, l})
		case stored.exact() && len(*l) == 0: // of several exact logs the first reaches back furthest
			into = append(into, target{sh, l})
		}
	}

	return into
}

// slots reads the slots of cells, the newest last.
func (r *reader) slots(stored *shape, newest int64, slots []int64) {
	scale := stored.scale(r.scale)
	last := len(slots) - 1
	slots[last] = r.before(stored.slotOf(newest)/scale, MaxTime/scale) * scale
	if last == 0 || r.Failed {
		return
	}

	rice := newRiceReader(r.Left)
	for i := last; i > 0; i-- {
		slots[i-1] = slots[i] - (rice.read()+1)*scale
		if slots[i-1] < 0 || rice.bad {
			r.Fail()
			return
		}
	}

	r.Left = rice.rest()
}

func (r *reader) buckets(p *Policy, s *State, owes bool) {
	bs, _ := p.plain().(buckets)
	n := r.AtMost(maxLogs)
	for i := range int(n) {
		unit, drain := r.AtMost(MaxTime), r.AtMost(maxHits)
		drops := r.AtMost(mostDrops)
		at := r.before(s.newest, MaxTime)
		since := at - r.AtMost(at)
		// A bucket of another rate cannot be converted: what drained from it was drained at that rate. It is read and
		// dropped.
		if r.Failed || i >= len(bs) || bs[i].unit != unit || bs[i].drain != drain {
			continue
		}
		if !owes {
			drops = min(drops, bs[i].holds)
		}
		bs.make(s)
		copy(s.first[bucketWords*i:], log{uint64(drops), uint64(at), uint64(since)})
	}
}
