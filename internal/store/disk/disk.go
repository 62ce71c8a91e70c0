// Package disk keeps the cold set in a folder of this machine, in a log-structured merge tree (pebble).
//
// # The keys
//
//	4 bytes of the partition, big endian; 0                  the fence
//	4 bytes of the partition; the space's number; the key    a value
//	ff ff ff ff; the name                                    an agreed value
//
// # What holds
//
// Open locks the folder for one process. A write is on the disk a second after it returned, or earlier after a Sync. A
// kill or a loss of power may lose younger writes; afterwards the store has the state of some moment before.
//
// The store uses about Options.MemoryBytes for writes and reads. Part of that are filters, 10 bits a key, which
// recognise most missing keys without a search: where they find no room, a miss costs as much as a hit. Nothing expires
// by itself.
//
// A disk that is full, broken or out of descriptors never ends the process. The first error ends the opening, as a kill
// at that moment would. Calls then return ErrBroken at once, and the folder is opened again as soon as it can be
// written; a deleted folder is created again. The store then has the state of some earlier fence, and the next call of
// an owner notices that. A disk that hangs blocks no call beyond its context, and at most 64 goroutines.
//
// Open starts three goroutines, and one for each call; Close ends them, and waits for them for at most 15 s.
package disk

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/internal/store"
)

// ErrBroken reports that the disk fails now, or that the folder cannot be opened because of that or because its
// contents are damaged. It passes when the disk works again, or the folder has been moved away.
var ErrBroken = errors.New("the disk has failed")

// Options name the folder and bound the memory.
type Options struct {
	Folder      string
	MemoryBytes int64        // for writes and reads; 64 MiB unless given
	Log         *slog.Logger // nil logs nothing

	fs vfs.FS // nil: the operating system's
}

// A Store is a cold set in a folder.
type Store struct {
	options Options
	real    bool // the folder is in the operating system's file system
	log     *slog.Logger
	current atomic.Pointer[opening] // nil while the disk fails
	reason  atomic.Pointer[error]   // the reason when current is nil
	lock    os.FileInfo             // of the file that locks the folder; nil when unknown. Used only by keep

	givenUp  sync.WaitGroup // openings that are being closed
	unclosed atomic.Int64   // how many of these there are
	written  chan struct{}  // holds one when there is something to sync
	closing  context.Context
	close    context.CancelFunc
	running  sync.WaitGroup
}

var _ store.Store = (*Store)(nil)

// The layout that the package comment describes.
const layout = "1"

// Open opens the folder, and creates a missing one for its owner alone: keys are addresses and names. After ErrBroken
// it may be called again.
func Open(ctx context.Context, o Options) (*Store, error) {
	s := &Store{real: o.fs == nil, log: o.Log, written: make(chan struct{}, 1)}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}

	o.Log = s.log
	if o.MemoryBytes == 0 {
		o.MemoryBytes = 64 << 20
	}

	if s.real {
		o.fs = vfs.Default
		if err := os.MkdirAll(o.Folder, 0o700); err != nil {
			return nil, fmt.Errorf("opening the store: %w", err)
		}
	}

	s.options = o

	// The first opening is the caller's matter: only a store that has once worked is opened again by itself.
	in, err := openOnce(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("opening the store in %s: %w", o.Folder, err)
	}

	s.rememberFolder()
	s.current.Store(in)
	s.closing, s.close = context.WithCancel(context.Background())
	s.running.Go(s.syncBehind)
	s.running.Go(func() { s.keep(in) })
	return s, nil
}

// Close closes the folder. All writes are synced, unless the disk fails: then the error is ErrBroken.
func (s *Store) Close() error {
	s.close()

	// keep has ended, so no further opening can begin, and the last one is final.
	s.running.Wait()
	last := s.current.Load()

	// A disk that hangs must not block Close: the goroutine stays behind, and the guard ends the opening.
	closed := make(chan error, 1)
	go func() {
		s.givenUp.Wait()
		if last == nil {
			closed <- s.broken()
			return
		}
		s.set(errClosed)
		s.current.Store(nil)
		closed <- last.close()
	}()

	select {
	case err := <-closed:
		if err != nil {
			return fmt.Errorf("closing the store: %w", err)
		}
		return nil
	case <-time.After(closePatience):
		if last != nil {
			last.guard.fail(errHangs)
		}
		return fmt.Errorf("closing the store: %w: %w", ErrBroken, errHangs)
	}
}

var (
	errClosed = errors.New("the store is closed")
	errHangs  = errors.New("the disk does not answer")
)

// Fault returns why the store cannot be used now, or nil.
func (s *Store) Fault() error {
	if s.current.Load() != nil {
		return nil
	}
	return s.broken()
}

// set records why nothing is open.
func (s *Store) set(why error) { s.reason.Store(&why) }

