// Package blocklist holds the blocklist: who is blocked by which rule, from when, until when, and why.
//
// A [Set] is the list in memory. Check asks it about a request: it takes no lock, allocates nothing, and sees an entry
// end by the time it is given. Writers take turns. Records are kept as the bytes that they came as, in chunks that the
// garbage collector does not look into, with a table of one word a record over them: about 115 bytes a verdict, all in.
// Orders over prefixes are found in a trie (bart). Limits bounds how many records are held; what does not fit is
// left out, told and counted. What has ended is forgotten by and by, a few thousand records at each Apply.
//
// Fill and Swap replace a list as a whole, Apply takes further records of the log, Order puts an order in force before
// the log has it. WriteAfter and Read bring a list over to another Set, whole or not at all; docs/blocklist.md has its
// forms byte by byte. Package follow keeps a Set up to date.
//
// # Entries, orders, marks
//
// An [Entry] has two forms. As JSON it is what people's programs read, everywhere where entries are shown. In the
// topic blocklist it is a record: [RecordKey] is the record's key, so that the last record of a (rule, key) is what
// holds of it, and [Entry.Append] makes the value. [Decode] reads both. A record without a value says nothing more
// than that an entry has long ended: it lets Kafka forget the ones before it.
//
// # The value
//
// Numbers are varints as encoding/binary writes them: u is unsigned, z is signed (zigzag). A text is its length (u)
// and its bytes. Times are Unix milliseconds.
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
// There is one way to write an entry: equal entries are equal bytes, and bytes that no Append has written are refused
// as [ErrDamaged], those of a later version as [ErrNewer]. Nothing is kept of bytes longer than [MaxBytes]. Version 1 has
// no checksum: Kafka's batches have theirs. Every later version ends with the xxhash64 of all before it, little endian,
// and is believed to be one only where that is right. A verdict over one address takes about 60 bytes and its key 20.
//
// The package reads no clock and starts no goroutines; its functions, and all methods of a Set, may be called at the
// same time. Readers, Writers and Fillings belong to one goroutine.
package blocklist

import "errors"

const (
	// RecordVersion is the first byte of every value that is written here, and "v" in JSON.
	RecordVersion = 1
	// MaxBytes is the length of the longest value, and of the longest key of a record.
	MaxBytes = 8 << 10
	// Never is the time until which an entry lasts that does not end by itself.
	Never = 1<<63 - 1
)

var (
	// ErrNewer is what bytes of a version, or records of a kind, are refused with that are not known here.
	ErrNewer = errors.New("written by a newer version of weir")
	// ErrDamaged is what bytes are refused with that no version has written like this.
	ErrDamaged = errors.New("damaged")
	// ErrEntry is what an entry is refused with that cannot be.
	ErrEntry = errors.New("not an entry")
)
