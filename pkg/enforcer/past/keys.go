package past

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"net/netip"
	"slices"

	"weir/pkg/blocklist"
)

// The spaces of the database: the first byte of each key. The package comment describes them.
const (
	spaceMeta   = 'm'
	spaceEvent  = 'e'
	spaceKind   = 'k'
	spaceText   = 't'
	spaceField  = 'f'
	spaceExact  = 'x'
	spaceLevel  = 'l'
	spaceUnit   = 's'
	spaceSame   = 'u'
	spaceCut    = 'c'
	spaceActive = 'a'
)

// escaped appends a text so that no other text begins with it, and that keeps the order of texts.
func escaped(b []byte, text string) []byte {
	return append(escapedBegin(b, text), 0, 1)
}

// maxTerm is how many bytes of a text are in a key. Longer ones share a list, and are compared when they are read.
const maxTerm = 1024

func escapedBegin(b []byte, text string) []byte {
	for _, c := range []byte(text[:min(len(text), maxTerm)]) {
		if b = append(b, c); c == 0 {
			b = append(b, 0xff)
		}
	}
	return b
}

func eventKey(p place) []byte { return p.append([]byte{spaceEvent}) }

func kindList(id uint64) []byte { return binary.BigEndian.AppendUint32([]byte{spaceKind}, uint32(id)) }

func textList(text string) []byte { return escaped([]byte{spaceText}, text) }

func fieldList(name, value string) []byte {
	return escaped(escaped([]byte{spaceField}, name), value)
}

// prefixList is the list of a prefix: of exactly this one in spaceExact, of all within it in spaceLevel.
func prefixList(space byte, p netip.Prefix) []byte {
	b := []byte{space, byte(p.Addr().BitLen()), byte(p.Bits())}
	return append(b, p.Addr().AsSlice()...)
}

// levels are the lengths of the prefixes that have a list of all events within them.
func levels(p netip.Prefix) []int {
	if p.Addr().Is4() {
		return levels4
	}
	return levels6
}

var levels4, levels6 = []int{16}, []int{32, 48}

// lists returns the lists that an event is in, besides that of its kind.
func (e *Event) lists() [][]byte {
	var all [][]byte
	for _, text := range e.texts() {
		all = append(all, textList(text))
	}
	for name, value := range e.Fields {
		if name != "ip" {
			all = append(all, fieldList(name, value))
		}
	}
	for _, prefix := range e.prefixes() {
		all = append(all, prefixList(spaceExact, prefix))
		for _, bits := range levels(prefix) {
			if bits <= prefix.Bits() {
				all = append(all, prefixList(spaceLevel, netip.PrefixFrom(prefix.Addr(), bits).Masked()))
			}
		}
	}
	if len(all) > 1 {
		slices.SortFunc(all, bytes.Compare)
		all = slices.CompactFunc(all, bytes.Equal)
	}
	return all
}

func unitKey(unit string) []byte { return append([]byte{spaceUnit}, unit...) }

func sameKey(e *Event) []byte { return append([]byte{spaceSame}, e.Identity()...) }

func cutKey(seq uint64) []byte { return binary.BigEndian.AppendUint64([]byte{spaceCut}, seq) }

// A span is the time in which the entry of an event was active and the event was its last: from start up to, and not
// including, end.
type span struct{ start, end int64 }

// node returns the smallest block of 1<<level instants, aligned by its size, that has the span, and the span's last
// instant.
func (s span) node() (level int, number uint64, last int64) {
	last = s.end - 1
	level = bits.Len64(uint64(s.start ^ last))
	return level, uint64(s.start) >> level, last
}

// maxLevel is the level of a block that has all instants.
const maxLevel = 48

func nodeList(level int, number uint64, side byte) []byte {
	b := binary.BigEndian.AppendUint64([]byte{spaceActive, byte(level)}, number)
	return append(b, side)
}

// The sides of a block: its spans by their first instant, and by their last.
const (
	byStart = 's'
	byLast  = 'z'
)

// keys returns the two keys of a span: the spans of a block contain its middle, so that of a question for an instant
// before the middle only their starts matter, and after it only their ends.
func (s span) keys(p place) [2][]byte {
	level, number, last := s.node()
	return [2][]byte{
		p.append(binary.BigEndian.AppendUint64(nodeList(level, number, byStart), uint64(s.start))),
		p.append(binary.BigEndian.AppendUint64(nodeList(level, number, byLast), uint64(last))),
	}
}

// state is the last event of a unit.
type state struct {
	at place
	span
	kind uint64
}

func (s state) bytes() []byte {
	b := s.at.append(nil)
	b = binary.BigEndian.AppendUint64(b, uint64(s.start))
	b = binary.BigEndian.AppendUint64(b, uint64(s.end))
	return binary.AppendUvarint(b, s.kind)
}

func readState(b []byte) (s state, ok bool) {
	if len(b) < placeBytes+16 {
		return s, false
	}
	if s.at, ok = placeOf(b[:placeBytes]); !ok {
		return s, false
	}
	s.span, ok = readSpan(b[placeBytes:])
	kind, n := binary.Uvarint(b[placeBytes+16:])
	s.kind = kind
	return s, ok && n > 0
}

func (s span) bytes() []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(s.start))
	return binary.BigEndian.AppendUint64(b, uint64(s.end))
}

func readSpan(b []byte) (s span, ok bool) {
	if len(b) < 16 {
		return s, false
	}
	s = span{int64(binary.BigEndian.Uint64(b)), int64(binary.BigEndian.Uint64(b[8:]))}
	return s, s.start >= 0 && s.end >= 0 && s.start <= maxAt && s.end <= maxAt
}

// stored is the value of an event: its kind and key, for a quick look, and its line.
func (e *Event) stored(kind uint64) []byte {
	text := e.Key
	if e.Order == blocklist.OrderPardon {
		text = "" // it has two keys; see header.texts
	}
	b := make([]byte, 0, len(e.Line)+len(text)+8)
	b = binary.AppendUvarint(b, kind)
	b = binary.AppendUvarint(b, uint64(len(text)))
	return append(append(b, text...), e.Line...)
}

// A header is the front of a stored event.
type header struct {
	kind uint64
	key  []byte // empty where the line has to be read
	line []byte
}

func readHeader(b []byte) (h header, ok bool) {
	kind, n := binary.Uvarint(b)
	if n <= 0 {
		return h, false
	}
	b = b[n:]
	length, n := binary.Uvarint(b)
	if n <= 0 || length > uint64(len(b)-n) {
		return h, false
	}
	return header{kind, b[n : n+int(length)], b[n+int(length):]}, true
}
