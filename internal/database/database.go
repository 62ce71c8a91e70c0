// Package database opens a folder of this machine as a log-structured merge tree (pebble) whose disk may fail.
//
// # What holds
//
// Open locks the folder for one process. A write that was not synced is on the disk a second after it returned, if its
// caller calls Written. A kill or a loss of power may lose younger writes; afterwards the database has the state of some
// moment before.
//
// The database uses about Options.MemoryBytes for writes and reads. Part of that are filters, 10 bits a key, which
// recognise most missing keys without a search: where they find no room, a miss costs as much as a hit. Nothing expires
// by itself.
//
// A disk that is full, broken or out of descriptors never ends the process. The first error ends the opening, as a kill
// at that moment would. Calls then return ErrBroken at once, and the folder is opened again as soon as it can be
// written; a deleted folder is created again. The database then has the state of some earlier moment. Every call
// receives the pebble of its opening, so a caller notices another opening by another pointer. A disk that hangs blocks
// no call beyond its context, and at most 64 goroutines.
//
// Open starts three goroutines, and one for each call; Close ends them, and waits for them for at most 15 s.
package database

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrBroken reports that the disk fails now, or that the folder cannot be opened because of that or because its
// contents are damaged. It passes when the disk works again, or the folder has been moved away.
var ErrBroken = errors.New("the disk has failed")

// ErrDamaged reports, together with ErrBroken, that the folder's contents cannot be read.
var ErrDamaged = errors.New("it is damaged, or a newer version wrote it")

// ErrInUse reports that another process has the folder.
var ErrInUse = errors.New("in use by another process")

// Options name the folder and bound the memory.
type Options struct {
	Folder      string
	MemoryBytes int64        // for writes and reads; 64 MiB unless given
	WriteBytes  int64        // of MemoryBytes, for writes that are not in a file of their own yet; an eighth unless given
	Log         *slog.Logger // nil logs nothing

	// SplitAt returns the key before which a file that begins with a key has to end; nil is none. Keys that are written
	// in their order are never written again when those of other orders lie in other files. It may be nil.
	SplitAt func(first []byte) []byte

	// Check is called with each opening before others use it; an error ends the opening. It may be nil.
	Check func(*pebble.DB) error

	// Anyhow has Open return even while the disk fails: calls then return ErrBroken until it works.
	Anyhow bool

	FS vfs.FS // nil: the operating system's
}

// A DB is a database in a folder.
type DB struct {
	options Options
	real    bool // the folder is in the operating system's file system
	log     *slog.Logger
	current atomic.Pointer[opening] // nil while the disk fails
	reason  atomic.Pointer[error]   // the reason when current is nil
	first   atomic.Pointer[func(*pebble.DB) error]
	lock    os.FileInfo // of the file that locks the folder; nil when unknown. Used only by keep

	givenUp  sync.WaitGroup // openings that are being closed
	unclosed atomic.Int64   // how many of these there are
	written  chan struct{}  // holds one when there is something to sync
	close    context.CancelFunc
	running  sync.WaitGroup
}

// Open opens the folder, and creates a missing one for its owner alone: keys are addresses and names. After ErrBroken
// it may be called again.
func Open(ctx context.Context, o Options) (*DB, error) {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	o.MemoryBytes = cmp.Or(o.MemoryBytes, 64<<20)
	o.WriteBytes = cmp.Or(o.WriteBytes, o.MemoryBytes/8)

	d := &DB{real: o.FS == nil, log: o.Log, written: make(chan struct{}, 1)}
	if d.real {
		o.FS = vfs.Default
	}

	d.options = o

	in, err := d.openFirst(ctx)
	switch {
	case err == nil:
		d.rememberFolder()
		d.current.Store(in)
	case o.Anyhow && errors.Is(err, ErrBroken):
		d.log.Error("the store on disk cannot be opened; it is tried again until the disk works", "folder", o.Folder, "error", err)
		d.set(err)
	default:
		return nil, fmt.Errorf("opening the store in %s: %w", o.Folder, err)
	}

	closing, end := context.WithCancel(context.Background())
	d.close = end
	d.running.Go(func() { d.syncBehind(closing) })
	d.running.Go(func() { d.keep(closing, in) })
	return d, nil
}

// openFirst creates a missing folder, with those above it, and opens it.
func (d *DB) openFirst(ctx context.Context) (*opening, error) {
	if d.real {
		err := os.MkdirAll(d.options.Folder, 0o700)
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EIO) {
			err = fmt.Errorf("%w: %w", ErrBroken, err) // this passes, unlike a missing permission
		}
		if err != nil {
			return nil, err
		}
	}
	return openOnce(ctx, d.options)
}

// Close closes the folder. All writes are synced, unless the disk fails: then the error is ErrBroken.
func (d *DB) Close() error {
	d.close()

	// keep has ended, so no further opening can begin, and the last one is final.
	d.running.Wait()
	last := d.current.Load()

	// A disk that hangs must not block Close: the goroutine stays behind, and the guard ends the opening.
	closed := make(chan error, 1)
	go func() {
		d.givenUp.Wait()
		if last == nil {
			closed <- d.broken()
			return
		}
		d.set(errClosed)
		d.current.Store(nil)
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

// Fault returns why the database cannot be used now, or nil.
func (d *DB) Fault() error {
	if d.current.Load() != nil {
		return nil
	}
	return d.broken()
}

// set records why nothing is open.
func (d *DB) set(why error) { d.reason.Store(&why) }

func (d *DB) broken() error {
	if why := d.reason.Load(); why != nil {
		return *why
	}
	return ErrBroken
}

// Do calls do with the current opening, in a goroutine of its own. Its caller waits until do has returned, the context
// is done or the disk has failed. In the last two cases do may still run, and its effect may be there or not: so do must
// not use data that the caller may change.
func Do[T any](ctx context.Context, d *DB, do func(*pebble.DB) (T, error)) (value T, err error) {
	if in := d.current.Load(); in != nil {
		return call(ctx, in, func() (T, error) { return do(in.db) })
	}
	if err = ctx.Err(); err == nil {
		err = d.broken()
	}
	return value, err
}

// FirstAgain has do called when the folder has been opened again, before all other calls: for what was answered, and is
// not on the disk. If it fails, the disk has.
func (d *DB) FirstAgain(do func(*pebble.DB) error) { d.first.Store(&do) }

// Uses reports whether the database works on this pebble now. A call of a former opening may still run on another.
func (d *DB) Uses(db *pebble.DB) bool {
	in := d.current.Load()
	return in != nil && in.db == db
}

// Written has what was written without a sync be synced within a second.
func (d *DB) Written() {
	select {
	case d.written <- struct{}{}:
	default: // a sync is already pending
	}
}

// Sync returns when all earlier writes are on the disk.
func (d *DB) Sync(ctx context.Context) error {
	_, err := Do(ctx, d, func(db *pebble.DB) (struct{}, error) { return struct{}{}, db.LogData(nil, pebble.Sync) })
	return err
}

// Get returns a copy of a value, nil when there is none.
func Get(from pebble.Reader, key []byte) ([]byte, error) {
	value, closer, err := from.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return append([]byte{}, value...), closer.Close()
}
