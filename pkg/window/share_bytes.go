package window

import (
	"encoding/binary"
	"math"

	"github.com/cespare/xxhash/v2"

	"weir/internal/varint"
)

// The bytes of a state of a share, version 5; numbers as in bytes.go, but that none is counted in seconds:
//
//	1 byte   version<<4
//	1 byte   flags: a block
//	newest   the newest hit
//	of       8 bytes, little endian: what the hits match
//	per      of the limit, and
//	late     in milliseconds: the cells of these are all known
//	[block]  as in versions 1 and 2
//	span     how many milliseconds a cell is long
//	cells    how many; for each of them, oldest first: its slot's distance to the one before (to 0 for the first), how many
//	         hits match, how many do not
//	8 bytes  the xxhash64 of all before, little endian
//
// The pending offence follows from the cells.

// mostSpan is longer than any cell.
const mostSpan = 1 << 40

// appendShare appends the bytes of s. Cells that are too old to matter are dropped.
func (p *Policy) appendShare(b []byte, s *State) []byte {
	begin, d := len(b), p.share
	w := writer{b: b, newest: s.newest, scale: 1, policy: p}
	flags := byte(0)
	if s.rare != nil && s.rare.until > 0 {
		flags |= flagBlock
	}

	w.b = append(w.b, versionShare<<4, flags)
	w.uint(s.newest)
	w.b = binary.LittleEndian.AppendUint64(w.b, d.of)
	w.uint(d.per)
	w.uint(d.late)
	if flags&flagBlock != 0 {
		w.block(s.rare)
	}

	v := newShared()
	if s.rare != nil && s.rare.shared != nil {
		v = s.rare.shared
		d.drop(v, d.old(s))
	}
	w.uint(v.span)
	w.uint(int64(len(v.cells)))
	last := int64(0)
	for _, cell := range v.cells {
		w.uint(cell.slot - last)
		w.uint(int64(cell.matching))
		w.uint(int64(cell.others))
		last = cell.slot
	}
	return binary.LittleEndian.AppendUint64(w.b, xxhash.Sum64(w.b[begin:]))
}

// readShare reads what appendShare wrote, without the checksum. If p's limit is of the share of something else, of another
// time, or of none, or hits may come later, then it keeps the block only: what is known may lack hits that do not match.
func (p *Policy) readShare(b []byte, s *State) error {
	r := reader{Reader: varint.Reader{Left: b[2:]}, scale: 1}
	flags := b[1]
	if b[0] != versionShare<<4 || flags&^flagBlock != 0 {
		return ErrCorrupt
	}

	s.newest = r.AtMost(MaxTime)
	var of uint64
	if b := r.Take(8); b != nil {
		of = binary.LittleEndian.Uint64(b)
	}
	per, late := r.AtMost(maxPer.Milliseconds()), r.AtMost(maxPer.Milliseconds())
	if flags&flagBlock != 0 {
		r.block(s)
	}

	v := r.cells(s.newest)
	if r.Failed || len(r.Left) > 0 {
		*s = State{}
		return ErrCorrupt
	}
	d := p.share
	if d == nil || d.of != of || d.per != per || d.late > late {
		return nil
	}

	s.needRare()
	s.rare.shared = v
	d.drop(v, d.old(s))
	d.judgeAgain(s)
	d.fit(s)
	return nil
}

func (r *reader) cells(newest int64) *shared {
	v := newShared()
	if v.span = r.AtMost(mostSpan); v.span < 1 {
		r.Fail()
		return v
	}
	n := r.AtMost(int64(len(r.Left)) / 3) // each takes three bytes at least
	v.cells = make([]shareCell, 0, n)
	slot := int64(0)
	for i := range n {
		distance := r.AtMost(MaxTime)
		cell := shareCell{matching: uint32(r.AtMost(math.MaxUint32)), others: uint32(r.AtMost(math.MaxUint32))}
		slot += distance
		cell.slot = slot
		if i > 0 && distance == 0 || cell.matching == 0 && cell.others == 0 || slot > newest/v.span {
			r.Fail()
		}
		if r.Failed {
			break
		}
		v.cells = append(v.cells, cell)
	}
	return v
}
