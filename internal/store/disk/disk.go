// Package disk keeps the cold set in a folder of this machine, in a log-structured merge tree (package database, which
// says what happens when the disk fails).
//
// # The keys
//
//	4 bytes of the partition, big endian; 0                  the fence
//	4 bytes of the partition; the space's number; the key    a value
//	ff ff ff ff; the name                                    an agreed value
//
// Others may keep keys that begin with fe in the same database.
//
// # What holds
//
// Open locks the folder for one process. A write is on the disk a second after it returned, or earlier after a Sync. A
// kill or a loss of power may lose younger writes; afterwards the store has the state of some moment before. After a
// failure of the disk the folder is opened again, and the store then has the state of some earlier fence: the next call
// of an owner notices that.
package disk

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/internal/database"
	"weir/internal/store"
)

// ErrBroken reports that the disk fails now, or that the folder cannot be opened because of that or because its
// contents are damaged. It passes when the disk works again, or the folder has been moved away.
var ErrBroken = database.ErrBroken

// Options name the folder and bound the memory.
type Options struct {
	Folder      string
	MemoryBytes int64        // for writes and reads; 64 MiB unless given
	Log         *slog.Logger // nil logs nothing

	fs vfs.FS // nil: the operating system's
}

// A Store is a cold set in a folder.
type Store struct {
	database *database.DB
	shared   bool // with others, who close it

	mu      sync.Mutex
	current *locks
}

// locks belong to one opening of the database: a call of a former one may hang with its lock.
type locks struct {
	of         *pebble.DB
	agreeing   sync.Mutex
	mu         sync.Mutex
	partitions map[int]*sync.RWMutex // each guards a partition's fence and its check
}

var _ store.Store = (*Store)(nil)

// The layout that the package comment describes.
const layout = "1"

// Open opens the folder, and creates a missing one for its owner alone: keys are addresses and names. After ErrBroken
// it may be called again.
func Open(ctx context.Context, o Options) (*Store, error) {
	opened, err := database.Open(ctx, database.Options{Folder: o.Folder, MemoryBytes: o.MemoryBytes, Log: o.Log, Check: Check, FS: o.fs})
	if err != nil {
		return nil, err
	}
	return &Store{database: opened}, nil
}

// On returns the store of a database that was opened with Check. Its caller closes the database, after the store.
func On(opened *database.DB) *Store { return &Store{database: opened, shared: true} }

// Check checks the layout of a database, or writes it into a new one.
func Check(db *pebble.DB) error {
	found, err := agreeOn(db, "layout", []byte(layout))
	if err == nil && string(found) != layout {
		err = fmt.Errorf("%w: its layout is %.100q, this version knows %q", store.ErrForeign, found, layout)
	}
	return err
}

// Close closes the folder. All writes are synced, unless the disk fails: then the error is ErrBroken.
func (s *Store) Close() error {
	if s.shared {
		return nil
	}
	return s.database.Close()
}

// Fault returns why the store cannot be used now, or nil.
func (s *Store) Fault() error { return s.database.Fault() }

// Sync returns when all earlier writes are on the disk.
func (s *Store) Sync(ctx context.Context) error {
	if err := s.database.Sync(ctx); err != nil {
		return fmt.Errorf("syncing the store on disk: %w", err)
	}
	return nil
}

// with calls do with the current opening, and names the operation in its errors.
func with[T any](ctx context.Context, s *Store, what string, do func(*pebble.DB, *locks) (T, error)) (value T, err error) {
	value, err = database.Do(ctx, s.database, func(db *pebble.DB) (T, error) { return do(db, s.locks(db)) })
	if err != nil {
		return value, fmt.Errorf("%s on disk: %w", what, err)
	}
	return value, nil
}

// locks returns the locks of an opening.
func (s *Store) locks(db *pebble.DB) *locks {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil && s.current.of == db {
		return s.current
	}
	next := &locks{of: db, partitions: map[int]*sync.RWMutex{}}

	// A late call of a former opening changes nothing any more, and must not replace the locks of this one.
	if s.database.Uses(db) {
		s.current = next
	}
	return next
}

// partition returns the lock of a partition.
func (l *locks) partition(n int) *sync.RWMutex {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.partitions[n] == nil {
		l.partitions[n] = new(sync.RWMutex)
	}
	return l.partitions[n]
}

// Agree gives a name a value unless it has one, and returns the one that it has.
func (s *Store) Agree(ctx context.Context, name string, value []byte) ([]byte, error) {
	value = append([]byte{}, value...)
	return with(ctx, s, "agreeing on "+name, func(db *pebble.DB, locks *locks) ([]byte, error) {
		locks.agreeing.Lock()
		defer locks.agreeing.Unlock()
		return agreeOn(db, name, value)
	})
}

func agreeOn(db *pebble.DB, name string, value []byte) ([]byte, error) {
	key := append([]byte{0xff, 0xff, 0xff, 0xff}, name...)
	if found, err := database.Get(db, key); err != nil || found != nil {
		return found, err
	}
	return append([]byte{}, value...), db.Set(key, value, pebble.Sync)
}

// Take makes the caller the owner of a partition.
func (s *Store) Take(ctx context.Context, partition int) (store.Fence, error) {
	return with(ctx, s, fmt.Sprintf("taking partition %d", partition), func(db *pebble.DB, locks *locks) (fence store.Fence, err error) {
		lock := locks.partition(partition)
		lock.Lock()
		defer lock.Unlock()
		// The caller may have given up while this waited for the lock. A fence that it does not know of would make it a
		// stranger to its own partition.
		if err := ctx.Err(); err != nil {
			return fence, err
		}
		held, err := fenceOf(db, partition)
		if err != nil {
			return fence, err
		}
		fence = held.Taken()
		return fence, db.Set(fenceKey(partition), []byte(fence.String()), pebble.Sync)
	})
}

