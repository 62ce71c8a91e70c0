// Package store is the cold set: the interface to the data that partitions keep beyond the memory of the process that
// owns them.
//
// A store keeps, for each partition, values by key in a few spaces, and the partition's fence. Values are plain bytes:
// their meaning, age and checksums belong to the caller. The implementations are in redis and disk; storetest has the
// tests for both.
//
// # The fence
//
// An owner takes its partition: [Store.Take] sets the partition's [Fence] to a new epoch. Every write names the fence
// that its caller got last. The store does the complete write and counts the fence up by one. When it finds another
// fence, it writes nothing and returns [ErrFenced]. Every read also returns the fence, from the same instant as the
// values. So a former owner can neither write nor continue unnoticed, and neither can an owner whose store went back to
// an earlier state.
//
// After an error that is not ErrFenced a write was done or not: the fence of the next call shows which.
//
// # What holds
//
//   - A write is there completely or not at all, for readers, and after a kill or a loss of power too. When these lose
//     anything, it is the latest writes of a partition: the store then has the state of some earlier fence.
//   - Writes before a returned [Store.Sync] are not lost, as far as the store can ensure it (see the implementations).
//   - Spaces, partitions and names do not see each other.
//   - Arguments may be changed after a call has returned. Results belong to the caller.
//   - All methods may be called from several goroutines. Each blocks until it is done, its context ends or the
//     implementation's time-out has passed; none retries a write.
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

// ErrFenced reports that the fence is not the named one: another owner has taken the partition, or the store has lost
// writes. Nothing was written. The present owner must take the partition again.
var ErrFenced = errors.New("the partition's fence is not the one that was last written")

// ErrForeign reports that a store has data which this version does not know.
var ErrForeign = errors.New("the store was written by another version of weir")

// A Space is one of the sets of keys of a partition. Spaces are made for different numbers of keys; any number works.
type Space uint8

const (
	Windows Space = iota + 1 // one per (rule, key): very many
	Index                    // some of those: few, and all read at once
	Notes                    // a handful
)

// Spaces are all spaces.
var Spaces = []Space{Windows, Index, Notes}

// A Change sets the value of a key; a nil value deletes the key.
type Change struct {
	Space Space
	Key   []byte
	Value []byte
}

// A Pair is a key and its value.
type Pair struct{ Key, Value []byte }

// A Cursor is the place where a scan continues; the empty one is the beginning, and the end.
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

	// Write applies all changes, of one key the last, and returns the fence to name next. When it finds another fence
	// than the named one it returns that, and ErrFenced.
	Write(ctx context.Context, partition int, fence Fence, changes []Change) (Fence, error)

	// Read returns the values of keys, nil for those that have none.
	Read(ctx context.Context, partition int, space Space, keys [][]byte) ([][]byte, Fence, error)

	// Scan returns some of the keys of a space and where to continue, in the store's own order. A page has about that
	// many pairs, or some thousands more when they lie together, or fewer. A key that is there from the first page to the
	// last comes exactly once, except that one of very many that lie together may come again.
	Scan(ctx context.Context, partition int, space Space, from Cursor, pairs int) (Page, error)

	// Sync returns when all earlier writes are as safe as the store can make them.
	Sync(ctx context.Context) error

	// Close ends everything that Open began. No other call may be running.
	Close() error
}
