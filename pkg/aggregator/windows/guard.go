package windows

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"

	"weir/internal/store"
	"weir/internal/varint"
	"weir/pkg/hit"
)

const (
	guardNoteVersion = 1

	guardMinutes = 64  // of a rule that are remembered, those that were counted last
	guardTrips   = 256 // of a rule that are remembered, the newest
	guardRules   = 1 << 16
	guardName    = 1 << 10

	minute = 60_000 // milliseconds
)

// GuardKey is where the store has a partition's Guard, in the space Notes.
const GuardKey = "guard"

// A Guard counts the new blocks of guarded rules in each minute of the requests' time, and says which of them are beyond
// the rule's guard: those behind as many as may begin in a minute, and all of a minute that follows one with more.
//
// It is written with every write of windows, so both are of one moment: all hits before a place in the log are counted.
// Hits before that place may be read again, and some windows have them already. So the Guard does not count these again.
// It says what it said before, because it remembers from which place on a minute was beyond the guard. Behind that place
// no window has any hits, and all is counted again, in the order of the log. So after a crash each block is guarded, or
// not, as if nothing had been read twice.
//
// Hits that waited for the store are counted behind their place. A guarded block that these lead to moves the beginning
// of its minute's excess back to their place. So after a crash at that moment, more blocks may be guarded than before,
// and never fewer.
type Guard struct {
	rules    map[string]*guardedRule
	recorded Place // the excesses are known for all hits before it, since the partition was taken
	reached  Place // all hits before it are counted
}

// A Place is that of a hit in the log of hits.
type Place struct {
	Generation, Offset int64 // of its batch
	Item               int64 // in the batch; Waited for a hit that waited
}

// Waited is the item of a hit that waited for the store.
const Waited = math.MaxInt64

func (p Place) before(other Place) bool {
	switch {
	case p.Generation != other.Generation:
		return p.Generation < other.Generation
	case p.Offset != other.Offset:
		return p.Offset < other.Offset
	}
	return p.Item < other.Item
}

// A guardedRule is what a Guard knows of a rule.
type guardedRule struct {
	minutes []guardedMinute // the one that was counted last stands last
	excess  []excess        // in the order in which they began
}

// A guardedMinute counts the blocks that began in a minute.
type guardedMinute struct {
	number int64 // since 1970
	blocks int64
	beyond bool // more than the guard lets through; it stays so when the guard changes
}

// An excess says from which place on a minute was beyond the guard.
type excess struct {
	number int64
	from   Place
}

// Counted notes that all hits of a batch are counted, and of those before it, unless they wait.
func (g *Guard) Counted(generation, offset int64) {
	if next := (Place{Generation: generation, Offset: offset + 1}); g.reached.before(next) {
		g.reached = next
	}
}

// Begins counts a block that begins at an instant in Unix milliseconds, by the hit at a place. It reports whether the
// block is beyond most, the number of blocks that may begin in a minute.
func (g *Guard) Begins(rule string, most, from int64, at Place) bool {
	number := from / minute
	r := g.rules[rule]
	if at.before(g.recorded) {
		return r != nil && (r.exceeded(number, at) || r.exceeded(number-1, at))
	}

	if r == nil {
		if g.rules == nil {
			g.rules = map[string]*guardedRule{}
		}
		r = &guardedRule{}
		g.rules[rule] = r
	}
	return r.begins(number, most, at)
}

func (r *guardedRule) begins(number, most int64, at Place) bool {
	waited := at.Item == Waited
	if waited {
		at.Item = 0
	}

	m := r.minute(number)
	if m.blocks++; m.blocks > most && !m.beyond {
		m.beyond = true
		r.excess = append(r.excess, excess{number, at})
		r.excess = slices.Delete(r.excess, 0, max(0, len(r.excess)-guardTrips))
	}

	switch {
	case !m.beyond && r.isBeyond(number-1):
		number--
	case !m.beyond:
		return false
	}
	if waited {
		r.moveBack(number, at)
	}
	return true
}

// minute finds a minute or adds it, in the place of the one that was not counted for longest.
func (r *guardedRule) minute(number int64) *guardedMinute {
	last := len(r.minutes) - 1
	i := slices.IndexFunc(r.minutes, func(m guardedMinute) bool { return m.number == number })
	switch {
	case i < 0:
		r.minutes = append(r.minutes, guardedMinute{number: number})
		r.minutes = slices.Delete(r.minutes, 0, max(0, len(r.minutes)-guardMinutes))
	case i < last:
		m := r.minutes[i]
		copy(r.minutes[i:], r.minutes[i+1:])
		r.minutes[last] = m
	}
	return &r.minutes[len(r.minutes)-1]
}

