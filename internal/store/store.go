// Package store is the cold set: the interface to what partitions remember beyond the memory of the process
// that owns them.
//
// A store keeps, for each partition, values by key in a few spaces, and the partition's fence. Bytes go in and
// bytes come out: what is in them, their age and their checksums are the caller's. The implementations are in
// redis and disk; storetest holds what both must do.
//
// # The fence
//
// Who owns a partition says so by taking it: [Store.Take] sets its [Fence] to an epoch of its own. Every write
// names the fence that its caller was last told, and is done wholly, with the fence counted up by one, or,
// where another fence is found, not at all, with [ErrFenced]. Every read tells the fence as well, from the
// same instant as the values. So a former owner can neither write nor go on without noticing, and neither can
// one whose store went back to an earlier state.
//
// After an error that is not ErrFenced a write was done or not: the next call tells, by the fence it finds.
//
// # What holds
//
//   - A write is there wholly or not at all, for readers, and after a kill or a loss of power too. What is lost
//     to those, where it can be, are the latest writes of a partition: what is found is what was there at
//     some earlier fence.
//   - What [Store.Sync] has returned after is not lost, as far as the store can tell (see the implementations).
//   - Spaces, partitions and names do not see each other.
//   - Arguments may be changed after a call has returned. What is returned belongs to the caller.
//   - All methods may be called from several goroutines. Each blocks until it is done, its context ends or
//     the implementation's time-out has passed; none retries a write.
//
// Keys are not empty, and at most [MaxKey] bytes; values at most [MaxValue]; a call names at most [MaxKeys] keys.
package store

import (
	"context"
	"errors"
)

const (
	MaxKey   = 8 << 10
	MaxValue = 8 << 20
	MaxKeys  = 10_000
)

// ErrFenced says that the fence found is not the one named: another owner has taken the partition, or the
// store has lost writes. Nothing was written. The partition must be taken anew, by whoever is to own it now.
var ErrFenced = errors.New("the partition's fence is not the one that was last written")

// ErrForeign says that a store holds what this version does not know.
var ErrForeign = errors.New("the store was written by another version of weir")

// A Space is one of the sets of keys that a partition has. Spaces differ in how many keys they are made for;
// any number works.
type Space uint8

const (
	Windows Space = iota + 1 // one per (rule, key): very many
	Index                    // some of those: few, and read all at once
	Notes                    // a handful
)

// Spaces are all there are.
var Spaces = []Space{Windows, Index, Notes}

// A Change sets the value of a key, or, where that is nil, deletes it.
type Change struct {
	Space Space
	Key   []byte
	Value []byte
}

// A Pair is a key and its value.
type Pair struct{ Key, Value []byte }

// A Cursor says where a scan goes on; the empty one is the beginning, and the end.
type Cursor string

// A Page is a part of a scan.
type Page struct {
	Pairs []Pair
	Next  Cursor // empty when this was the last page
	Fence Fence
}

// A Store is a cold set.
type Store interface {
	// Agree gives a name a value unless it has one, and returns the one that it has.
	Agree(ctx context.Context, name string, value []byte) ([]byte, error)

	// Take makes the caller the owner of a partition, and returns its fence.
	Take(ctx context.Context, partition int) (Fence, error)

	// Write does all changes, of one key the last, and returns the fence that is to be named next. When the
	// fence is not the one found it returns that, and ErrFenced.
	Write(ctx context.Context, partition int, fence Fence, changes []Change) (Fence, error)

	// Read returns the values of keys, nil for those that have none.
	Read(ctx context.Context, partition int, space Space, keys [][]byte) ([][]byte, Fence, error)

	// Scan returns some of the keys of a space and where to go on, in an order of the store's own. A page has
	// about so many pairs, or more where they lie together, or fewer. A key that is there from the first page
	// to the last comes exactly once.
	Scan(ctx context.Context, partition int, space Space, from Cursor, pairs int) (Page, error)

	// Sync returns when what was written before is as safe as the store can make it.
	Sync(ctx context.Context) error

	// Close ends what Open began. No other call may be under way.
	Close() error
}
