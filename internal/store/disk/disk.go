// Package disk keeps the cold set in a folder of this machine, in a log-structured merge tree (pebble).
//
// # The keys
//
//	4 bytes of the partition, big endian; 0                  the fence
//	4 bytes of the partition; the space's number; the key    a value
//	ff ff ff ff; the name                                    what was agreed on
//
// # What holds
//
// Open locks the folder: one process has it. A write is on the disk a second after it returned, and before that where
// Sync is asked for: a kill or a loss of power may take what is younger, and what is found afterwards is what was
// there at some moment before.
//
// It holds some Options.MemoryBytes for what was written and what was read. Part of that are filters, 10 bits a key,
// which tell of most keys that are not there without looking for them: where they find no room, a miss costs as
// much as a hit. Nothing expires by itself.
//
// A disk that is full or broken ends the store: the call that finds out, and all after it, return ErrBroken.
// What was synced is there when the disk is well and the folder opened again. (A fault found in the background,
// outside of any call, ends the process, for nobody can be told.)
//
// Close ends the goroutines that Open started.
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

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/internal/store"
)

// ErrBroken says that the disk has failed, and the folder has to be opened anew.
var ErrBroken = errors.New("the disk has failed")

// Options say where the folder is and what it may take of memory.
type Options struct {
	Folder      string
	MemoryBytes int64        // for what was written and what was read; 64 MiB unless given
	Log         *slog.Logger // nil: nobody is told

	fs vfs.FS // nil: the system's
}

// A Store is a cold set in a folder.
type Store struct {
	db     *pebble.DB
	cache  *pebble.Cache
	broken atomic.Pointer[fault]

	mu         sync.Mutex
	partitions map[int]*sync.RWMutex // each guards a partition's fence and what it allows

	written chan struct{} // holds one when there is something to sync
	closing chan struct{}
	close   sync.Once
	syncing sync.WaitGroup
}

var _ store.Store = (*Store)(nil)

// The layout that the package comment describes.
const layout = "1"

// Open opens the folder, which is made when it is not there, for its owner alone: keys are addresses and names.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.fs == nil {
		if err := os.MkdirAll(o.Folder, 0o700); err != nil {
			return nil, fmt.Errorf("opening the store: %w", err)
		}
	}
	s := &Store{partitions: map[int]*sync.RWMutex{}, written: make(chan struct{}, 1), closing: make(chan struct{})}
	db, err := pebble.Open(o.Folder, s.pebbleOptions(o))
	s.cache.Unref()
	if err != nil {
		return nil, fmt.Errorf("opening the store in %s: %w", o.Folder, err)
	}
	s.db = db
	s.syncing.Go(s.syncBehind)
	found, err := s.Agree(ctx, "layout", []byte(layout))
	if err == nil && string(found) != layout {
		err = fmt.Errorf("%w: its layout is %q, this one knows %q", store.ErrForeign, found, layout)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the store in %s: %w", o.Folder, err), s.Close())
	}
	return s, nil
}

func (s *Store) pebbleOptions(o Options) *pebble.Options {
	const mebibyte = 1 << 20
	if o.MemoryBytes == 0 {
		o.MemoryBytes = 64 * mebibyte
	}
	// Pebble takes what it gathers (at most twice MemTableSize, and once more while that becomes a file) out of
	// its cache's size.
	s.cache = pebble.NewCache(o.MemoryBytes)
	options := &pebble.Options{
		FS:                          o.fs,
		Cache:                       s.cache,
		MemTableSize:                uint64(o.MemoryBytes / 8),
		MemTableStopWritesThreshold: 2,
		FormatMajorVersion:          pebble.FormatNewest,
		Logger:                      told{s, o.Log},
	}
	for n := range options.Levels {
		options.Levels[n].FilterPolicy = bloom.FilterPolicy(10)
		// A file's filter is one block of the cache: those of large files would push each other out.
		options.TargetFileSizes[n] = 4 * mebibyte
	}
	return options
}

// Close closes the folder. What was written is synced.
func (s *Store) Close() error {
	s.close.Do(func() { close(s.closing) })
	s.syncing.Wait()
	if err := s.fault(); err != nil {
		return err
	}
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("closing the store: %w", err)
	}
	return nil
}

// Sync returns when all that was written before is on the disk.
func (s *Store) Sync(ctx context.Context) error {
	return s.call(ctx, "syncing the store", func() error { return s.db.LogData(nil, pebble.Sync) })
}

// Agree gives a name a value unless it has one, and returns the one that it has.
func (s *Store) Agree(ctx context.Context, name string, value []byte) (found []byte, err error) {
	key := append([]byte{0xff, 0xff, 0xff, 0xff}, name...)
	err = s.call(ctx, "agreeing on "+name, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if found, err = get(s.db, key); err != nil || found != nil {
			return err
		}
		found = append([]byte{}, value...)
		return s.db.Set(key, value, pebble.Sync)
	})
	return found, err
}

