package windows

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"

	"weir/internal/store"
	"weir/internal/varint"
	"weir/pkg/rule"
)

const (
	guardNoteVersion  = 1
	sharedNoteVersion = 2 // of a rule that bounds a share
	seededNoteVersion = 3 // with keys, and the seeds of their hashes

	guardMinutes = 64  // of a rule that are remembered, those that were counted last
	guardTrips   = 256 // of a rule that are remembered, the newest
	keyMinutes   = 4   // of a rule whose keys are counted, the newest
	guardRules   = 1 << 16
	guardName    = 1 << 10

	minute = 60_000 // milliseconds
)

// GuardKey is where the store has a partition's Guard, in the space Notes.
const GuardKey = "guard"

// A Guard counts the new blocks of guarded rules in each minute of the requests' time, and says which of them are beyond
// the rule's guard: those behind as many as may begin in a minute, and all of a minute that follows one with more.
// A key whose block is guarded may break its limit again a minute later (Window.CountAgain), and that counts as another
// block. So the guard holds for as long as too many keys go on.
//
// For a rule that bounds the share of keys it also counts the keys that sent something in a minute, in a sketch. The share
// is of the keys of the minute so far, or of those of the minute before, if these are more: a minute that has just begun
// has few. The number of keys is estimated, with some room: so an error leads to fewer guarded blocks. Blocks that begin
// in a minute that is older than the newest four have no share.
//
// It is written with every write of windows, so both are of one moment: all hits before a place in the log are counted.
// Hits before that place may be read again, and some windows have them already. So the Guard does not count these again.
// It says what it said before, because it remembers from which place on a minute was beyond the guard. Behind that place
// no window has any hits, and all is counted again, in the order of the log. So after a crash each block is guarded, or
// not, as if nothing had been read twice. A key that a sketch has already changes nothing in it.
//
// Hits that waited for the store are counted behind their place. A guarded block that these lead to moves the beginning
// of its minute's excess back to their place. So after a crash at that moment, more blocks may be guarded than before,
// and never fewer. The same holds for blocks that the time decides: they are counted when they are decided, however old
// their place is, and again if that is decided again.
type Guard struct {
	rules    map[string]*guardedRule
	recorded Place  // the excesses are known for all hits before it, since the partition was taken
	reached  Place  // all hits before it are counted
	seed     uint64 // of the hashes of keys in new sketches
}

// NewGuard makes a Guard that has counted nothing. The seed of its hashes has to be the same after a crash, or what is read
// again may be guarded otherwise.
func NewGuard(seed uint64) *Guard { return &Guard{seed: seed} }

// A Place is that of a hit in the log of hits.
type Place struct {
	Generation, Offset int64 // of its batch
	Item               int64 // in the batch; or Waited, or ByTime
}

const (
	Waited = math.MaxInt64 // the item of a hit that waited for the store
	ByTime = Waited - 1    // that of a block that the time has decided: its place is that of the key's last hit
)

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
	keys    []keyMinute     // by number, at most keyMinutes; none of a rule that bounds no share
}

// A guardedMinute counts the blocks that began in a minute.
type guardedMinute struct {
	number  int64 // since 1970
	blocks  int64
	blocked int64  // keys, of a rule that bounds their share
	beyond  Beyond // the bounds that were exceeded, added up; it stays so when the guard changes
}

// A keyMinute counts the keys that sent something in a minute.
type keyMinute struct {
	number int64
	seed   uint64 // of the hashes of keys; 0 of a sketch from before there were seeds
	sketch *sketch
}

// An excess says from which place on a minute was beyond a bound of the guard.
type excess struct {
	number int64
	from   Place
	bound  Beyond
}

// Beyond is the bound of a guard that a block exceeds; 0 is none.
type Beyond uint8

// The bounds of a guard. A block that exceeds both is beyond the first.
const (
	MostNew Beyond = 1 << iota
	MostShare
)

var bounds = [...]Beyond{MostNew, MostShare}

// A Beginning is that of a block.
type Beginning struct {
	From  int64 // in Unix milliseconds
	At    Place // of the hit
	Again bool  // another block of the key began in the same minute
}

// Counted notes that all hits of a batch are counted, and of those before it, unless they wait.
func (g *Guard) Counted(generation, offset int64) {
	if next := (Place{Generation: generation, Offset: offset + 1}); g.reached.before(next) {
		g.reached = next
	}
}

// Sees notes that a key has sent something at an instant in Unix milliseconds, by a rule that bounds the share of keys.
func (g *Guard) Sees(rule, key string, at int64) {
	if m := g.rule(rule).keyMinute(at/minute, g.seed); m != nil {
		m.sketch.add(key, m.seed)
	}
}

