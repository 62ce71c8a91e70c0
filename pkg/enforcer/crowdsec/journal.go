package crowdsec

import (
	"bufio"
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"weir/internal/address"
)

// A journal keeps the changes of a table since it was saved, in a file next to the saved one. Without it, a process that
// is killed would forget what bouncers got since then, and never delete it there.
//
// The file has a part for each answer with changes; each part is written as a saved table is, without bouncers.
type journal struct {
	mu      sync.Mutex // also held while the table is saved
	path    string     // of the saved table
	written int64      // the last revision that the disk has
	broken  bool       // nothing may be added: the table has to be saved

	turn chan struct{} // of the answer whose changes are written
}

// patience is how long an answer waits for the disk. Traefik's plugin refuses everyone after a poll without an answer.
const patience = time.Second

var errHangs = errors.New("the disk does not answer; bouncers may miss the end of what they get now, if the process is killed")

// persistSoon is persist, which goes on by itself when the disk takes too long.
func (t *table) persistSoon(now time.Time) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case t.journal.turn <- struct{}{}:
	case <-timer.C:
		return errHangs
	}
	done := make(chan error, 1)
	go func() {
		done <- t.persist(now)
		<-t.journal.turn
	}()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return errHangs
	}
}

func (j *journal) file() string { return j.path + ".changes" }

// persist writes the changes that the disk does not have yet, before a bouncer gets them.
func (t *table) persist(now time.Time) error {
	j := &t.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	t.mu.Lock()
	known := t.floor <= j.written
	k := &kept{header: header{keptVersion, t.revision, t.floor, t.lastID}}
	for _, c := range t.since(j.written) {
		if c.Ended != 0 {
			k.ended = append(k.ended, c)
		} else {
			k.rows = append(k.rows, c.Row)
		}
	}
	t.mu.Unlock()

	if !known || j.broken {
		return t.saveLocked(j.path, now)
	}
	if len(k.rows)+len(k.ended) == 0 {
		return nil
	}
	if err := j.add(k); err != nil {
		j.broken = true
		return err
	}
	j.written = k.header.Revision
	return nil
}

func (j *journal) add(k *kept) error {
	if err := os.MkdirAll(filepath.Dir(j.path), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(j.file(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	err = k.write(file)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// saved removes the changes of a table that was saved at a revision.
func (j *journal) saved(revision int64) error {
	j.written = max(j.written, revision)
	err := os.Remove(j.file())
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	j.broken = err != nil
	return err
}

// replay applies the changes since the table was saved, up to the first part that is not complete: a kill may have
// interrupted the last one.
func (t *table) replay() error {
	j := &t.journal
	j.written = t.revision
	file, err := os.Open(j.file())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		j.broken = true
		return err
	}
	defer file.Close()

	for lines := bufio.NewReaderSize(file, pieceBytes); ; {
		if _, err := lines.Peek(1); errors.Is(err, io.EOF) {
			return nil
		}
		k, err := readKept(lines)
		if err != nil {
			j.broken = true
			return nil // the parts before are good, and nothing is added behind this one
		}
		// An older part was saved before it could be removed.
		if k.header.Revision > t.revision {
			t.apply(k)
			j.written = t.revision
		}
	}
}

// apply applies a part of the journal.
func (t *table) apply(k *kept) {
	t.revision, t.lastID = k.header.Revision, k.header.LastID
	t.floor = max(t.floor, k.header.Floor)
	changes := k.ended
	for _, r := range k.rows {
		changes = append(changes, change{Revision: r.Added, Row: r})
	}

	slices.SortStableFunc(changes, func(a, b change) int { return cmp.Compare(a.Revision, b.Revision) })
	for _, c := range changes {
		t.note(c)
		rows := slices.DeleteFunc(t.values[c.Row.Value], func(r *row) bool { return r.Scope == c.Row.Scope && r.Rule == c.Row.Rule })
		if c.Ended != 0 {
			for i, r := range rows { // as in sweep
				left := *r
				left.Again = c.Ended + letGo.Milliseconds()
				rows[i] = &left
			}
		} else {
			rows = append(rows, c.Row.parsed())
		}
		t.rows += len(rows) - len(t.values[c.Row.Value])
		if t.values[c.Row.Value] = rows; len(rows) == 0 {
			delete(t.values, c.Row.Value)
		}
	}
}

// parsed sets the prefix of a row that was read.
func (r *row) parsed() *row {
	if r.Scope == scopeIP || r.Scope == scopeRange {
		r.prefix, _ = address.Parse(r.Value)
	}
	return r
}
