package attempts

import (
	"encoding/binary"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
)

// maxWriters is how many writers of a partition are remembered: more write to one at a time only if there are more
// enforcers.
const maxWriters = 40

// A Mark is what a record names itself by in its partition.
type Mark struct {
	From     string
	Sequence uint64
}

// Mark is the mark of the record.
func (r *Record) Mark() Mark { return Mark{r.From, r.Sequence} }

// MarkOf finds the mark at the end of a record, without reading the rest.
func MarkOf(line string) (m Mark, ok bool) {
	const from, order, sequence = `,"from":"`, `","order":`, `,"sequence":`
	at := strings.LastIndex(line, from)
	if at < 0 || !Is(line) {
		return m, false
	}
	name, rest, ok1 := strings.Cut(line[at+len(from):], order)
	_, rest, ok2 := strings.Cut(rest, sequence)
	number, ok3 := strings.CutSuffix(strings.TrimRight(rest, "\r\n"), "}")
	n, err := strconv.ParseUint(number, 10, 64)
	return Mark{name, n}, ok1 && ok2 && ok3 && err == nil
}

// Repeats recognises records of a partition that were written twice, as after a fault between a write and its answer. The
// records of a writer come in the order of their sequences, so one that is not newer than the last is a repeat. The
// zero value has seen nothing.
type Repeats struct{ writers []writer } // the one that wrote last is the last

type writer struct {
	from uint64 // a hash
	last uint64 // sequence
}

// Has reports whether a record was there before.
func (r Repeats) Has(m Mark) bool {
	i := r.index(hashOf(m.From))
	return i >= 0 && m.Sequence <= r.writers[i].last
}

// See adds a record. The memory of r is used again.
func (r *Repeats) See(m Mark) {
	from := hashOf(m.From)
	at := writer{from, m.Sequence}
	if i := r.index(from); i >= 0 {
		at.last = max(at.last, r.writers[i].last)
		r.writers = slices.Delete(r.writers, i, i+1)
	}
	if len(r.writers) == maxWriters {
		r.writers = slices.Delete(r.writers, 0, 1)
	}
	r.writers = append(r.writers, at)
}

func (r Repeats) index(from uint64) int {
	for i := len(r.writers) - 1; i >= 0; i-- {
		if r.writers[i].from == from {
			return i
		}
	}
	return -1
}

func hashOf(from string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(from)) // never fails
	return h.Sum64()
}

// Clone is a copy that does not change with r.
func (r Repeats) Clone() Repeats { return Repeats{slices.Clone(r.writers)} }

// Append appends what has been seen.
func (r Repeats) Append(b []byte) []byte {
	for _, w := range r.writers {
		b = binary.AppendUvarint(binary.LittleEndian.AppendUint64(b, w.from), w.last)
	}
	return b
}

// ReadRepeats reads what Append wrote, all of b.
func ReadRepeats(b []byte) (r Repeats, ok bool) {
	for len(b) > 0 {
		if len(b) < 8 || len(r.writers) == maxWriters {
			return Repeats{}, false
		}
		w := writer{from: binary.LittleEndian.Uint64(b)}
		var n int
		if w.last, n = binary.Uvarint(b[8:]); n <= 0 {
			return Repeats{}, false
		}
		r.writers, b = append(r.writers, w), b[8+n:]
	}
	return r, true
}