// rule finds a rule or adds it.
func (g *Guard) rule(name string) *guardedRule {
	r := g.rules[name]
	if r == nil {
		if g.rules == nil {
			g.rules = map[string]*guardedRule{}
		}
		r = &guardedRule{}
		g.rules[name] = r
	}
	return r
}

// keyMinute finds a minute's keys, or begins them; nil for a minute that is older than all that are kept.
func (r *guardedRule) keyMinute(number int64, seed uint64) *keyMinute {
	i := len(r.keys)
	for i > 0 && r.keys[i-1].number > number {
		i--
	}
	if i > 0 && r.keys[i-1].number == number {
		return &r.keys[i-1]
	}

	if len(r.keys) < keyMinutes {
		r.keys = slices.Insert(r.keys, i, keyMinute{number, seed, &sketch{}})
		return &r.keys[i]
	}
	if i == 0 {
		return nil
	}
	one := r.keys[0].sketch
	*one = sketch{}
	copy(r.keys, r.keys[1:i])
	r.keys[i-1] = keyMinute{number, seed, one}
	return &r.keys[i-1]
}

// keysOf is how many keys sent something in a minute or in the one before, whichever are more, with the room of an
// estimate. It reports false for a minute whose keys are not kept.
func (r *guardedRule) keysOf(number int64) (most float64, kept bool) {
	for _, m := range r.keys {
		switch m.number {
		case number:
			kept = true
			fallthrough
		case number - 1:
			most = max(most, m.sketch.keys()*sketchRoom)
		}
	}
	return most, kept
}

// Begins counts a block of a rule with a guard, in one of several partitions. It reports which bound of the guard the block
// is beyond.
func (g *Guard) Begins(name string, guard rule.Guard, partitions int, b Beginning) Beyond {
	number := b.From / minute
	if b.At.Item != ByTime && b.At.before(g.recorded) {
		r := g.rules[name]
		for _, bound := range bounds {
			if r != nil && (r.exceeded(number, bound, b.At) || r.exceeded(number-1, bound, b.At)) {
				return bound
			}
		}
		return 0
	}
	return g.rule(name).begins(number, guard, partitions, b)
}

func (r *guardedRule) begins(number int64, guard rule.Guard, partitions int, b Beginning) Beyond {
	waited := b.At.Item >= ByTime
	if waited {
		b.At.Item = 0
	}

	m := r.minute(number)
	m.blocks++
	if guard.MostNew > 0 && m.blocks > guard.Share(partitions) {
		r.exceed(m, MostNew, b.At)
	}
	if guard.MostShare == 0 {
		r.keys = nil
	} else if !b.Again {
		m.blocked++
		if keys, kept := r.keysOf(number); kept && m.blocked > guard.ShareOf(keys, partitions) {
			r.exceed(m, MostShare, b.At)
		}
	}

	for _, bound := range bounds {
		switch {
		case m.beyond&bound != 0:
		case r.isBeyond(number-1, bound):
			number--
		default:
			continue
		}
		if waited {
			r.moveBack(number, bound, b.At)
		}
		return bound
	}
	return 0
}

// exceed notes that a minute is beyond a bound, unless that is known.
func (r *guardedRule) exceed(m *guardedMinute, bound Beyond, at Place) {
	if m.beyond&bound != 0 {
		return
	}
	m.beyond |= bound
	r.excess = append(r.excess, excess{m.number, at, bound})
	r.excess = slices.Delete(r.excess, 0, max(0, len(r.excess)-guardTrips))
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

func (r *guardedRule) isBeyond(number int64, bound Beyond) bool {
	return slices.ContainsFunc(r.minutes, func(m guardedMinute) bool { return m.number == number && m.beyond&bound != 0 })
}

// exceeded reports whether a minute was beyond a bound at a place.
func (r *guardedRule) exceeded(number int64, bound Beyond, at Place) bool {
	return slices.ContainsFunc(r.excess, func(e excess) bool { return e.number == number && e.bound == bound && !at.before(e.from) })
}

func (r *guardedRule) moveBack(number int64, bound Beyond, to Place) {
	for i := range r.excess {
		if e := &r.excess[i]; e.number == number && e.bound == bound && to.before(e.from) {
			e.from = to
		}
	}
}

// The bytes of a Guard in the store; numbers are varints of encoding/binary without a sign:
//
//	version     1 byte  1; 2 if the share of a rule's keys is bounded; 3 with the sketches of keys
//	generation, offset  the place up to which all hits are counted
//	rules       how many; for each of them, by name
//	   name     its length, its bytes
//	   minutes  how many; for each of them its number, blocks x 2 (+ 1 if it is beyond the guard)
//	            from version 2 on: its number, blocks, blocked keys, the bounds that it is beyond
//	   excess   how many; for each of them the minute's number, generation, offset, item; from version 2 on: the bound
//	   [keys]   from version 2 on: how many minutes; for each of them its number, in version 3 its seed, and the sketch
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

	version := g.version()
	b := []byte{version}
	number := func(n int64) { b = binary.AppendUvarint(b, uint64(n)) }
	number(reached.Generation)
	number(reached.Offset)
	number(int64(len(g.rules)))
	for _, name := range slices.Sorted(maps.Keys(g.rules)) {
		number(int64(len(name)))
		b = append(b, name...)
		b = g.rules[name].append(b, version)
	}
	return seal(b, 0)
}