func (s *Store) broken() error {
	if why := s.reason.Load(); why != nil {
		return *why
	}
	return ErrBroken
}

// with calls do with the current opening, and names the operation in its errors.
func with[T any](ctx context.Context, s *Store, what string, do func(*opening) (T, error)) (value T, err error) {
	if in := s.current.Load(); in != nil {
		value, err = call(ctx, in, func() (T, error) { return do(in) })
	} else if err = ctx.Err(); err == nil {
		err = s.broken()
	}
	if err != nil {
		return value, fmt.Errorf("%s on disk: %w", what, err)
	}
	return value, nil
}

// Agree gives a name a value unless it has one, and returns the one that it has.
func (s *Store) Agree(ctx context.Context, name string, value []byte) ([]byte, error) {
	value = append([]byte{}, value...)
	return with(ctx, s, "agreeing on "+name, func(in *opening) ([]byte, error) { return in.agreeOn(name, value) })
}

func (in *opening) agreeOn(name string, value []byte) ([]byte, error) {
	key := append([]byte{0xff, 0xff, 0xff, 0xff}, name...)
	in.agreeing.Lock()
	defer in.agreeing.Unlock()
	if found, err := get(in.db, key); err != nil || found != nil {
		return found, err
	}
	return append([]byte{}, value...), in.db.Set(key, value, pebble.Sync)
}

// Take makes the caller the owner of a partition.
func (s *Store) Take(ctx context.Context, partition int) (store.Fence, error) {
	return with(ctx, s, fmt.Sprintf("taking partition %d", partition), func(in *opening) (fence store.Fence, err error) {
		lock := in.partition(partition)
		lock.Lock()
		defer lock.Unlock()
		// The caller may have given up while this waited for the lock. A fence that it does not know of would make it a
		// stranger to its own partition.
		if err := ctx.Err(); err != nil {
			return fence, err
		}
		held, err := fenceOf(in.db, partition)
		if err != nil {
			return fence, err
		}
		fence = held.Taken()
		return fence, in.db.Set(fenceKey(partition), []byte(fence.String()), pebble.Sync)
	})
}

// Write applies all changes, or none.
func (s *Store) Write(ctx context.Context, partition int, fence store.Fence, changes []store.Change) (store.Fence, error) {
	what := fmt.Sprintf("writing %d changes of partition %d", len(changes), partition)
	next := fence.Next()
	encoded := encode(partition, next, changes) // now: the caller may change them after it stops waiting
	return with(ctx, s, what, func(in *opening) (store.Fence, error) {
		lock := in.partition(partition)
		lock.Lock()
		defer lock.Unlock()
		if err := ctx.Err(); err != nil {
			return store.Fence{}, err
		}
		found, err := fenceOf(in.db, partition)
		if err != nil {
			return found, err
		}

		// Compared under the partition's lock: between this and apply no one else can write.
		if found != fence || fence == (store.Fence{}) {
			return found, fmt.Errorf("as %v, found %v: %w", fence, found, store.ErrFenced)
		}
		return next, s.apply(in, encoded)
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

func (s *Store) apply(in *opening, bytes []byte) error {
	batch := in.db.NewBatch()
	defer batch.Close()
	if err := batch.SetRepr(bytes); err != nil {
		return err
	}

	// Without a sync: a crash may lose the last second, and the fence of the last write tells the owner so.
	if err := batch.Commit(pebble.NoSync); err != nil {
		return err
	}

	select {
	case s.written <- struct{}{}:
	default: // a sync is already pending
	}
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
	r, err := with(ctx, s, what, func(in *opening) (r readResult, err error) {
		// The lock makes the values and the fence belong to one moment.
		lock := in.partition(partition)
		lock.RLock()
		defer lock.RUnlock()
		if r.fence, err = fenceOf(in.db, partition); err != nil {
			return r, err
		}
		iterator, err := in.db.NewIter(&pebble.IterOptions{
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
	return with(ctx, s, fmt.Sprintf("scanning partition %d", partition), func(in *opening) (page store.Page, err error) {
		lock := in.partition(partition)
		lock.RLock()
		defer lock.RUnlock()
		if page.Fence, err = fenceOf(in.db, partition); err != nil {
			return page, err
		}
		iterator, err := in.db.NewIter(&pebble.IterOptions{
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
	text, err := get(from, fenceKey(partition))
	if err != nil {
		return store.Fence{}, err
	}
	return store.ParseFence(string(text))
}

// get returns a copy of a value, nil when there is none.
func get(from pebble.Reader, key []byte) ([]byte, error) {
	value, closer, err := from.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return append([]byte{}, value...), closer.Close()
}

// keyStart is where a key of the store begins in a key of pebble.
const keyStart = 5

func fenceKey(partition int) []byte { return appendKey(nil, partition, 0, nil) }

func appendKey(b []byte, partition int, space store.Space, key []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(partition))
	return append(append(b, byte(space)), key...)
}