// Write applies all changes, or none.
func (s *Store) Write(ctx context.Context, partition int, fence store.Fence, changes []store.Change) (store.Fence, error) {
	what := fmt.Sprintf("writing %d changes of partition %d", len(changes), partition)
	next := fence.Next()
	encoded := encode(partition, next, changes) // now: the caller may change them after it stops waiting
	return with(ctx, s, what, func(db *pebble.DB, locks *locks) (store.Fence, error) {
		lock := locks.partition(partition)
		lock.Lock()
		defer lock.Unlock()
		if err := ctx.Err(); err != nil {
			return store.Fence{}, err
		}
		found, err := fenceOf(db, partition)
		if err != nil {
			return found, err
		}

		// Compared under the partition's lock: between this and apply no one else can write.
		if found != fence || fence == (store.Fence{}) {
			return found, fmt.Errorf("as %v, found %v: %w", fence, found, store.ErrFenced)
		}
		return next, s.apply(db, encoded)
	})
}

// encode makes the bytes of a batch for pebble.
func encode(partition int, fence store.Fence, changes []store.Change) []byte {
	var batch pebble.Batch
	var key []byte
	for _, c := range changes {
		key = appendKey(key[:0], partition, c.Space, c.Key)
		if c.Value == nil {
			_ = batch.Delete(key, nil) // in memory: it cannot fail
			continue
		}
		_ = batch.Set(key, c.Value, nil)
	}
	_ = batch.Set(fenceKey(partition), []byte(fence.String()), nil)
	return batch.Repr()
}

func (s *Store) apply(db *pebble.DB, bytes []byte) error {
	batch := db.NewBatch()
	defer batch.Close()
	if err := batch.SetRepr(bytes); err != nil {
		return err
	}

	// Without a sync: a crash may lose the last second, and the fence of the last write tells the owner so.
	if err := batch.Commit(pebble.NoSync); err != nil {
		return err
	}

	s.database.Written()
	return nil
}

// A readResult is the result of a read.
type readResult struct {
	values [][]byte
	fence  store.Fence
}

// Read returns the values of keys, and the fence.
func (s *Store) Read(ctx context.Context, partition int, space store.Space, keys [][]byte) ([][]byte, store.Fence, error) {
	full := make([][]byte, len(keys))
	for n, key := range keys {
		full[n] = appendKey(nil, partition, space, key)
	}

	what := fmt.Sprintf("reading %d keys of partition %d", len(keys), partition)
	r, err := with(ctx, s, what, func(db *pebble.DB, locks *locks) (r readResult, err error) {
		// The lock makes the values and the fence belong to one moment.
		lock := locks.partition(partition)
		lock.RLock()
		defer lock.RUnlock()
		if r.fence, err = fenceOf(db, partition); err != nil {
			return r, err
		}
		iterator, err := db.NewIter(&pebble.IterOptions{
			LowerBound: appendKey(nil, partition, space, nil),
			UpperBound: appendKey(nil, partition, space+1, nil),
			// Most keys that are looked up and not hot are new: the filters spare the disk for those.
			UseL6Filters: true,
		})
		if err != nil {
			return r, err
		}
		r.values, err = seek(iterator, full)
		return r, errors.Join(err, iterator.Close())
	})

	return r.values, r.fence, err
}

func seek(iterator *pebble.Iterator, keys [][]byte) ([][]byte, error) {
	values := make([][]byte, len(keys))
	for n, key := range keys {
		if iterator.SeekPrefixGE(key) && bytes.Equal(iterator.Key(), key) {
			values[n] = append([]byte{}, iterator.Value()...)
		}
		if err := iterator.Error(); err != nil {
			return nil, err // the next seek would forget it
		}
	}
	return values, nil
}

// Scan returns the next keys in their order. A cursor is the key it begins with.
func (s *Store) Scan(ctx context.Context, partition int, space store.Space, from store.Cursor, pairs int) (store.Page, error) {
	return with(ctx, s, fmt.Sprintf("scanning partition %d", partition), func(db *pebble.DB, locks *locks) (page store.Page, err error) {
		lock := locks.partition(partition)
		lock.RLock()
		defer lock.RUnlock()
		if page.Fence, err = fenceOf(db, partition); err != nil {
			return page, err
		}
		iterator, err := db.NewIter(&pebble.IterOptions{
			LowerBound: appendKey(nil, partition, space, []byte(from)),
			UpperBound: appendKey(nil, partition, space+1, nil),
		})
		if err != nil {
			return page, err
		}
		collect(iterator, &page, pairs)
		return page, iterator.Close()
	})
}

func collect(iterator *pebble.Iterator, page *store.Page, pairs int) {
	for ok := iterator.First(); ok; ok = iterator.Next() {
		key := bytes.Clone(iterator.Key()[keyStart:])
		if len(page.Pairs) >= max(1, pairs) {
			page.Next = store.Cursor(key)
			return
		}
		page.Pairs = append(page.Pairs, store.Pair{Key: key, Value: append([]byte{}, iterator.Value()...)})
	}
}

// fenceOf returns the fence of a partition.
func fenceOf(from pebble.Reader, partition int) (store.Fence, error) {
	text, err := database.Get(from, fenceKey(partition))
	if err != nil {
		return store.Fence{}, err
	}
	return store.ParseFence(string(text))
}

// keyStart is where a key of the store begins in a key of pebble.
const keyStart = 5

func fenceKey(partition int) []byte { return appendKey(nil, partition, 0, nil) }

func appendKey(b []byte, partition int, space store.Space, key []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(partition))
	return append(append(b, byte(space)), key...)
}
