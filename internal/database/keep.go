package database

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	// syncAfter is how long a write may be only in memory. Pebble keeps the end of its log there, up to 32 KiB, until
	// more arrives or a caller syncs, which on a quiet site takes hours.
	syncAfter = time.Second
	// lookEvery is the interval of checks whether the folder is still there, and, when the disk has failed, whether it
	// works again.
	lookEvery = 500 * time.Millisecond
	// longestPause bounds the pause between tries to open a folder that cannot be opened.
	longestPause = 30 * time.Second
	// sayEvery is how often a disk that stays broken is logged.
	sayEvery = time.Minute
	// maxUnclosed bounds the abandoned openings that cannot be closed because the disk hangs: each uses memory.
	maxUnclosed = 3
	// probeBytes is how much room there must be before a folder is opened again.
	probeBytes = 1 << 20
	// closePatience is how long closing may take before it is given up.
	closePatience = 15 * time.Second
)

// ErrFolderGone reports that the folder is not there any more, or is another one.
var ErrFolderGone = errors.New("the folder was deleted or replaced")

// syncBehind syncs writes in the background, until the store is closed.
func (d *DB) syncBehind(closing context.Context) {
	for {
		select {
		case <-closing.Done():
			return
		case <-d.written:
		}

		select {
		case <-closing.Done(): // closing syncs
			return
		case <-time.After(syncAfter):
		}

		_ = d.Sync(closing) // a disk that fails ends the opening, which is logged
	}
}

// keep gives up an opening when the disk fails or the folder is gone, and opens the folder again when it can be.
func (d *DB) keep(closing context.Context, in *opening) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	pause := lookEvery
	if in == nil {
		if in, pause = d.openAgain(closing, nil, pause); in == nil {
			return
		}
		d.log.Info("the store on disk works", "folder", d.options.Folder)
	}

	began := time.Now()
	for {
		select {
		case <-closing.Done():
			return
		case <-look.C:
			if err := d.checkFolder(); err != nil {
				in.guard.fail(err)
			}
			continue
		case <-in.guard.died:
		}

		// A folder that worked for a while is tried quickly again; one that fails at once is tried less and less often.
		if time.Since(began) > longestPause {
			pause = lookEvery
		}
		failed := time.Now()
		d.log.Error("the store on disk has failed; counting goes on in memory, and the folder is opened again when the disk works",
			"folder", d.options.Folder, "error", in.guard.failure())

		d.giveUp(in)
		if in, pause = d.openAgain(closing, in, pause); in == nil {
			return
		}

		began = time.Now()
		d.log.Info("the store on disk works again", "folder", d.options.Folder, "after", time.Since(failed).Round(time.Millisecond))
	}
}

// giveUp makes calls fail at once, and closes the opening in the background.
func (d *DB) giveUp(in *opening) {
	d.set(in.broken())
	d.current.Store(nil)
	d.unclosed.Add(1)
	d.givenUp.Go(func() {
		defer d.unclosed.Add(-1)
		_ = in.close() // it only repeats the reason
	})
}

// openAgain opens the folder as soon as possible, and returns nil when the store is closed before. There is no old opening
// when the folder could not be opened at the start.
func (d *DB) openAgain(closing context.Context, old *opening, pause time.Duration) (*opening, time.Duration) {
	said := time.Now()
	for next := said.Add(pause); ; {
		select {
		case <-closing.Done():
			return nil, 0
		case <-time.After(lookEvery):
		}

		if time.Since(said) >= sayEvery {
			said = time.Now()
			d.log.Error("the store on disk cannot be used", "folder", d.options.Folder, "error", d.broken())
		}

		// An operation of the former opening may still be in the operating system, and could write into the files of
		// the next one.
		if old != nil && !old.guard.quiet() || d.unclosed.Load() > maxUnclosed {
			continue // the disk hangs
		}
		if err := d.probe(); err != nil {
			d.set(fmt.Errorf("%w: %w", ErrBroken, err))
			continue
		}
		if time.Now().Before(next) {
			continue
		}

		// Only now: until the folder works, the lock keeps other processes out of it.
		if old != nil {
			old.guard.unlock()
		}
		in, err := openOnce(closing, d.options)
		if err == nil {
			d.rememberFolder()
			if err = d.callFirst(closing, in); err == nil {
				d.current.Store(in)
				return in, min(2*pause, longestPause)
			}
			in.guard.fail(err)
			d.giveUp(in)
			old = in
		}

		d.set(fmt.Errorf("%w: %w", ErrBroken, err))
		pause = min(2*pause, longestPause)
		next = time.Now().Add(pause)
	}
}

func (d *DB) callFirst(ctx context.Context, in *opening) error {
	do := d.first.Load()
	if do == nil {
		return nil
	}
	_, err := call(ctx, in, func() (struct{}, error) { return struct{}{}, (*do)(in.db) })
	return err
}

// probe tries whether the folder can be written. It creates a deleted folder again, but not its parent.
func (d *DB) probe() error {
	// A missing parent may be a disk that is not mounted: a folder made there would hide it.
	if d.real && !exists(d.options.Folder) {
		if err := os.Mkdir(d.options.Folder, 0o700); err != nil {
			return err
		}
	}
	name := d.options.FS.PathJoin(d.options.Folder, "probe")
	file, err := d.options.FS.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = file.Write(make([]byte, probeBytes))
	return errors.Join(err, file.Sync(), file.Close(), d.options.FS.Remove(name))
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return !errors.Is(err, fs.ErrNotExist)
}

// rememberFolder remembers which folder is open, by its lock file.
func (d *DB) rememberFolder() {
	d.lock = nil
	if d.real {
		d.lock, _ = os.Stat(d.lockName()) // without it checkFolder compares nothing
	}
}

func (d *DB) lockName() string { return filepath.Join(d.options.Folder, "LOCK") }

// checkFolder returns an error when the folder is another one than was opened.
func (d *DB) checkFolder() error {
	if d.lock == nil {
		return nil
	}
	found, err := os.Stat(d.lockName())
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(found, d.lock) {
		return fmt.Errorf("%w: %s", ErrFolderGone, d.options.Folder)
	}
	return nil
}
