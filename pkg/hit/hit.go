// Package hit holds hits, the batches they travel in, and the bytes of both.
//
// A batch is what one cut of one source has for one partition: its hits and commands in their order, and who
// sends them from where to where. A [Writer] makes its bytes, a [Reader] reads them, [Positions] tells which
// batches were counted before, and [Partition] says where a (rule, key) is counted.
//
// # The bytes
//
// Numbers are varints as encoding/binary writes them: u is unsigned, z is signed (zigzag). A text is its
// length (u) and its bytes.
//
//	version      1 byte      1; 2 where hits have values
//	part         u           the part's number in its cut, times two; plus one when more parts follow
//	source       text
//	from         u           position of the cut's first byte or record
//	length       u           to - from
//	clock        z           the collector's clock at the cut, Unix ms
//	fingerprint  text        of the rules that made the hits
//	rules        u, texts    how many; the names of the rules that occur, in the order of their first hit; in version 2
//	                         behind each 8 bytes, little endian: what the values of its hits are of, 0 where they have none
//	pairs        u, pairs    how many; each (rule, key) that occurs, in the order of its first hit or command
//	time         z           of the first item, the difference to the clock, ms; missing when there are no pairs
//	items        items       hits and commands, up to the checksum
//	checksum     8 bytes     xxhash64 of all before it, little endian
//
// A pair is u, the rule's number times eight plus the form of the key, and the key in that form:
//
//	0 as it is      text
//	1 203.0.113.7   4 bytes
//	2 203.0.113.0/24, 3 2001:db8:1::/64
//	                1 byte, the prefix's length in bits; then as many bytes as these bits need, the rest of the last byte zero
//	4 2001:db8::1:2:3:4
//	                16 bytes
//
// A key is packed only when it comes back byte for byte, and only when that makes it shorter.
//
// An item is u, its head, and what the head announces. Bits 0 and 1 of the head tell the time: 0 that of the
// item before, 1 the difference to it in milliseconds (z), 2 the difference in seconds (z). Bit 2: a cost
// follows (u); without it the cost is 1. Bit 3: a command follows: 1 byte, 1 for unblock, and its id (text); a
// command has no cost. Behind all that, a hit of a rule whose hits have values has 8 bytes, little endian: the value. Where
// that hit is the block of a member of a group, its cost is two plus twice the block's id, plus one if it is gone. A
// hit of such a rule with the cost 1 is the share of the requests that the network sent, in millionths. The
// bits above tell the pair: 0 the next one that has not occurred yet, n the n-th
// before that one.
//
// # What holds
//
//   - A batch is at most [MaxBytes] long. A Writer says no before it would be longer.
//   - What a Writer was given is what a Reader gives back, in the same order: except that hits of one (rule,
//     key, millisecond) are one hit with the sum of their costs, where the first of them was. Hits before and
//     after a command for the same pair stay apart, and so do hits with values.
//   - The same calls give the same bytes, in every release that writes the version: a cut that is made again
//     after a crash has the checksum it had.
//   - Every version, later ones too, ends with the checksum of all before it. A version is believed only where the
//     checksum is right: a batch cut short, with any bit changed, or a record that is no batch at all is refused as
//     [ErrDamaged], and only a complete batch of a later version as [ErrNewer]. [Reader.Reset] looks at every byte: who
//     has begun to read a batch can read all of it.
//   - No bytes whatever make a Reader panic, or hold more than 64 times their length.
//   - Once they have grown, Writer and Reader allocate nothing per batch or hit, but the header's texts and
//     rules' names when these are others than in the batch before. A Writer holds at most 16 MiB.
//   - The partition of a (rule, key) never changes.
//
// Writer, Reader and Positions belong to one goroutine each. Nothing here reads a clock, starts a goroutine
// or does I/O.
//
// Other programs may import this package (docs/go.md).
package hit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"
)

const (
	// Version is the first byte of every batch that is written here, but for those with values: theirs is VersionValues.
	Version       = 1
	VersionValues = 2
	// MaxBytes is the length of the longest batch.
	MaxBytes = 256 << 10
	// MaxText is the length in bytes of the longest source and the longest fingerprint.
	MaxText = 480
	// MaxKey is the length in bytes up to which a key, a rule's name and a command's id together always fit a
	// Writer that holds nothing yet.
	MaxKey = 64 << 10
)

const checksumBytes = 8

var (
	// ErrNewer is what bytes of a version that is not known here are refused with.
	ErrNewer = errors.New("written by a newer version of weir")
	// ErrDamaged is what bytes are refused with that no version has written like this.
	ErrDamaged = errors.New("damaged")
	// ErrHeader is what a header is refused with that cannot be that of a batch.
	ErrHeader = errors.New("not a batch's header")
)