// partition returns the lock of a partition.
func (s *Store) partition(n int) *sync.RWMutex {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.partitions[n] == nil {
		s.partitions[n] = new(sync.RWMutex)
	}
	return s.partitions[n]
}

// Take makes the caller the owner of a partition.
func (s *Store) Take(ctx context.Context, partition int) (fence store.Fence, err error) {
	err = s.call(ctx, fmt.Sprintf("taking partition %d", partition), func() error {
		lock := s.partition(partition)
		lock.Lock()
		defer lock.Unlock()
		held, err := s.held(s.db, partition)
		if err != nil {
			return err
		}
		fence = held.Taken()
		return s.db.Set(fenceKey(partition), []byte(fence.String()), pebble.Sync)
	})
	return fence, err
}

// Write does all changes, or none.
func (s *Store) Write(ctx context.Context, partition int, fence store.Fence, changes []store.Change) (now store.Fence, err error) {
	err = s.call(ctx, fmt.Sprintf("writing %d changes of partition %d", len(changes), partition), func() error {
		lock := s.partition(partition)
		lock.Lock()
		defer lock.Unlock()
		if now, err = s.held(s.db, partition); err != nil {
			return err
		}
		if now != fence || fence == (store.Fence{}) {
			return fmt.Errorf("as %v, found %v: %w", fence, now, store.ErrFenced)
		}
		now = fence.Next()
		return s.apply(partition, now, changes)
	})
	return now, err
}

func (s *Store) apply(partition int, fence store.Fence, changes []store.Change) error {
	batch := s.db.NewBatch()
	defer batch.Close()
	var key []byte
	for _, c := range changes {
		key = appendKey(key[:0], partition, c.Space, c.Key)
		if c.Value == nil {
			batch.Delete(key, nil)
			continue
		}
		batch.Set(key, c.Value, nil)
	}
	batch.Set(fenceKey(partition), []byte(fence.String()), nil)
	if err := batch.Commit(pebble.NoSync); err != nil {
		return err
	}
	select {
	case s.written <- struct{}{}:
	default: // it is to be synced already
	}
	return nil
}

// Read returns the values of keys, and the fence.
func (s *Store) Read(ctx context.Context, partition int, space store.Space, keys [][]byte) (values [][]byte, fence store.Fence, err error) {
	err = s.call(ctx, fmt.Sprintf("reading %d keys of partition %d", len(keys), partition), func() error {
		lock := s.partition(partition)
		lock.RLock()
		defer lock.RUnlock()
		if fence, err = s.held(s.db, partition); err != nil {
			return err
		}
		iterator, err := s.db.NewIter(&pebble.IterOptions{
			LowerBound: appendKey(nil, partition, space, nil),
			UpperBound: appendKey(nil, partition, space+1, nil),
			// Most keys that are looked for and not hot are new: the filters spare the disk for those.
			UseL6Filters: true,
		})
		if err != nil {
			return err
		}
		values, err = seek(iterator, partition, space, keys)
		return errors.Join(err, iterator.Close())
	})
	return values, fence, err
}

func seek(iterator *pebble.Iterator, partition int, space store.Space, keys [][]byte) ([][]byte, error) {
	values := make([][]byte, len(keys))
	var key []byte
	for n := range keys {
		key = appendKey(key[:0], partition, space, keys[n])
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
func (s *Store) Scan(ctx context.Context, partition int, space store.Space, from store.Cursor, pairs int) (page store.Page, err error) {
	err = s.call(ctx, fmt.Sprintf("scanning partition %d", partition), func() error {
		lock := s.partition(partition)
		lock.RLock()
		defer lock.RUnlock()
		if page.Fence, err = s.held(s.db, partition); err != nil {
			return err
		}
		iterator, err := s.db.NewIter(&pebble.IterOptions{
			LowerBound: appendKey(nil, partition, space, []byte(from)),
			UpperBound: appendKey(nil, partition, space+1, nil),
		})
		if err != nil {
			return err
		}
		collect(iterator, &page, pairs)
		return iterator.Close()
	})
	return page, err
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

// held returns the fence that a partition has.
func (s *Store) held(from pebble.Reader, partition int) (store.Fence, error) {
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

// keyStart is where a key of the store stands in one of pebble.
const keyStart = 5

func fenceKey(partition int) []byte { return appendKey(nil, partition, 0, nil) }

func appendKey(b []byte, partition int, space store.Space, key []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(partition))
	return append(append(b, byte(space)), key...)
}
