package window

import (
	"encoding/binary"
	"errors"

	"github.com/cespare/xxhash/v2"
)

// The bytes of a state, version 1, or 2 where late hits can still move its blocks, or 3 where limits at once count some;
// numbers are varints of encoding/binary, "±" the signed ones:
//
//	1 byte   version<<4 | algorithm
//	1 byte   flags
//	newest   the newest hit
//	[block]  until-from, or 0 if it never ends; ±(newest-from); level; an unblock is a block from the instant 0, and one
//	         that was waived from the instant 1, with the level that the next one has
//	[blocks] only in version 2: how many, the last one included; for each of them
//	           ±(newest-from); until-from, or 0; level; limit; count; ±(newest-first); first's level
//	         then the log of hits that do not count, as those below, its cells are of a millisecond
//	[logs]   how many, unless it is one with cells of a millisecond; for each of them
//	           span and parts of a cell, unless …
//	           2 x cells, or 2 x cells + 1 if each has one hit
//	           ±(newest's slot - newest cell's slot)
//	           distances to the next older cell, less one, in Rice code: 1 byte of the parameter, then bits
//	           the hits of each cell, oldest first, unless each has one
//	[atonce] only in version 3: the log of what limits at once count, as those above; then the xxhash64 of all before
//	[bucket] how many; for each of them unit, drain, level, ±(newest-levelAt), levelAt-filledSince
//
// Version 4 is of limits of different values (distinct_bytes.go), version 5 of limits of a share (share_bytes.go), version 6
// of blocks of members (members_bytes.go), and version 7 of estimates of different values (sketch_bytes.go).
//
// Where no instant has milliseconds, newest and the cells of a millisecond are counted in seconds. The bytes of a later
// version end with the xxhash64 of all before, little endian: only with it is their version believed.
const (
	version          = 1
	versionUnsettled = 2
	versionAtOnce    = 3
	versionDistinct  = 4
	versionShare     = 5
	versionMembers   = 6
	versionSketch    = 7
)

const second = 1000

const (
	flagBlock = 1 << iota
	flagSeconds
	flagExact // one log, with cells of a millisecond
	flagBuckets
	flagUnsettled
	flagOwes // a bucket has more than it holds: attempts were settled to more than was admitted
	flagAtOnce
)

var (
	// ErrNewer is of bytes that a newer version of this package wrote.
	ErrNewer = errors.New("window: written by a newer version")
	// ErrCorrupt is of bytes that no version of this package wrote.
	ErrCorrupt = errors.New("window: bytes are corrupt")
)

// Append appends the bytes of s, without what is too old to matter.
func (p *Policy) Append(b []byte, s *State) []byte {
	switch {
	case p.members != nil:
		return p.appendMembers(b, s)
	case p.distinct != nil:
		return p.appendDistinct(b, s)
	case p.share != nil:
		return p.appendShare(b, s)
	case p.sketch != nil:
		return p.appendSketch(b, s)
	}
	w := writer{b: b, newest: s.newest, scale: 1, shapes: p.algorithm.shapes(), policy: p}
	if p.leased != nil {
		w.atOnce = *s.log(p.leased.log)
	}

	// The flags depend on it, and finding them sets the scale of all numbers that follow, so the order matters.
	w.unsettled = p.unsettledOf(s)
	flags := w.flags(s)
	w.b = append(w.b, w.version()<<4|byte(p.kind), flags)
	w.uint(s.newest / w.scale)
	if flags&flagBlock != 0 {
		w.block(s.rare)
	}
	if w.unsettled != nil {
		w.blocks(p.group)
	}

	if flags&flagBuckets != 0 {
		w.buckets(p.plain().(buckets), s.first)
	} else {
		w.logs(s, flags)
	}
	if flags&flagAtOnce != 0 {
		w.log(&p.leased.own.shape, w.atOnce)
		w.b = binary.LittleEndian.AppendUint64(w.b, xxhash.Sum64(w.b[len(b):]))
	}
	return w.b
}

func (w *writer) logs(s *State, flags byte) {
	if flags&flagExact == 0 {
		w.uint(int64(len(w.shapes)))
	}
	for i := range w.shapes {
		if sh := &w.shapes[i]; flags&flagExact == 0 {
			w.uint(sh.span)
			w.uint(sh.parts)
		}
		w.log(&w.shapes[i], *s.log(i))
	}
}

type writer struct {
	b      []byte
	newest int64
	scale  int64 // second where all instants are whole ones
	shapes []shape
	policy *Policy
	atOnce log // of the limits at once; none of it may still matter

	unsettled *unsettled // nil where nothing can move any more
}

// unsettledOf is what of a state can still move, nil when nothing can.
func (p *Policy) unsettledOf(s *State) *unsettled {
	if s.rare == nil || s.rare.unsettled == nil || len(s.rare.unsettled.blocks) == 0 || s.rare.unsettled.last().from < s.newest-p.late {
		return nil
	}
	return s.rare.unsettled
}

func (w *writer) version() byte {
	switch {
	case w.unsettled != nil:
		return versionUnsettled
	case w.countsAtOnce():
		return versionAtOnce
	}
	return version
}

func (w *writer) blocks(g *group) {
	w.blockList()
	w.log(&g.shape, w.unsettled.past)
}