// version is the first that has all that is known: an earlier program goes on with the bytes of version 1.
func (g *Guard) version() byte {
	for _, r := range g.rules {
		if len(r.keys) > 0 {
			return seededNoteVersion
		}
	}
	for _, r := range g.rules {
		shared := func(m guardedMinute) bool { return m.blocked > 0 || m.beyond&MostShare != 0 }
		if slices.ContainsFunc(r.minutes, shared) || slices.ContainsFunc(r.excess, func(e excess) bool { return e.bound == MostShare }) {
			return sharedNoteVersion
		}
	}
	return guardNoteVersion
}

func (r *guardedRule) append(b []byte, version byte) []byte {
	numbers := func(all ...int64) {
		for _, n := range all {
			b = binary.AppendUvarint(b, uint64(n))
		}
	}
	numbers(int64(len(r.minutes)))
	for _, m := range r.minutes {
		if version == guardNoteVersion {
			numbers(m.number, m.blocks<<1|int64(m.beyond))
		} else {
			numbers(m.number, m.blocks, m.blocked, int64(m.beyond))
		}
	}

	numbers(int64(len(r.excess)))
	for _, e := range r.excess {
		numbers(e.number, e.from.Generation, e.from.Offset, e.from.Item)
		if version != guardNoteVersion {
			numbers(int64(e.bound))
		}
	}
	if version == guardNoteVersion {
		return b
	}

	numbers(int64(len(r.keys)))
	for _, m := range r.keys {
		numbers(m.number)
		b = binary.LittleEndian.AppendUint64(b, m.seed)
		b = m.sketch.append(b)
	}
	return b
}

// ReadGuard reads what the store has, which may be nothing; the seed is for new sketches. The errors are ErrNewer and
// ErrDamaged.
func ReadGuard(value []byte, seed uint64) (*Guard, error) {
	g := NewGuard(seed)
	if value == nil {
		return g, nil
	}

	read := &Guard{rules: map[string]*guardedRule{}, seed: seed}
	err := readSealed(value, "the guard's counts", seededNoteVersion, func(c *varint.Reader) {
		version := c.Byte()
		if version < guardNoteVersion {
			c.Fail()
		}
		read.reached = Place{Generation: c.Number(), Offset: c.Number()}
		read.recorded = read.reached
		for range c.AtMost(guardRules) {
			name := string(c.Take(c.AtMost(guardName)))
			read.rules[name] = readGuardedRule(c, version)
		}
	})
	if err != nil {
		return g, err
	}
	return read, nil
}

func readGuardedRule(c *varint.Reader, version byte) *guardedRule {
	r := &guardedRule{}
	for range c.AtMost(guardMinutes) {
		m := guardedMinute{number: c.Number(), blocks: c.Number()}
		if version == guardNoteVersion {
			m.blocks, m.beyond = m.blocks>>1, Beyond(m.blocks&1)
		} else {
			m.blocked, m.beyond = c.Number(), Beyond(c.AtMost(int64(MostNew|MostShare)))
		}
		r.minutes = append(r.minutes, m)
	}

	for range c.AtMost(guardTrips) {
		e := excess{c.Number(), Place{c.Number(), c.Number(), c.Number()}, MostNew}
		if version != guardNoteVersion {
			e.bound = Beyond(c.AtMost(int64(MostShare)))
		}
		r.excess = append(r.excess, e)
	}
	if version == guardNoteVersion {
		return r
	}

	for range c.AtMost(keyMinutes) {
		m := keyMinute{number: c.Number(), sketch: &sketch{}}
		if version == seededNoteVersion {
			if b := c.Take(8); b != nil {
				m.seed = binary.LittleEndian.Uint64(b)
			}
		}
		if len(r.keys) > 0 && m.number <= r.keys[len(r.keys)-1].number {
			c.Fail()
		}
		m.sketch.read(c)
		r.keys = append(r.keys, m)
	}
	return r
}
