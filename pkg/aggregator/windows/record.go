package windows

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/cespare/xxhash/v2"

	"weir/internal/varint"
	"weir/pkg/blocklist"
	"weir/pkg/hit"
)

// The first byte of every record that is written here: the second where the verdict was moved, the third where it is
// guarded, the fourth where it is beyond the share of keys. The last two, and records of a later version, end with the
// xxhash64 of all before, little endian: only with it is their version believed.
const (
	recordVersion = 1
	movedVersion  = 2
	guardVersion  = 3
	shareVersion  = 4
)

var (
	// ErrNewer is of bytes in the store that a newer version of this package wrote.
	ErrNewer = errors.New("written by a newer version of weir")
	// ErrDamaged is of bytes in the store that no version of this package wrote.
	ErrDamaged = errors.New("damaged")
)

// A Record is what the store keeps of one (rule, key), in the space Windows under "rule/key". Its bytes:
//
//	version     1 byte  1; 2 with a verdict that was moved; 3 with one that is guarded; 4 with one
//	                    that is beyond the share of keys
//	flags       1 byte  1 there is a verdict, and of it: 2 until is never, 4 it was ended, 8 a person lifted it,
//	                    16 it was published, 32 it was moved, 64 it is guarded, 128 by the share
//	                    of keys
//	generation  u       of the log of hits, and
//	offset      u       in it, up to and with which hits are in the state
//	[verdict]   from z; until u, the difference to from, unless never; decided z, the difference to from;
//	            [ended z, the difference to from]; generation u; offset u; count u; level u; limit: its length u, its bytes;
//	            [when it was moved: first z, the difference to from; first's level u]
//	state       the rest: the window's, as pkg/window writes it for the rule
//	[checksum]  8 bytes, from version 3 on: see above
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

	Guarded Beyond // the bound of the rule's guard that it was beyond when it began
	Sent    bool   // by the present owner, since it took the partition; not stored
}

// LaterVersion says whether bytes of the store are a later version's. Any byte may stand first in what is damaged, or was
// written by something else, so the version is believed only where the checksum is right that later versions end with.
func LaterVersion(value []byte, known byte) bool {
	return len(value) > 0 && value[0] > known && hit.Sealed(value)
}

// BeganWith says whether the verdict began in the minute of a time.
func (v *Verdict) BeganWith(at int64) bool { return v != nil && v.From/minute == at/minute }

// Live says whether the verdict stands on the list at a time.
func (v *Verdict) Live(now int64) bool { return v.Ended == 0 && v.Until > now }

const (
	hasVerdict = 1 << iota
	isNever
	isEnded
	isLifted
	isListed
	isMoved
	isGuarded
	isShared // and isGuarded
)

// Append appends the record's bytes.
func (r *Record) Append(b []byte) []byte {
	begin := len(b)
	b = append(appendRecord(b, r.Generation, r.Offset, r.Verdict), r.State...)
	return sealRecord(b, begin)
}

