package follow

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"weir/internal/replace"
	"weir/internal/sleep"
	"weir/pkg/blocklist"
)

// Save writes the list to a file, completely or not at all, even when the power is lost meanwhile. It returns the version
// that it wrote: the Set may have another one by then.
func Save(path string, set *blocklist.Set, nowMilli int64) (version blocklist.Version, err error) {
	err = replace.File(path, func(file *os.File) error {
		header, err := set.WriteSnapshot(file, nowMilli)
		version = header.Version
		return err
	})
	if err != nil {
		return blocklist.Version{}, fmt.Errorf("keeping the list in %s: %w", path, err)
	}
	return version, nil
}

// Load reads a file of Save into a Set. After an error the Set is unchanged.
func Load(path string, set *blocklist.Set, nowMilli int64) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("reading the last complete list: %w", err)
	}
	defer file.Close()

	// The list has an end of its own, so bytes behind it mean that the file is not what Save wrote.
	if _, err := set.ReadAll(file, nowMilli); err != nil {
		return fmt.Errorf("reading the last complete list %s: %w", path, err)
	}
	return nil
}

const (
	// keepEvery is how long a change may exist only in memory.
	keepEvery = 500 * time.Millisecond
	// keepAgain is the pause between tries while the disk fails.
	keepAgain = 5 * time.Second
	// snapshotShare bounds the time spent on snapshots of a list whose changes cannot be kept one by one: new records
	// of the log while the list is read again. Snapshots take at most 1/snapshotShare of the time.
	snapshotShare = 20
)

// A saver keeps the Set on disk: a snapshot in the file, and next to it the log of later changes.
type saver struct {
	*Follower

	keeping         sync.Mutex // held while the files are written
	log             changeLog
	snapshotVersion blocklist.Version // of the snapshot
	savedVersion    blocklist.Version // with the log
	savedOrders     string            // Set.Local of the kept orders that wait for Kafka
	savedEdits      uint64            // Set.Edits of the kept list
	snapshotAt      time.Time         // of the snapshot
	snapshotCost    time.Duration     // of the snapshot
	failed          bool              // the last write failed
}

// load reads the files of the last process. When they are missing or damaged, the Set stays empty.
func (s *saver) load() {
	if s.config.File == "" {
		return
	}
	s.log.path = s.config.File + ".changes"
	err := Load(s.config.File, s.config.Set, s.now())
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		s.config.Logger.Error("blocklist: the last complete list cannot be used", "error", err)
	default:
		// Changes that cannot be read leave the list of the snapshot, which is complete but older.
		s.snapshotVersion = s.config.Set.Version()
		changes, err := s.log.read(s.config.Set, s.now())
		if err != nil {
			s.config.Logger.Error("blocklist: not all changes of the last complete list can be used", "error", err)
		}
		s.savedVersion, s.savedOrders, s.savedEdits = s.config.Set.Version(), s.config.Set.Local(), s.config.Set.Edits()
		s.change(func(status *Status) { status.Saved = s.config.Now() })
		s.config.Logger.Info("blocklist: read the last complete list", "version", s.savedVersion.String(), "as of", time.UnixMilli(s.config.Set.AsOf()), "changes", changes)
	}
}

func (s *saver) run(ctx context.Context) {
	if s.config.File == "" {
		return
	}
	for ctx.Err() == nil {
		// Asked for before wanted looks, so that no change between the two is missed.
		changed := s.config.Set.Changed()
		if !s.wanted() {
			select {
			case <-changed:
			case <-time.After(keepEvery): // check whether the files are gone
			case <-ctx.Done():
			}
			continue
		}
		if s.keep(time.Now()) != nil {
			sleep.For(ctx, keepAgain)
			continue
		}

		sleep.For(ctx, keepEvery)
	}

	// At the end everything goes into the snapshot: then the next start need not read the changes.
	s.keeping.Lock()
	defer s.keeping.Unlock()
	if s.due() || s.savedVersion != s.snapshotVersion {
		_ = s.snapshot() // snapshot has noted the error
	}

	s.log.close()
}

// wanted reports whether there is something to write.
func (s *saver) wanted() bool {
	s.keeping.Lock()
	defer s.keeping.Unlock()
	return s.due() || s.log.gone()
}

// due reports whether the disk has another list than the Set. The caller holds the lock.
func (s *saver) due() bool {
	set := s.config.Set
	state := set.State()
	return state.Whole && (s.failed || state.Version != s.savedVersion || set.Local() != s.savedOrders || set.Edits() != s.savedEdits)
}

// Keep returns when the list as it is now is on the disk, with the orders that wait for Kafka. It does nothing while
// there is no complete list, or no file.
func (f *Follower) Keep() error {
	if f.config.File == "" {
		return nil
	}
	return f.saver.keep(time.Now())
}

// keep writes the changes.
func (s *saver) keep(now time.Time) error {
	s.keeping.Lock()
	defer s.keeping.Unlock()
	gone := s.log.gone()
	if gone {
		s.config.Logger.Error("blocklist: the list's files were deleted while in use, and are written again", "file", s.config.File)
	}
	if !s.due() && !gone {
		return nil
	}

	version := s.config.Set.Version()
	switch {
	// Changes can only follow a snapshot that is there, of this list.
	case gone || version.List != s.savedVersion.List || !s.log.begun || now.Sub(s.snapshotAt) >= s.config.SaveEvery && version != s.snapshotVersion:
		return s.snapshot()
	// Only edits are new: records of a list that is still being read (Set.Ahead), which belong to no version.
	case version == s.savedVersion && s.config.Set.Local() == s.savedOrders:
		if now.Sub(s.snapshotAt) < max(keepEvery, snapshotShare*s.snapshotCost) {
			return nil
		}
		return s.snapshot()
	}

	return s.changes()
}

// changes adds the changes to the log.
func (s *saver) changes() error {
	set := s.config.Set
	for first := true; first || s.savedVersion != set.Version(); first = false {
		// Read before the list is written: what changes meanwhile is then still due.
		edits, orders := set.Edits(), set.Local()
		header, err := s.log.add(set, s.savedVersion, s.now())
		if errors.Is(err, errNoChanges) {
			return s.snapshot()
		}
		if s.noteResult(err) != nil {
			return err
		}
		s.savedVersion, s.savedEdits, s.savedOrders = header.Version, edits, orders
	}

	s.change(func(status *Status) { status.Saved = s.config.Now() })
	return nil
}

// snapshot writes the file, and begins a new log.
func (s *saver) snapshot() error {
	set := s.config.Set
	edits, orders := set.Edits(), set.Local()
	began := time.Now()
	version, err := Save(s.config.File, set, s.now())
	// The log is emptied only when the snapshot is on the disk. A kill between the two leaves old deltas, which read
	// skips.
	if err == nil {
		s.snapshotVersion, s.savedVersion, s.savedEdits, s.savedOrders = version, version, edits, orders
		s.snapshotAt = time.Now()
		s.snapshotCost = s.snapshotAt.Sub(began)
		s.change(func(status *Status) { status.Saved = s.config.Now() })
		err = s.log.begin()
	}
	return s.noteResult(err)
}

// noteResult logs an error, and makes the next write a snapshot.
func (s *saver) noteResult(err error) error {
	if err == nil {
		if s.failed {
			s.failed = false
			s.change(func(status *Status) { status.Unsaved = "" })
			s.faults.Over("save")
		}
		return nil
	}
	s.failed = true
	s.change(func(status *Status) { status.Unsaved = err.Error() })
	s.log.close()
	s.faults.Note("save", err)
	return err
}