// A Header says whose hits a batch carries, and from where to where in its source they were.
type Header struct {
	Source      string // who: the same for ever, another for every incarnation
	From, To    int64  // positions, 0 ≤ From < To: what the cut covers, in this partition and in all others
	Part        int    // counts from 0 the batches of one cut for one partition, where one is not enough
	More        bool   // further parts follow
	Clock       int64  // the collector's, Unix ms; by it is judged whether a time is ahead (Latest)
	Fingerprint string // of the rules
}

// Latest is the newest time, Unix ms, that a hit of a batch may have. It is ahead of the collector's clock by ahead at most.
// A record that the log got at an earlier time shows that this clock was wrong: hits that are ahead of the record by more than
// late would make those late that come after it. Both times stand in the log, so all that read it judge alike.
func (h *Header) Latest(record time.Time, ahead, late time.Duration) int64 {
	return min(h.Clock+ahead.Milliseconds(), record.UnixMilli()+max(ahead, late).Milliseconds())
}

// A Pair is a rule and a key. Key is valid until the Reader's next Reset.
type Pair struct {
	Rule int // index in Reader.Rules
	Key  []byte
}

// An Item is a hit, or the command to forget the window and the level of a pair; see [Reader.Unblock].
type Item struct {
	UnixMilli int64
	Cost      int64 // at least 1 in a hit, 0 in a command
	Pair      int32 // index in Reader.Pairs; pairs are numbered in the order in which they first occur
	rest      int32 // index of a command's id, or of a hit's value
}

// unblock is the command that there is.
const unblock = 1

// Checksum returns the checksum that a sound batch carries. Of one source, two batches with the same To and
// Part and another checksum contradict each other.
func Checksum(record []byte) uint64 {
	if len(record) < checksumBytes {
		return 0
	}
	return binary.LittleEndian.Uint64(record[len(record)-checksumBytes:])
}

// seal appends the checksum of b[start:].
func seal(b []byte, start int) []byte {
	return binary.LittleEndian.AppendUint64(b, xxhash.Sum64(b[start:]))
}

// unseal returns what stands between the version, newest at most, and the checksum.
func unseal(b []byte, newest byte) ([]byte, error) {
	switch {
	case len(b) == 0:
		return nil, fmt.Errorf("%w: no bytes", ErrDamaged)
	case !Sealed(b):
		return nil, fmt.Errorf("%w: %d bytes that begin with %d and do not end with their checksum", ErrDamaged, len(b), b[0])
	case b[0] > newest:
		return nil, fmt.Errorf("%w: the bytes are of version %d, this program reads up to %d", ErrNewer, b[0], newest)
	case b[0] < Version:
		return nil, fmt.Errorf("%w: %d bytes that begin with %d", ErrDamaged, len(b), b[0])
	}
	return b[1 : len(b)-checksumBytes], nil
}

// Sealed says whether bytes, of whatever version, end with the checksum of all before it.
func Sealed(b []byte) bool {
	end := len(b) - checksumBytes
	return end > 0 && xxhash.Sum64(b[:end]) == Checksum(b)
}

func (h Header) validate() error {
	switch {
	case len(h.Source) > MaxText:
		return fmt.Errorf("%w: the source has %d bytes, at most %d are possible", ErrHeader, len(h.Source), MaxText)
	case len(h.Fingerprint) > MaxText:
		return fmt.Errorf("%w: the fingerprint has %d bytes, at most %d are possible", ErrHeader, len(h.Fingerprint), MaxText)
	case h.From < 0 || h.To <= h.From:
		return fmt.Errorf("%w: from %d to %d", ErrHeader, h.From, h.To)
	case h.Part < 0 || h.Part > maxPart:
		return fmt.Errorf("%w: part %d", ErrHeader, h.Part)
	}
	return nil
}

// maxPart is far above what any cut has, and small enough to be doubled everywhere.
const maxPart = 1 << 20

func (h Header) append(b []byte) []byte {
	b = binary.AppendUvarint(b, partNumber(h.Part, h.More))
	b = appendText(b, h.Source)
	b = binary.AppendUvarint(b, uint64(h.From))
	b = binary.AppendUvarint(b, uint64(h.To-h.From))
	b = binary.AppendVarint(b, h.Clock)
	return appendText(b, h.Fingerprint)
}

func partNumber(part int, more bool) uint64 {
	if more {
		return uint64(part)<<1 | 1
	}
	return uint64(part) << 1
}

func appendText[T ~string | ~[]byte](b []byte, text T) []byte {
	b = binary.AppendUvarint(b, uint64(len(text)))
	return append(b, text...)
}
