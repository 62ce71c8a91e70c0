// Package journal keeps, in one file of a folder, how far logs are read and the cuts that Kafka may not have yet, so that
// they can be sent again unchanged after a crash. It knows records and their bytes, and neither streams nor Kafka.
//
// Guarantees. A cut is on the disk, synced, when its noted function is called. A damaged or incomplete end of the
// file is left out, and what stands before it is kept. A watermark next to the file shows whether it went back.
//
// Open starts the one goroutine that writes, and Close ends it. Methods may be called from any goroutine; only Standing
// waits for the disk. While the disk refuses, changes queue, as many as their callers make, also from the beginning.
package journal

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/telemetry"
	"weir/internal/topic"
)

const (
	lazyEvery    = time.Second
	syncPatience = 5 * time.Second // for the log of hits
	compactBytes = 32 << 20        // a journal longer than this, and than twice its first size, is rewritten
)

// A Journal is the one journal of all files of a process, in a file that it appends to. One goroutine writes it:
// all changes that have queued while it waited for the disk go with one write and one sync (a group commit). Changes
// that a crash may lose, such as that Kafka has a cut, are written with the next cut or within a second.
//
// The journal keeps the content of the file in memory: the state of every log, and the cuts that Kafka may not have.
//
// Where the log of hits can keep notes (Notes), a note of a cut goes there with its hits, in one write, and the file
// needs no cut: a cut counts as noted at once. The file then has the states of logs up to a second late, and Open takes
// the later ones from the notes. The write need not be synced if the log can be read again: the file is only written once
// the log of hits is synced, so a crash loses a cut together with its note, and never leaves the file ahead.
//
// When a write fails, the content of the file is unknown; the journal then rewrites it from memory until that
// succeeds, and cuts and their streams wait meanwhile.
type Journal struct {
	folder  *folder
	logger  *slog.Logger
	faults  *telemetry.Faults
	gauge   prometheus.Gauge // of outstanding cuts
	notes   Notes            // nil: cuts are noted in the file
	version uint64
	ID      string // of the collector: random, made with the journal
	fresh   bool   // there was no journal

	mu      sync.Mutex
	queue   []change
	asks    []func(*state) // answered once the changes queued before them are written
	fault   string
	count   int               // of outstanding cuts in the file
	flying  map[string][]*Cut // those that are noted with their hits, by source
	kick    chan struct{}
	closing chan struct{}
	ended   chan struct{}

	// Of the goroutine:
	file       *os.File
	bytes      int64 // of the file, all of them sound
	began      int64 // its first size in bytes
	generation uint64
	state      state
	buffer     []byte
	written    []topic.Note // of values that the file has: they are removed
	disk       Disk
}

// A Disk writes and syncs files. Tests replace it by one that fails.
type Disk struct {
	Write func(*os.File, []byte) error
	Sync  func(*os.File) error
}

// RealDisk is the disk that is used where no other is given.
var RealDisk = Disk{
	Write: func(file *os.File, b []byte) error { _, err := file.Write(b); return err },
	Sync:  datasync,
}

// A change is one thing for the journal to write. noted, if any, is called once it is on the disk.
type change struct {
	entry
	noted func()
}

// Options are what a journal uses.
type Options struct {
	Logger      *slog.Logger
	Outstanding prometheus.Gauge // of cuts
	Disk        Disk             // the zero value is the real one
	Notes       Notes            // of the log of hits; nil when it has none
	Seen        map[string]int   // how many values each source remembers that remembers any
}

// Notes are values by key that the log of hits has next to its records.
type Notes interface {
	// Notes returns those whose keys begin with a prefix.
	Notes(ctx context.Context, prefix []byte) ([]topic.Note, error)

	// Together writes messages and notes in one write. It is done when the last message is. Unless it is synced, a crash
	// may then lose it, with all that comes after it.
	Together(ctx context.Context, messages []topic.Message, notes []topic.Note, synced bool) error

	// Sync returns when all that is done is on the disk.
	Sync(ctx context.Context) error
}

// Open locks a folder, reads its journal and starts its goroutine. Close ends it and unlocks the folder.
func Open(path string, o Options) (*Journal, error) {
	f, err := lockFolder(path)
	if err != nil {
		return nil, err
	}
	if o.Disk.Write == nil {
		o.Disk = RealDisk
	}
	j := &Journal{
		folder: f, logger: o.Logger, faults: telemetry.NewFaults(o.Logger), gauge: o.Outstanding, state: newState(),
		kick: make(chan struct{}, 1), closing: make(chan struct{}), ended: make(chan struct{}),
		disk: o.Disk, notes: o.Notes, flying: map[string][]*Cut{}, version: plainVersion,
	}
	if len(o.Seen) > 0 {
		j.version = journalVersion
	}

	if err = j.read(); err == nil && j.notes != nil {
		err = j.readNotes()
	}
	if err != nil {
		f.unlock()
		return nil, err
	}
	j.state.remember(o.Seen)

	fault := j.rewrite()
	if fault != nil && !j.mayWait(fault) {
		f.unlock()
		return nil, fmt.Errorf("writing the journal: %w", fault)
	}

	j.counted()
	go j.run(fault)
	return j, nil
}