func (r *guardedRule) isBeyond(number int64) bool {
	return slices.ContainsFunc(r.minutes, func(m guardedMinute) bool { return m.number == number && m.beyond })
}

// exceeded reports whether a minute was beyond the guard at a place.
func (r *guardedRule) exceeded(number int64, at Place) bool {
	return slices.ContainsFunc(r.excess, func(e excess) bool { return e.number == number && !at.before(e.from) })
}

func (r *guardedRule) moveBack(number int64, to Place) {
	for i := range r.excess {
		if e := &r.excess[i]; e.number == number && to.before(e.from) {
			e.from = to
		}
	}
}

// The bytes of a Guard in the store; numbers are varints of encoding/binary without a sign:
//
//	version     1 byte  1
//	generation, offset  the place up to which all hits are counted
//	rules       how many; for each of them, by name
//	   name     its length, its bytes
//	   minutes  how many; for each of them its number, blocks x 2 (+ 1 if it is beyond the guard)
//	   excess   how many; for each of them the minute's number, generation, offset, item
//	checksum    8 bytes xxhash64 of all before it, little endian

// appendChange appends what the store has to learn, unless no rule was ever guarded. Hits from an offset on may wait, -1
// for none: their outcome is not known yet.
func (g *Guard) appendChange(changes []store.Change, waiting int64) []store.Change {
	if g == nil || len(g.rules) == 0 {
		return changes
	}
	return append(changes, store.Change{Space: store.Notes, Key: []byte(GuardKey), Value: g.bytes(waiting)})
}

func (g *Guard) bytes(waiting int64) []byte {
	reached := g.reached
	if waiting >= 0 {
		reached.Offset = min(reached.Offset, waiting)
	}

	b := []byte{guardNoteVersion}
	number := func(n int64) { b = binary.AppendUvarint(b, uint64(n)) }
	number(reached.Generation)
	number(reached.Offset)
	number(int64(len(g.rules)))
	for _, name := range slices.Sorted(maps.Keys(g.rules)) {
		r := g.rules[name]
		number(int64(len(name)))
		b = append(b, name...)
		number(int64(len(r.minutes)))
		for _, m := range r.minutes {
			number(m.number)
			beyond := int64(0)
			if m.beyond {
				beyond = 1
			}
			number(m.blocks<<1 | beyond)
		}

		number(int64(len(r.excess)))
		for _, e := range r.excess {
			number(e.number)
			number(e.from.Generation)
			number(e.from.Offset)
			number(e.from.Item)
		}
	}
	return binary.LittleEndian.AppendUint64(b, xxhash.Sum64(b))
}

// ReadGuard reads what the store has, which may be nothing. The errors are ErrNewer and ErrDamaged.
func ReadGuard(value []byte) (*Guard, error) {
	g := &Guard{}
	if value == nil {
		return g, nil
	}
	if LaterVersion(value, guardNoteVersion) {
		return g, fmt.Errorf("the guard's counts: %w: version %d, this program reads up to %d", ErrNewer, value[0], guardNoteVersion)
	}
	if !hit.Sealed(value) {
		return g, fmt.Errorf("the guard's counts of %d bytes: %w", len(value), ErrDamaged)
	}

	c := varint.Reader{Left: value[:len(value)-sealBytes]}
	c.Want(guardNoteVersion)
	read := &Guard{rules: map[string]*guardedRule{}}
	read.reached = Place{Generation: c.Number(), Offset: c.Number()}
	read.recorded = read.reached
	for range c.AtMost(guardRules) {
		name := string(c.Take(c.AtMost(guardName)))
		r := &guardedRule{}
		for range c.AtMost(guardMinutes) {
			m := guardedMinute{number: c.Number()}
			n := c.Number()
			m.blocks, m.beyond = n>>1, n&1 != 0
			r.minutes = append(r.minutes, m)
		}
		for range c.AtMost(guardTrips) {
			r.excess = append(r.excess, excess{c.Number(), Place{c.Number(), c.Number(), c.Number()}})
		}
		read.rules[name] = r
	}

	if c.End(); c.Failed {
		return g, fmt.Errorf("the guard's counts of %d bytes: %w", len(value), ErrDamaged)
	}
	return read, nil
}
