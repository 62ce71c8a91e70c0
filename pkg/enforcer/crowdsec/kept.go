package crowdsec

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"weir/internal/replace"
)

// A table is kept as a file of JSON lines: a header, a line for each row, one for each change that ended a row, one for
// each bouncer, and a trailer with the checksum of the lines before.
type line struct {
	Header  *header  `json:"header,omitempty"`
	Row     *row     `json:"row,omitempty"`
	Ended   *change  `json:"ended,omitempty"`
	Bouncer *known   `json:"bouncer,omitempty"`
	Trailer *trailer `json:"trailer,omitempty"`
}

type header struct {
	Version  int   `json:"version"`
	Revision int64 `json:"revision"`
	Floor    int64 `json:"floor"`
	LastID   int64 `json:"last_id"`
}

type known struct {
	bouncer
	cursor
}

type trailer struct {
	Checksum uint64 `json:"checksum"`
}

const keptVersion = 1

var errDamaged = errors.New("damaged")

// kept is the state of a table at one moment.
type kept struct {
	header   header
	rows     []*row
	ended    []change
	bouncers []known
}

// snapshot returns the state of the table to keep; nil when no bouncer got anything.
func (t *table) snapshot(now time.Time) *kept {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bouncers.forget(now.UnixMilli())
	if t.revision == 0 {
		return nil
	}

	k := &kept{header: header{keptVersion, t.revision, t.floor, t.lastID}}
	for _, rows := range t.values {
		k.rows = append(k.rows, rows...)
	}

	// The changes that began are not kept: restore makes them from the rows.
	for _, c := range t.changes {
		if c.Ended != 0 {
			k.ended = append(k.ended, c)
		}
	}

	for who, at := range t.bouncers {
		k.bouncers = append(k.bouncers, known{who, at})
	}
	return k
}

// save writes the table into a file, completely or not at all.
func (t *table) save(path string, now time.Time) error {
	t.journal.mu.Lock()
	defer t.journal.mu.Unlock()
	return t.saveLocked(path, now)
}

// saveLocked is save, with the journal locked.
func (t *table) saveLocked(path string, now time.Time) error {
	k := t.snapshot(now)
	if k == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}

	// A new name for each try.
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".new")
	if err != nil {
		return err
	}
	if err := replace.With(file, path, k.write(file)); err != nil {
		return err
	}
	return t.journal.saved(k.header.Revision)
}

// lines yields all lines except the trailer.
func (k *kept) lines(yield func(line) bool) {
	if !yield(line{Header: &k.header}) {
		return
	}
	for _, r := range k.rows {
		if !yield(line{Row: r}) {
			return
		}
	}

	for i := range k.ended {
		if !yield(line{Ended: &k.ended[i]}) {
			return
		}
	}

	for i := range k.bouncers {
		if !yield(line{Bouncer: &k.bouncers[i]}) {
			return
		}
	}
}

func (k *kept) write(to io.Writer) error {
	sum := xxhash.New()
	buffered := bufio.NewWriterSize(to, pieceBytes)
	encoder := json.NewEncoder(io.MultiWriter(buffered, sum))
	for l := range k.lines {
		if err := encoder.Encode(l); err != nil {
			return err
		}
	}
	err := encoder.Encode(line{Trailer: &trailer{sum.Sum64()}})
	return errors.Join(err, buffered.Flush())
}

// load reads a file, and the journal next to it, into an empty table. A missing file is no error; an incomplete one
// changes nothing.
func (t *table) load(path string) error {
	t.journal.path, t.journal.broken = path, true
	file, err := os.Open(path)
	if err == nil {
		defer file.Close()
		err = t.read(file)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	t.journal.broken = false
	return t.replay()
}

func (t *table) read(file *os.File) error {
	k, err := readKept(bufio.NewReaderSize(file, pieceBytes))
	if err != nil {
		return fmt.Errorf("%s: %w", file.Name(), err)
	}
	t.restore(k)
	return nil
}

// readKept reads the output of write, completely or not at all.
func readKept(lines *bufio.Reader) (*kept, error) {
	k, sum := &kept{}, xxhash.New()
	for {
		text, err := lines.ReadBytes('\n')
		if err != nil {
			return nil, fmt.Errorf("%w: it has no end", errDamaged)
		}

		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return nil, fmt.Errorf("%w: %w", errDamaged, err)
		}
		if l.Trailer != nil {
			return k, k.check(l.Trailer.Checksum == sum.Sum64())
		}

		// Lines are added before the checksum is known, to a value that is dropped if it is wrong.
		sum.Write(text)
		k.add(&l)
	}
}

func (k *kept) add(l *line) {
	switch {
	case l.Header != nil:
		k.header = *l.Header
	case l.Row != nil:
		k.rows = append(k.rows, l.Row)
	case l.Ended != nil && l.Ended.Row != nil:
		k.ended = append(k.ended, *l.Ended)
	case l.Bouncer != nil:
		k.bouncers = append(k.bouncers, *l.Bouncer)
	}
}

func (k *kept) check(same bool) error {
	if !same || k.header.Version != keptVersion {
		return fmt.Errorf("%w: the checksum or the version %d is wrong", errDamaged, k.header.Version)
	}
	return nil
}

// restore sets the table to its kept state.
func (t *table) restore(k *kept) {
	t.revision = k.header.Revision
	t.floor = k.header.Floor
	t.lastID = k.header.LastID
	t.rows = len(k.rows)
	t.changes = k.ended
	for _, r := range k.rows {
		t.values[r.Value] = append(t.values[r.Value], r.parsed())
		// Older changes had been forgotten, too.
		if r.Added > t.floor {
			t.changes = append(t.changes, change{Revision: r.Added, Row: r})
		}
	}

	slices.SortStableFunc(t.changes, func(a, b change) int { return cmp.Compare(a.Revision, b.Revision) })
	for _, b := range k.bouncers {
		t.bouncers[b.bouncer] = b.cursor
	}
}