// appendRecord appends all but the state.
func appendRecord(b []byte, generation, offset int64, v *Verdict) []byte {
	version := byte(recordVersion)
	switch {
	case v != nil && v.Guarded == MostShare:
		version = shareVersion
	case v != nil && v.Guarded != 0:
		version = guardVersion
	case v.Moved():
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
	if v.Moved() {
		b = binary.AppendVarint(b, v.First-v.From)
		b = binary.AppendUvarint(b, uint64(v.FirstLevel))
	}

	return b
}

// sealRecord ends the record that begins somewhere in b with its checksum, where its version has one.
func sealRecord(b []byte, begin int) []byte {
	if b[begin] < guardVersion {
		return b
	}
	return seal(b, begin)
}

// seal ends what begins somewhere in b with its checksum.
func seal(b []byte, begin int) []byte {
	return binary.LittleEndian.AppendUint64(b, xxhash.Sum64(b[begin:]))
}

// readSealed has a function read bytes of the store that begin with a version up to a known one, and end with their
// checksum. The errors are ErrNewer and ErrDamaged.
func readSealed(value []byte, what string, known byte, read func(c *varint.Reader)) error {
	if LaterVersion(value, known) {
		return fmt.Errorf("%s: %w: version %d, this program reads up to %d", what, ErrNewer, value[0], known)
	}
	c := varint.Reader{Failed: !hit.Sealed(value)}
	if !c.Failed {
		c.Left = value[:len(value)-sealBytes]
		read(&c)
		c.End()
	}
	if c.Failed {
		return fmt.Errorf("%s, of %d bytes: %w", what, len(value), ErrDamaged)
	}
	return nil
}

// Moved says whether a verdict is another than it was published first.
func (v *Verdict) Moved() bool { return v != nil && v.FirstLevel != 0 }

// ID is the same for ever, also where the verdict was moved.
func (v *Verdict) ID(rule, key string) string {
	first, level := v.AtFirst()
	return blocklist.ID(rule, key, first, level)
}

// AtFirst is From and Level as they were published first.
func (v *Verdict) AtFirst() (from int64, level int) {
	if v.Moved() {
		return v.First, v.FirstLevel
	}
	return v.From, v.Level
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
	if v.Moved() {
		f |= isMoved
	}
	if v.Guarded != 0 {
		f |= isGuarded
	}
	if v.Guarded == MostShare {
		f |= isShared
	}

	return f
}

// ReadRecord reads what Append wrote. State lies within value. The errors are ErrNewer and ErrDamaged.
func ReadRecord(value []byte) (Record, error) {
	if LaterVersion(value, shareVersion) {
		return Record{}, fmt.Errorf("a window's record: %w: version %d, this program reads up to %d", ErrNewer, value[0], shareVersion)
	}
	if len(value) < 2 || !goodVersion(value) {
		return Record{}, fmt.Errorf("a window's record of %d bytes: %w", len(value), ErrDamaged)
	}
	if value[0] >= guardVersion {
		value = value[:len(value)-sealBytes]
	}

	c := varint.Reader{Left: value[2:]}
	r := Record{Generation: c.Number(), Offset: c.Number()}
	if flags := value[1]; flags&hasVerdict != 0 {
		r.Verdict = readVerdict(&c, flags)
	}
	if c.Failed {
		return Record{}, fmt.Errorf("a window's record of %d bytes: %w", len(value), ErrDamaged)
	}

	r.State = c.Left
	return r, nil
}

const sealBytes = 8

// goodVersion says whether the flags of a record's first bytes are those of its version, and its checksum is right.
func goodVersion(value []byte) bool {
	version, flags := value[0], value[1]
	if (version >= guardVersion) != (flags&isGuarded != 0) || (version == shareVersion) != (flags&isShared != 0) {
		return false
	}
	if version >= guardVersion {
		return flags&hasVerdict != 0 && len(value) >= 2+sealBytes && hit.Sealed(value)
	}
	return version >= recordVersion && version <= movedVersion && (version == movedVersion) == (flags&isMoved != 0)
}

func readVerdict(c *varint.Reader, flags byte) *Verdict {
	v := &Verdict{From: c.Signed(), Until: math.MaxInt64, Lifted: flags&isLifted != 0, Listed: flags&isListed != 0}
	switch {
	case flags&isShared != 0:
		v.Guarded = MostShare
	case flags&isGuarded != 0:
		v.Guarded = MostNew
	}
	if flags&isNever == 0 {
		v.Until = v.From + c.Number()
	}

	v.Decided = v.From + c.Signed()
	if flags&isEnded != 0 {
		v.Ended = v.From + c.Signed()
	}

	v.Generation = c.Number()
	v.Offset = c.Number()
	v.Count = c.Number()
	v.Level = int(c.Number())
	v.Limit = string(c.Take(c.Number()))
	if flags&isMoved != 0 {
		v.First, v.FirstLevel = v.From+c.Signed(), int(c.Number())
	}

	return v
}

// Over is when the verdict is over.
func (v *Verdict) Over() int64 {
	if v.Ended != 0 {
		return v.Ended
	}
	return v.Until
}

// ComesBack says whether the verdict was ended because its rule was gone, and would last: with the rule it comes back,
// for the window still says that the key is blocked.
func (v *Verdict) ComesBack(now int64) bool { return v.Ended != 0 && !v.Lifted && v.Until > now }

// EndedAt is the verdict, ended unless it was before.
func (v *Verdict) EndedAt(at int64) *Verdict {
	if v == nil || !v.Live(at) {
		return v
	}
	ended := *v
	ended.Ended = at
	return &ended
}
