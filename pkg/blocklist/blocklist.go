// Package blocklist keeps the blocklist: which clients are blocked, by which rule, from when, until when, and why.
//
// A [Set] is the list in memory. Check asks it about a request. It takes no lock and allocates nothing, and an entry
// has ended for it when the given time is past the entry's end. Writers take turns. Records are kept as the bytes in
// which they arrived, in chunks without pointers for the garbage collector, with a table of one word per record over
// them: about 115 bytes a verdict in total. Orders over prefixes are found in a trie (bart). Limits bounds the number
// of records. Records that do not fit are left out, reported and counted. Ended records are forgotten gradually, a few
// thousand at each Apply.
//
// Fill and Swap replace the entire list, Apply adds further records of the log, and Order applies an order before the
// log has it. WriteAfter and Read copy a list to another Set, completely or not at all; docs/blocklist.md has its forms
// byte by byte. Package follow keeps a Set up to date.
//
// # Entries, orders, marks
//
// An [Entry] has two forms. Programs of users read it as JSON, wherever entries are shown. In the topic blocklist it is
// a record: [RecordKey] is the record's key, so the last record of a (rule, key) is the valid one, and [Entry.Append]
// makes the value. [Decode] reads both. A record without a value only states that an entry has long ended: it lets
// Kafka forget the records before it.
//
// # The value
//
// Numbers are varints as encoding/binary writes them: u is unsigned, z is signed (zigzag). A text is its length (u) and
// its bytes. Times are Unix milliseconds.
//
//	version     1 byte   1
//	flags       1 byte   1 the mode is shadow; 2 the source is manual; 4 it has ended; 8 until is never
//	id          text
//	generation  u        of the log of hits, and
//	offset      u        in it, of the hit that decided this: readers keep what was decided by the later one
//	from        z
//	until       u        the difference to from; missing when it is never
//	decided     z        the difference to from
//	ended       z        the difference to from; only when it has ended
//	limit       text
//	count       u
//	level       u
//	by          text
//	why         text
//	fields      u, then each, by their names' order: its name (text) and u, 0 when its value is the record's
//	            whole key, else the value's length plus one and the value
//
// There is one way to write an entry: equal entries are equal bytes. Bytes that no Append has written are refused as
// [ErrDamaged], those of a later version as [ErrNewer]. A key or value longer than [MaxBytes] is refused. Version 1 has
// no checksum: Kafka's batches have theirs. Every later version ends with the xxhash64 of all bytes before it, little
// endian, and is recognised only when that checksum is right. A verdict over one address takes about 60 bytes and its
// key 20.
//
// The package reads no clock and starts no goroutines; its functions, and all methods of a Set, may be called at the
// same time. Readers, Writers and Fillings belong to one goroutine.
//
// Other programs may import this package (docs/go.md).
package blocklist

import "errors"

const (
	// RecordVersion is the first byte of every value that this package writes, and "v" in JSON.
	RecordVersion = 1

	// guardedVersion is the first byte of guarded entries, which end with the xxhash64 of all bytes before it.
	guardedVersion = 2
	// sharedVersion is the first byte of those that are beyond the share of keys.
	sharedVersion = 3
	// MaxBytes is the length of the longest value, and of the longest key of a record.
	MaxBytes = 8 << 10
	// Never is the end of an entry that does not end by itself.
	Never = 1<<63 - 1
)

var (
	// ErrNewer refuses bytes of a version, or records of a kind, that this version does not know.
	ErrNewer = errors.New("written by a newer version of weir")
	// ErrDamaged refuses bytes that no version has written.
	ErrDamaged = errors.New("damaged")
	// ErrEntry refuses an impossible entry.
	ErrEntry = errors.New("not an entry")
)
