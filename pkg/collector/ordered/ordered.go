// Package ordered is the source of logs that a server keeps in an order, such as the streams of Redis and NATS: each
// entry has a place after those of all entries before it. How far a log is read is in the collector's journal, as with
// files. A batch boundary is in the journal before it is sent, so each entry counts once.
//
// The package knows places, and what the journal has of them. A Log knows its server. The source writes nothing there.
//
// Bounds. Of each log, at most two pages are in memory, besides what a stream has in flight.
//
// Run starts one goroutine for each log, which reads, and one that asks the server for the next page meanwhile.
package ordered

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Log is one log of a server. Its methods, besides String, are called by one goroutine at a time.
type Log interface {
	fmt.Stringer // its name in the status

	// Extent looks at the present log. was is how far it was read; nil when nothing is known. The error is ErrMissing
	// where there is no such log.
	Extent(ctx context.Context, was *Known) (Extent, error)

	// Since returns the place before the first entry that is not older than a time.
	Since(ctx context.Context, at time.Time) (Place, error)

	// Read returns the entries after a place. It waits up to a second for the first one, and returns an empty page when
	// none came. The error is ErrOther where the log may not be the one that Extent has seen. The entries are valid
	// until the page after the next is asked for.
	Read(ctx context.Context, after Place) (Page, error)

	// Close closes the connections. It is called last. After ErrEnded, Kafka has the hits of all that was read.
	Close()
}

// An Identified log knows its identity, as Extent has it, when it is listed. So one that has ended differs from another
// one of its name.
type Identified interface{ Identity() string }

// An Acknowledged log gives its entries again that were not acknowledged. It needs no places to do so.
type Acknowledged interface {
	// Acknowledge is called when Kafka has the hits of all entries up to a position, in the order of positions. It may be
	// called while another method runs.
	Acknowledge(position int64)
}

var (
	// ErrMissing means that the server has no such log.
	ErrMissing = errors.New("it does not exist; it is read once it exists")

	// ErrOther means that the log has to be looked at again, because it may be another one.
	ErrOther = errors.New("the log may be another one")

	// ErrLater means, of Extent, that another log has to be read to its end first.
	ErrLater = errors.New("another log comes first")

	// ErrEnded means that nothing follows, ever. The log is not read again.
	ErrEnded = errors.New("the log has ended")
)

// LongestEntry is the longest line or record that is read, in bytes.
const LongestEntry = 16 << 20

// A Place is the place after an entry.
type Place struct {
	Position int64  // it grows with each entry
	ID       string // by which the server finds the place; the Log's own
}

// A Known is how far a log was read.
type Known struct {
	Identity string
	Place
}

// An Extent describes a log.
type Extent struct {
	Identity    string // of this log, and of no other of its name; empty where the server has none
	First, Last Place  // before the first and after the last entry

	// Other is why the log is not the one that was read, in words; empty when it is. Begin is where reading begins then.
	Other string
	Begin Place
}

// A Page is some entries of a log, one after the other.
type Page struct {
	Entries []Entry
	Start   int64 // the position before them, if it is after the place that was asked for
	Lost    int64 // entries up to there that were deleted before they were read
	Waiting int64 // entries that follow, or objects
	Again   int64 // entries that the server has given before, to us or to another reader

	Missed int64  // objects that are not read, or not to their end
	Why    string // in words, where there are any

	Remarks string // what else a person should know, in words
	Trouble error  // why some objects cannot be read now, while others are
}

// An Entry is one entry of a log.
type Entry struct {
	Value []byte
	Long  bool // it has more than LongestEntry, and Value is its beginning
	After Place
}