func (w *writer) blockList() {
	w.uint(int64(len(w.unsettled.blocks)))
	for _, b := range w.unsettled.blocks {
		w.int(w.newest - b.from)
		if b.until == Never {
			w.uint(0)
		} else {
			w.uint(b.until - b.from)
		}

		w.level(b.from, b.level)
		w.uint(int64(b.limit))
		w.uint(b.count)
		w.int(w.newest - b.first)
		w.uint(int64(b.firstLevel))
	}
}

// level writes the level of a block. That of an unblock is 1, and that of a block that was waived one more than it is:
// versions that do not know these want at least 1.
func (w *writer) level(from int64, n int) {
	if from == waivedFrom {
		n++
	}
	w.uint(int64(max(n, 1)))
}

func (w *writer) uint(v int64) { w.b = binary.AppendUvarint(w.b, uint64(v)) }
func (w *writer) int(v int64)  { w.b = binary.AppendVarint(w.b, v) }

func (w *writer) flags(s *State) (flags byte) {
	if s.rare != nil && s.rare.until > 0 {
		flags |= flagBlock
	}
	own := w.countsAtOnce()
	if own {
		flags |= flagAtOnce
	}
	if bs, isBuckets := w.policy.plain().(buckets); isBuckets {
		if bs.owe(s) {
			flags |= flagOwes
		}
		return flags | flagBuckets
	}

	// Most logs have times in whole seconds: then the distances need ten bits less each. A single instant with
	// milliseconds forbids it.
	seconds := s.newest%second == 0
	for i := range w.shapes {
		seconds = seconds && w.inSeconds(&w.shapes[i], *s.log(i))
	}

	if own {
		seconds = seconds && w.inSeconds(&w.policy.leased.own.shape, w.atOnce)
	}
	if w.unsettled != nil {
		flags |= flagUnsettled
		seconds = seconds && w.inSeconds(&w.shapes[0], w.unsettled.past)
	}

	if seconds {
		flags |= flagSeconds
		w.scale = second
	}

	if len(w.shapes) == 1 && w.shapes[0].exact() {
		flags |= flagExact
	}
	return flags
}

// inSeconds says whether the cells that matter are of whole seconds, where they are of a millisecond.
func (w *writer) inSeconds(sh *shape, l log) bool {
	if !sh.exact() {
		return true
	}
	for j := w.oldest(sh, l); j < sh.len(l); j++ {
		if sh.slot(l, j)%second != 0 {
			return false
		}
	}
	return true
}

// oldest is the first cell that still matters.
func (w *writer) oldest(sh *shape, l log) int {
	if sh.len(l) > 0 && sh.slot(l, 0) > sh.slotOf(w.newest-sh.keep) {
		return 0
	}
	return sh.startingAfter(l, w.newest-sh.keep)
}

func (w *writer) block(r *rare) {
	if r.until == Never {
		w.uint(0)
	} else {
		w.uint(r.until - r.from)
	}
	w.int(w.newest - r.from)
	w.level(r.from, r.level)
}

func (w *writer) log(sh *shape, l log) {
	scale := sh.scale(w.scale)
	first, n := w.oldest(sh, l), sh.len(l)
	cells, ones := int64(n-first), int64(1)
	if sh.sum(l, n-1)-sh.sum(l, first-1) != cells {
		ones = 0
	}

	w.uint(cells<<1 | ones)
	if cells == 0 {
		return
	}

	// The slots are written from the newest one back, as distances: the newest is close to what was written already,
	// and they are small.
	w.int((sh.slotOf(w.newest) - sh.slot(l, n-1)) / scale)
	if cells > 1 {
		rice := newRiceWriter(w.b, (sh.slot(l, n-1)-sh.slot(l, first))/scale/(cells-1))
		for i := n - 1; i > first; i-- {
			distance := sh.slot(l, i) - sh.slot(l, i-1)
			if scale == second {
				distance /= second
			}
			rice.write(distance - 1)
		}
		w.b = rice.close()
	}

	for i := first; ones == 0 && i < n; i++ {
		w.uint(sh.sum(l, i) - sh.sum(l, i-1))
	}
}

func (w *writer) buckets(bs buckets, words log) {
	w.uint(int64(len(words) / bucketWords))
	for i := range len(words) / bucketWords {
		words := words[bucketWords*i:]
		w.uint(bs[i].unit)
		w.uint(bs[i].drain)
		w.uint(int64(words[level]))
		w.int(w.newest - int64(words[levelAt]))
		w.uint(int64(words[levelAt] - words[filledSince]))
	}
}

// countsAtOnce says whether limits at once count anything that can still matter.
func (w *writer) countsAtOnce() bool {
	if len(w.atOnce) == 0 {
		return false
	}
	own := &w.policy.leased.own.shape
	return w.oldest(own, w.atOnce) < own.len(w.atOnce)
}

// owe says whether a bucket has more than it holds.
func (a buckets) owe(s *State) bool {
	for i, b := range a[:len(s.first)/bucketWords] {
		if int64(s.first[bucketWords*i+level]) > b.holds {
			return true
		}
	}
	return false
}

// exact says whether a cell is a millisecond.
func (sh *shape) exact() bool { return sh.span == 1 && sh.parts == 1 }

// scale is by what the slots are divided where instants are divided by scale.
func (sh *shape) scale(scale int64) int64 {
	if sh.exact() {
		return scale
	}
	return 1
}
