package database

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// An opening is the state of the folder from one open until the disk fails or the store is closed.
type opening struct {
	guard *guard
	db    *pebble.DB
	calls chan struct{} // has room for as many calls as may run at once

	mu      sync.Mutex
	under   sync.WaitGroup // running calls
	closing bool

	closed chan struct{} // once pebble has been closed
}

// maxCalls bounds the calls that a hanging disk can block.
const maxCalls = 64

// openOnce opens the folder. While the disk fails, or the folder's contents are damaged, the error is ErrBroken.
func openOnce(ctx context.Context, o Options) (*opening, error) {
	in := &opening{guard: newGuard(o.FS), calls: make(chan struct{}, maxCalls), closed: make(chan struct{})}
	if o.FS == vfs.Default {
		in.guard.owner = ownerOf(o.Folder)
	}
	opened := make(chan error, 1)

	// In a goroutine of its own, because pebble knows no context and a disk may hang. If the caller leaves first, the
	// opening is closed when it comes.
	go func() { opened <- in.openPebble(o) }()
	var err error
	select {
	case err = <-opened:
	case <-ctx.Done():
		in.guard.fail(context.Cause(ctx))
		go func() {
			in.release(<-opened)
		}()
		return nil, context.Cause(ctx)
	}

	// Asked before err: pebble has seen only successes since the guard ended.
	if fault := in.guard.failure(); fault != nil {
		in.release(err)
		return nil, fmt.Errorf("%w: %w", ErrBroken, fault)
	}

	if err != nil {
		in.release(err)
		if in.guard.lock.Load() == nil {
			return nil, fmt.Errorf("%w: %w", ErrInUse, err)
		}
		return nil, fmt.Errorf("%w: %w", ErrBroken, damaged(o.Folder, err))
	}

	// From now on a missing file is one that was deleted.
	in.guard.opening.Store(false)
	if o.Check != nil {
		if _, err := call(ctx, in, func() (struct{}, error) { return struct{}{}, o.Check(in.db) }); err != nil {
			return nil, errors.Join(err, in.close())
		}
	}
	return in, nil
}

// damaged adds the remedy for a folder that cannot be read.
func damaged(folder string, why error) error {
	return fmt.Errorf("%w (%w); move %s away: a new store is made; with kafka.brokers, the hits that weir.hits still has are counted again", ErrDamaged, why, folder)
}

// release closes an opening that failed.
func (in *opening) release(err error) {
	if err == nil {
		_ = in.close() // the first error matters
		return
	}
	in.guard.fail(err)
	in.guard.unlock()
	close(in.closed)
}

func (in *opening) openPebble(o Options) (err error) {
	defer func() {
		if thrown := recover(); thrown != nil {
			err = fmt.Errorf("it panicked: %v", thrown)
			in.guard.fail(err)
		}
	}()
	cache := pebble.NewCache(o.MemoryBytes)
	defer cache.Unref()
	in.db, err = pebble.Open(o.Folder, in.options(o, cache))
	return err
}

func (in *opening) options(o Options, cache *pebble.Cache) *pebble.Options {
	// Pebble's memtables (at most twice MemTableSize, and once more during a flush) count towards its cache's size.
	options := &pebble.Options{
		FS:                          in.guard,
		Cache:                       cache,
		MemTableSize:                uint64(o.WriteBytes),
		MemTableStopWritesThreshold: 2,
		FormatMajorVersion:          pebble.FormatNewest,
		Logger:                      trouble{in.guard, o.Log},
		EventListener: &pebble.EventListener{
			// Pebble would try again without a pause, or end the process.
			BackgroundError: func(err error) { in.guard.fail(err) },
			DataCorruption:  func(info pebble.DataCorruptionInfo) { in.guard.fail(damaged(o.Folder, fmt.Errorf("%v", info))) },
		},
	}

	if o.SplitAt != nil {
		options.Experimental.SpanPolicyFunc = func(first []byte) (pebble.SpanPolicy, []byte, error) {
			return pebble.SpanPolicy{}, o.SplitAt(first), nil
		}
	}

	for n := range options.Levels {
		options.Levels[n].FilterPolicy = bloom.FilterPolicy(10)

		// A file's filter is one block of the cache: those of large files would push each other out.
		options.TargetFileSizes[n] = 4 << 20
	}

	return options
}

// trouble receives pebble's reports.
type trouble struct {
	guard *guard
	log   *slog.Logger
}

// Infof drops the lines about every new file.
func (trouble) Infof(string, ...any) {}

func (t trouble) Errorf(format string, args ...any) {
	if t.guard.failure() == nil {
		t.log.Error("the store on disk is in trouble", "trouble", fmt.Sprintf(format, args...))
	}
}

// Fatalf ends the guard. It must not return, and it cannot panic where pebble calls it with its locks held: the goroutine
// stays here. Calls do not wait for it.
func (t trouble) Fatalf(format string, args ...any) {
	t.guard.fail(fmt.Errorf(format, args...))
	select {}
}

// call runs an operation of pebble in its own goroutine, so that its caller does not wait for a disk that hangs: only
// until the context is done, or the guard has ended. The operation may then be done or not, and do must not use data
// that the caller may change.
func call[T any](ctx context.Context, in *opening, do func() (T, error)) (value T, err error) {
	if err := ctx.Err(); err != nil {
		return value, err
	}
	select {
	case in.calls <- struct{}{}:
	case <-ctx.Done():
		return value, ctx.Err()
	case <-in.guard.died:
		return value, in.broken()
	}

	type result struct {
		value T
		err   error
	}

	// The channel has room, so the goroutine ends even when the caller no longer waits.
	done := make(chan result, 1)
	if !in.begin() {
		<-in.calls
		return value, in.broken()
	}

	go func() {
		defer in.under.Done()
		defer func() { <-in.calls }()
		defer func() {
			if thrown := recover(); thrown != nil {
				in.guard.fail(fmt.Errorf("it panicked: %v", thrown))
				done <- result{err: in.broken()}
			}
		}()
		v, err := do()
		done <- result{v, err}
	}()

	select {
	// A result that came while the disk failed may rest on operations that never happened.
	case r := <-done:
		if in.guard.failure() != nil {
			return value, in.broken()
		}
		return r.value, r.err
	case <-ctx.Done():
		return value, ctx.Err()
	case <-in.guard.died:
		return value, in.broken()
	}
}

// begin reports whether a call may begin.
func (in *opening) begin() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closing || in.guard.failure() != nil {
		return false
	}
	in.under.Add(1)
	return true
}

func (in *opening) broken() error {
	if why := in.guard.failure(); why != nil {
		return fmt.Errorf("%w: %w", ErrBroken, why)
	}
	return errors.New("the store is closed")
}

// close closes pebble once all calls are done.
func (in *opening) close() error {
	in.mu.Lock()
	in.closing = true
	in.mu.Unlock()

	// Pebble must not be closed under a call.
	in.under.Wait()
	defer close(in.closed)
	err := in.db.Close()
	in.guard.unlock()
	if fault := in.guard.failure(); fault != nil {
		return in.broken()
	}
	return err
}
