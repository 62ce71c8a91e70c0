package window

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"

	"weir/internal/hyperloglog"
	"weir/internal/varint"
)

// The bytes of a state of an estimate, version 7; numbers as in bytes.go, but that none is counted in seconds:
//
//	1 byte   version<<4
//	1 byte   flags: a block
//	newest   the newest hit
//	of       8 bytes, little endian: what the values are of, XOR the seed of their hashes
//	per      of the limit, and
//	part     in milliseconds: the parts are of these
//	late     in milliseconds: so late hits have counted
//	[block]  as in versions 1 and 2
//	parts    how many; for each of them, oldest first: its slot's distance to the one before (to 0 for the first), its hits,
//	         how many registers have something, and
//	           if these are few, for each its distance to the one before (to -1 for the first) less one, and a byte of its run
//	           otherwise all registers (hyperloglog.Registers.Append)
//	8 bytes  the xxhash64 of all before, little endian
//
// The pending instant follows from the parts.

// appendSketch appends the bytes of s. Parts that are too old to matter are dropped.
func (p *Policy) appendSketch(b []byte, s *State) []byte {
	begin, d := len(b), p.sketch
	w := writer{b: b, newest: s.newest, scale: 1, policy: p}
	flags := byte(0)
	if s.rare != nil && s.rare.until > 0 {
		flags |= flagBlock
	}

	w.b = append(w.b, versionSketch<<4, flags)
	w.uint(s.newest)
	w.b = binary.LittleEndian.AppendUint64(w.b, d.of^d.seed)
	w.uint(d.per)
	w.uint(d.part)
	w.uint(d.late)
	if flags&flagBlock != 0 {
		w.block(s.rare)
	}

	if s.rare == nil || s.rare.sketched == nil {
		w.uint(0)
	} else {
		d.drop(s)
		w.parts(s.rare.sketched)
	}
	return binary.LittleEndian.AppendUint64(w.b, xxhash.Sum64(w.b[begin:]))
}

func (w *writer) parts(v *sketched) {
	w.uint(int64(len(v.parts)))
	last := int64(0)
	for i := range v.parts {
		part := &v.parts[i]
		w.uint(part.slot - last)
		w.uint(part.hits)
		last = part.slot
		if part.all != nil {
			w.uint(fewRegisters)
			w.b = part.all.Append(w.b)
			continue
		}

		w.uint(int64(len(part.few)))
		before := -1
		for _, one := range part.few {
			w.uint(int64(int(one>>8) - before - 1))
			w.b = append(w.b, byte(one))
			before = int(one >> 8)
		}
	}
}

// readSketch reads what appendSketch wrote, without the checksum. If p estimates values of something else, by another seed, in
// other parts, or none, or hits may come later, then it keeps the block only.
func (p *Policy) readSketch(b []byte, s *State) error {
	r := reader{Reader: varint.Reader{Left: b[2:]}, scale: 1}
	flags := b[1]
	if b[0] != versionSketch<<4 || flags&^flagBlock != 0 {
		return ErrCorrupt
	}

	s.newest = r.AtMost(MaxTime)
	var of uint64
	if b := r.Take(8); b != nil {
		of = binary.LittleEndian.Uint64(b)
	}
	most := maxPer.Milliseconds()
	per, part, late := r.AtMost(most), r.AtMost(most), r.AtMost(most)
	if part == 0 {
		r.Fail()
	}
	if flags&flagBlock != 0 {
		r.block(s)
	}

	v := newSketched()
	if !r.Failed {
		v.parts = r.parts(s.newest / part)
	}
	if r.Failed || len(r.Left) > 0 {
		*s = State{}
		return ErrCorrupt
	}
	d := p.sketch
	if d == nil || d.of^d.seed != of || d.per != per || d.part != part || d.late > late {
		return nil
	}

	s.needRare()
	s.rare.sketched = v
	d.drop(s)
	v.judged = s.newest - d.late - 1
	d.sum(v)
	return nil
}

func (r *reader) parts(newest int64) (parts []sketchPart) {
	slot := int64(0)
	for i := range r.AtMost(int64(len(r.Left)) / 3) { // each takes three bytes at least
		distance := r.AtMost(MaxTime)
		slot += distance
		part := sketchPart{slot: slot, hits: r.AtMost(maxHits)}
		registers := r.AtMost(fewRegisters)
		if i > 0 && distance == 0 || slot > newest || registers == 0 {
			r.Fail()
		}
		// As many as it says take two bytes each, or one.
		if registers < fewRegisters && 2*registers <= int64(len(r.Left)) {
			part.few = r.few(int(registers))
		} else if registers == fewRegisters && registers <= int64(len(r.Left)) {
			part.all = r.all()
		} else {
			r.Fail()
		}
		if r.Failed || part.hits < registers {
			r.Fail()
			return nil
		}
		parts = append(parts, part)
	}
	return parts
}

// few reads registers that have something.
func (r *reader) few(n int) []uint32 {
	few := make([]uint32, 0, n)
	register := int64(-1)
	for range n {
		register += r.AtMost(sketchRegisters) + 1
		run := r.Byte()
		if register >= sketchRegisters || run == 0 || run > hyperloglog.Most(sketchRegisters) {
			r.Fail()
			return nil
		}
		few = append(few, uint32(register)<<8|uint32(run))
	}
	return few
}

// all reads all registers. Those of a part that has them are not few.
func (r *reader) all() hyperloglog.Registers {
	all := make(hyperloglog.Registers, sketchRegisters)
	rest, ok := all.Read(r.Left)
	r.Left = rest
	with := 0
	for _, run := range all {
		if run > 0 {
			with++
		}
	}
	if !ok || with < fewRegisters {
		r.Fail()
	}
	return all
}