// mayWait reports whether a journal that cannot be written when it is opened is used all the same, and written later. The
// fault has to be one that passes, as that of a full disk does. With notes, the next start has to find the identity.
func (j *Journal) mayWait(fault error) bool {
	passes := errors.Is(fault, syscall.ENOSPC) || errors.Is(fault, syscall.EDQUOT) || errors.Is(fault, syscall.EIO)
	return passes && (j.notes == nil || !j.fresh)
}

func (j *Journal) path() string { return j.folder.in("journal") }

// read loads the file, or makes a new identity where there is none.
func (j *Journal) read() error {
	data, err := os.ReadFile(j.path())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the journal: %w", err)
	}

	// The mark outlives the journal: it shows whether the journal is gone or went back.
	mark := j.folder.mark()
	header, sound, err := j.state.read(data)
	if err != nil {
		return fmt.Errorf("reading the journal %s: %w", j.path(), err)
	}

	if header == nil {
		j.ID, j.fresh = NewID(), true
		if mark.Collector != "" {
			j.logger.Error("the collector's journal is gone: a new collector begins, which reads all files again as configured; requests that were counted may be counted twice",
				"journal", j.path(), "was", mark.Collector, "is", j.ID)
		}
		return nil
	}

	j.ID, j.generation = header.collector, header.generation
	if mark.Collector == j.ID && (mark.Generation > j.generation || mark.Generation == j.generation && mark.Bytes > sound) {
		j.logger.Error("the collector's journal went back: it is shorter than it was. Files are read again from where it ends; the aggregator reports batches that it has counted already as conflicts, and does not count them twice",
			"journal", j.path(), "bytes", sound, "written", mark.Bytes, "generation", j.generation, "generation written", mark.Generation)
	} else if torn := int64(len(data)) - sound; torn > 0 {
		j.logger.Info("the journal's last entry was incomplete; it is removed", "bytes", torn)
	}

	return nil
}

// NewID returns a random identity, for a collector or for a log that begins again.
func NewID() string {
	id := make([]byte, 8)
	rand.Read(id)
	return hex.EncodeToString(id)
}

// Note keeps a cut, and calls noted once the disk has it, from the journal's goroutine and in the order of the calls.
func (j *Journal) Note(c *Cut, noted func()) {
	if j.notes != nil {
		j.mu.Lock()
		j.flying[c.Source] = append(j.flying[c.Source], c)
		j.mu.Unlock()
		noted()
		return
	}
	cut := change{entry{kind: entryCut, cut: c}, noted}
	if len(c.Seen) == 0 {
		j.enqueue(true, cut)
		return
	}
	j.enqueue(true, change{entry: c.seenOf()}, cut) // together: the file is never rewritten in between
}

// Done notes that Kafka has a log's cut that ends at a position.
func (j *Journal) Done(source string, to int64) {
	if j.landed(source, to) {
		return
	}
	j.enqueue(false, change{entry: entry{kind: entryDone, log: Log{Source: source, Position: to}}})
}

// Set keeps the state of a log that is part of no cut.
func (j *Journal) Set(log Log) {
	j.enqueue(false, change{entry: entry{kind: entryLog, log: log}})
}

// Forget removes a log.
func (j *Journal) Forget(source string) {
	j.enqueue(false, change{entry: entry{kind: entryForget, log: Log{Source: source}}})
	j.forgetNote(source)
}

func (j *Journal) enqueue(urgent bool, changes ...change) {
	j.mu.Lock()
	j.queue = append(j.queue, changes...)
	j.mu.Unlock()
	if urgent {
		select {
		case j.kick <- struct{}{}:
		default:
		}
	}
}

// Logs returns the states of all logs when the journal was opened. It is called before sources run.
func (j *Journal) Logs() []Log {
	logs := make([]Log, 0, len(j.state.logs))
	for _, log := range j.state.logs {
		logs = append(logs, *log)
	}
	return logs
}

// Status returns the number of cuts that Kafka may not have, and the error while the disk refuses.
func (j *Journal) Status() (outstanding int, fault string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	outstanding = j.count
	for _, cuts := range j.flying {
		outstanding += len(cuts)
	}
	return outstanding, j.fault
}

// Recovered returns the cuts that were outstanding when the journal was opened, in their order, at its first call.
func (j *Journal) Recovered() []*Cut {
	cuts := j.state.recovered
	j.state.recovered = nil
	return cuts
}

// Close writes the queued changes, ends the goroutine and unlocks the folder.
func (j *Journal) Close() error {
	close(j.closing)
	<-j.ended
	defer j.folder.unlock()
	if j.file == nil { // it could not be written since it was opened
		return nil
	}
	return j.file.Close()
}

// Standing returns the state of a log by the changes noted until now, and the cuts that Kafka may not have.
func (j *Journal) Standing(ctx context.Context, source string) (log *Log, outstanding []*Cut, err error) {
	answered := make(chan struct{})
	j.mu.Lock()
	j.asks = append(j.asks, func(s *state) {
		defer close(answered)
		if known := s.logs[source]; known != nil {
			is := *known
			log = &is
		}
		log, outstanding = j.standing(source, log, slices.Clone(s.cuts[source]))
	})
	j.mu.Unlock()

	select {
	case j.kick <- struct{}{}:
	default:
	}

	select {
	case <-answered:
		return log, outstanding, nil
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
}
