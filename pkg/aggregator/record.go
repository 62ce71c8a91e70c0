package aggregator

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"weir/pkg/blocklist"
	"weir/pkg/hit"
)

// The first byte of every record that is written here: the second where the verdict was moved. Records of a later version end with the xxhash64
// of all before, little endian: only with it is their version believed.
const (
	recordVersion = 1
	movedVersion  = 2
)

var (
	// ErrNewer is of bytes in the store that a newer version of this package wrote.
	ErrNewer = errors.New("written by a newer version of weir")
	// ErrDamaged is of bytes in the store that no version of this package wrote.
	ErrDamaged = errors.New("damaged")
)

// A Record is what the store keeps of one (rule, key), in the space Windows under "rule/key". Its bytes:
//
//	version     1 byte  1, or 2 with a verdict that was moved
//	flags       1 byte  1 there is a verdict, and of it: 2 until is never, 4 it was ended, 8 a person lifted it,
//	                    16 it was published, 32 it was moved
//	generation  u       of the log of hits, and
//	offset      u       in it, up to and with which hits are in the state
//	[verdict]   from z; until u, the difference to from, unless never; decided z, the difference to from;
//	            [ended z, the difference to from]; generation u; offset u; count u; level u; limit: its length u, its bytes;
//	            [when it was moved: first z, the difference to from; first's level u]
//	state       the rest: the window's, as pkg/window writes it for the rule
//
// Numbers are varints as encoding/binary writes them: u is unsigned, z is signed (zigzag).
type Record struct {
	Generation, Offset int64
	Verdict            *Verdict // the last one, nil where there was none
	State              []byte
}

// A Verdict is the last block of a key. Times are Unix milliseconds.
type Verdict struct {
	From, Until, Decided int64
	Ended                int64 // when it was taken off before Until; 0 when it was not
	Generation, Offset   int64 // where in the log of hits what decided this stands
	Count                int64
	Level                int
	Limit                string
	Lifted               bool // Ended because a person wanted it
	Listed               bool // it was published: one that was over before is not

	// First and FirstLevel are From and Level as they were published first, and make the id; zero where these have not changed.
	First      int64
	FirstLevel int

	sent bool // by the present owner, since it took the partition
}

// laterVersion says whether bytes of the store are a later version's. Any byte may stand first in what is damaged, or was
// written by something else, so the version is believed only where the checksum is right that later versions end with.
func laterVersion(value []byte, known byte) bool {
	return len(value) > 0 && value[0] > known && hit.Sealed(value)
}

// live says whether the verdict stands on the list at a time.
func (v *Verdict) live(now int64) bool { return v.Ended == 0 && v.Until > now }

const (
	hasVerdict = 1 << iota
	isNever
	isEnded
	isLifted
	isListed
	isMoved

	recordFlags = hasVerdict | isNever | isEnded | isLifted | isListed | isMoved
)

// Append appends the record's bytes.
func (r *Record) Append(b []byte) []byte {
	return append(appendRecord(b, r.Generation, r.Offset, r.Verdict), r.State...)
}

// appendRecord appends all but the state.
func appendRecord(b []byte, generation, offset int64, v *Verdict) []byte {
	version := byte(recordVersion)
	if v.moved() {
		version = movedVersion
	}
	b = append(b, version, v.flags())
	b = binary.AppendUvarint(b, uint64(generation))
	b = binary.AppendUvarint(b, uint64(offset))
	if v == nil {
		return b
	}
	b = binary.AppendVarint(b, v.From)
	if v.Until != math.MaxInt64 {
		b = binary.AppendUvarint(b, uint64(v.Until-v.From))
	}
	b = binary.AppendVarint(b, v.Decided-v.From)
	if v.Ended != 0 {
		b = binary.AppendVarint(b, v.Ended-v.From)
	}
	for _, number := range []int64{v.Generation, v.Offset, v.Count, int64(v.Level), int64(len(v.Limit))} {
		b = binary.AppendUvarint(b, uint64(number))
	}
	b = append(b, v.Limit...)
	if v.moved() {
		b = binary.AppendVarint(b, v.First-v.From)
		b = binary.AppendUvarint(b, uint64(v.FirstLevel))
	}
	return b
}

// moved says whether a verdict is another than it was published first.
func (v *Verdict) moved() bool { return v != nil && v.FirstLevel != 0 }

// id is the same for ever, also where the verdict was moved.
func (v *Verdict) id(rule, key string) string {
	if v.moved() {
		return blocklist.ID(rule, key, v.First, v.FirstLevel)
	}
	return blocklist.ID(rule, key, v.From, v.Level)
}

func (v *Verdict) flags() byte {
	if v == nil {
		return 0
	}
	f := byte(hasVerdict)
	if v.Until == math.MaxInt64 {
		f |= isNever
	}
	if v.Ended != 0 {
		f |= isEnded
	}
	if v.Lifted {
		f |= isLifted
	}
	if v.Listed {
		f |= isListed
	}
	if v.moved() {
		f |= isMoved
	}
	return f
}

// ReadRecord reads what Append wrote. State lies within value. The errors are ErrNewer and ErrDamaged.
func ReadRecord(value []byte) (Record, error) {
	if laterVersion(value, movedVersion) {
		return Record{}, fmt.Errorf("a window's record: %w: version %d, this program reads up to %d", ErrNewer, value[0], movedVersion)
	}
	if len(value) < 2 || value[0] < recordVersion || value[0] > movedVersion || value[1]&^recordFlags != 0 ||
		(value[0] == movedVersion) != (value[1]&isMoved != 0) {
		return Record{}, fmt.Errorf("a window's record of %d bytes: %w", len(value), ErrDamaged)
	}
	c := cursor{left: value[2:]}
	r := Record{Generation: c.number(), Offset: c.number()}
	if flags := value[1]; flags&hasVerdict != 0 {
		r.Verdict = c.verdict(flags)
	}
	if c.failed {
		return Record{}, fmt.Errorf("a window's record of %d bytes: %w", len(value), ErrDamaged)
	}
	r.State = c.left
	return r, nil
}

func (c *cursor) verdict(flags byte) *Verdict {
	v := &Verdict{From: c.varint(), Until: math.MaxInt64, Lifted: flags&isLifted != 0, Listed: flags&isListed != 0}
	if flags&isNever == 0 {
		v.Until = v.From + c.number()
	}
	v.Decided = v.From + c.varint()
	if flags&isEnded != 0 {
		v.Ended = v.From + c.varint()
	}
	v.Generation, v.Offset, v.Count, v.Level = c.number(), c.number(), c.number(), int(c.number())
	v.Limit = string(c.take(c.number()))
	if flags&isMoved != 0 {
		v.First, v.FirstLevel = v.From+c.varint(), int(c.number())
	}
	return v
}

// A cursor takes values from the front of bytes. When they do not hold what is asked for it fails: it is empty from
// then on, and what it gives is zero.
type cursor struct {
	left   []byte
	failed bool
}

func (c *cursor) fail() { c.left, c.failed = nil, true }

func (c *cursor) varint() int64 {
	v, n := binary.Varint(c.left)
	if n <= 0 {
		c.fail()
		return 0
	}
	c.left = c.left[n:]
	return v
}

func (c *cursor) number() int64 {
	v, n := binary.Uvarint(c.left)
	if n <= 0 || v > math.MaxInt64 {
		c.fail()
		return 0
	}
	c.left = c.left[n:]
	return int64(v)
}

func (c *cursor) take(n int64) []byte {
	if n > int64(len(c.left)) {
		c.fail()
		return nil
	}
	taken := c.left[:n]
	c.left = c.left[n:]
	return taken
}
