package files

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"weir/internal/logfile"
	"weir/pkg/collector/journal"
	"weir/pkg/collector/pace"
	"weir/pkg/collector/pipeline"
	"weir/pkg/collector/tape"
)

// A knownLog is a log in the journal. Logs.mu guards its fields. While the log is read, position and reached are
// out of date; the stream has the current ones.
type knownLog struct {
	identity
	source   string
	position int64
	reached  int64
	tailAt   int64  // the position that the identity's tail is before, also while it is read
	stale    bool   // no file of it has been seen for forgetDays, and none since the start
	owner    *owner // the only family that reads it
	stored   bool   // the process before knew it
	seen     bool   // a file of it has been seen since the start
	longer   bool   // another family's live file has all that was read of the log, and more
}

// An owner is a family that reads logs.
type owner struct{ path string } // of its live file

// patternPrefix separates the patterns in the journal from the logs there. The entry of a pattern keeps the request
// time from which its files are read.
const patternPrefix = "pattern:"

// A log is forgotten when no file of it has been seen for so many days, nor for so long after the start: the process may
// have been off meanwhile, or have had nothing to read, while its files are still there.
const (
	forgetDays  = 90
	forgetAfter = time.Hour
)

// lostAfter is the time after the start by which all files have been seen.
const lostAfter = 30 * time.Second

// Logs are all logs of the process's file sources, and the patterns that were begun.
type Logs struct {
	pipeline *pipeline.Pipeline
	journal  *journal.Journal
	cuts     *pipeline.KeptCuts
	room     *tape.Room // of their tapes

	mu       sync.Mutex
	logs     []*knownLog
	patterns map[string]int64
	taken    map[string]bool // names of sources
}

// NewLogs reads what a journal has of logs.
func NewLogs(p *pipeline.Pipeline, j *journal.Journal, cuts *pipeline.KeptCuts) *Logs {
	k := &Logs{pipeline: p, journal: j, cuts: cuts, room: tape.NewRoom(), patterns: map[string]int64{}, taken: map[string]bool{}}
	for _, log := range j.Logs() {
		if pattern, ok := strings.CutPrefix(log.Source, patternPrefix); ok {
			k.patterns[pattern] = log.Reached
			continue
		}

		i, ok := readIdentity(log.Note)
		if !ok {
			continue
		}
		stale := k.isStale(i)
		k.logs = append(k.logs, &knownLog{identity: i, source: log.Source, position: log.Position, reached: log.Reached, tailAt: log.Position, stale: stale, stored: true})
		k.taken[log.Source] = true
	}

	return k
}

// isStale reports whether no file of a log has been seen for so long that the log may be forgotten.
func (k *Logs) isStale(i identity) bool { return i.day < k.today()-forgetDays }

// forget removes the logs that are still stale some time after the start, when the sources have found their files. The
// clock may have been wrong at the start, so it is asked again.
func (k *Logs) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.logs = slices.DeleteFunc(k.logs, func(log *knownLog) bool {
		if !log.stale || log.owner != nil || !k.isStale(log.identity) {
			return false
		}
		k.journal.Forget(log.source)
		delete(k.taken, log.source)
		return true
	})
}

// lost returns the log that the process before read last as a live file, if no file of it has been seen since, although
// the live file is there: rotation has moved it to where no pattern leads. nil means that none is lost.
func (k *Logs) lost(live string) *knownLog {
	if file, err := os.Open(live); err != nil || file.Close() != nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	var last *knownLog
	for _, log := range k.logs {
		if log.stored && log.live == live && (last == nil || log.reached > last.reached) {
			last = log
		}
	}
	if last == nil || last.seen || last.done || last.over || last.position == 0 {
		return nil
	}
	return last
}

// today is the number of days since 1970.
func (k *Logs) today() int64 { return k.pipeline.Now().Unix() / 86400 }

// begin notes that a pattern is read, from a request time on, unless it was noted before. It returns the time noted
// first.
func (k *Logs) begin(pattern string, from int64) (notBefore int64, first bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if notBefore, ok := k.patterns[pattern]; ok {
		return notBefore, false
	}
	k.patterns[pattern] = from
	k.journal.Set(journal.Log{Source: patternPrefix + pattern, Reached: from})
	return from, true
}

// candidates returns the logs that a file with this beginning may belong to: certain by its beginning, or possible
// because the file is still shorter than the known part of the log. The log that was last read from that inode comes
// first, then the one with the longest known head.
func (k *Logs) candidates(head []byte, id inode, live string) (certain, possible []*knownLog) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, log := range k.logs {
		sure, may := log.beginsLike(head)
		switch {
		case log.over || !sure && !may || !log.mayBeOf(id, live):
		case sure && (log.id == id || len(certain) > 0 && certain[0].id != id && log.size > certain[0].size):
			certain = append([]*knownLog{log}, certain...)
		case sure:
			certain = append(certain, log)
		case may:
			possible = append(possible, log)
		}
	}

	return certain, possible
}

// mayBeOf reports whether a log may have a file in a family. Logs of different families may begin with the same few
// lines. They count as one only if a long beginning is known, or the log's own file no longer exists.
func (log *knownLog) mayBeOf(id inode, live string) bool {
	if log.live == live || log.identity.id == id || log.size >= tape.HeadBytes || isRotatedFrom(live, log.live) {
		return true
	}
	_, err := os.Stat(log.live)
	return log.owner == nil && errors.Is(err, os.ErrNotExist)
}

// isRotatedFrom reports whether a path is that of a file rotated from the live one. Earlier versions followed such a
// file as a live one where the pattern matched it.
func isRotatedFrom(live, path string) bool {
	_, rotated := rotationOf(filepath.Base(live), filepath.Base(path))
	return rotated && filepath.Dir(live) == filepath.Dir(path)
}

// hasFile reports whether some log was last read from that inode.
func (k *Logs) hasFile(id inode) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.ContainsFunc(k.logs, func(log *knownLog) bool { return log.identity.id == id })
}

// isFileOf reports whether a log was last read from this file, whatever its name was then.
func (k *Logs) isFileOf(log *knownLog, file found) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return log.identity.id == inodeOf(file.info)
}

// claim makes a log the family's own, or returns its present owner.
func (k *Logs) claim(log *knownLog, f *owner) (other *owner) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if log.owner == nil {
		log.owner = f
		return nil
	}
	return log.owner
}

// release gives a log back that was not read.
func (k *Logs) release(log *knownLog) {
	k.mu.Lock()
	defer k.mu.Unlock()
	log.owner = nil
}

// releaseAt gives a log back that was read up to a position and a request time.
func (k *Logs) releaseAt(log *knownLog, position, reached int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	log.owner, log.position, log.reached, log.longer = nil, position, reached, false
}

// restart resets the logs of a family to the state in the journal, and gives them back. It sends the cuts again that
// Kafka may not have.
func (k *Logs) restart(ctx context.Context, f *owner) error {
	k.mu.Lock()
	owned := slices.DeleteFunc(slices.Clone(k.logs), func(log *knownLog) bool { return log.owner != f })
	k.mu.Unlock()
	for _, log := range owned {
		noted, err := k.cuts.Standing(ctx, log.source)
		if err != nil {
			return err
		}

		k.mu.Lock()
		log.owner = nil
		if noted != nil {
			log.position, log.reached, log.tailAt = noted.Position, noted.Reached, noted.Position
			if i, ok := readIdentity(noted.Note); ok {
				log.identity = i
			}
		}
		k.mu.Unlock()
	}

	return nil
}

// register makes a new log, owned by the family, for a file with this head. text is its opening.
func (k *Logs) register(f *owner, id inode, head []byte, text []byte) *knownLog {
	k.mu.Lock()
	defer k.mu.Unlock()
	log := &knownLog{identity: identity{live: f.path, id: id, line: xxhash.Sum64(text), day: k.today()}, reached: pace.NoTime, owner: f}
	log.setHead(head)
	if begins := tape.WithoutZeros(head); len(begins) > 0 {
		log.setHead(begins) // zeros may be written over
	}

	// Logs with the same name and beginning need different sources, or batches of one would be skipped as the other's.
	log.setTail(nil)
	for nth := 0; ; nth++ {
		log.source = sourceName(filepath.Base(f.path), k.journal.ID, log.line, nth)
		if !k.taken[log.source] {
			break
		}
	}

	k.taken[log.source] = true
	k.logs = append(k.logs, log)
	k.save(log)
	return log
}

// goOn lets the new log next continue a file that lost its end. It reads only requests that are newer than those of
// log.
func (k *Logs) goOn(log, next *knownLog) {
	k.mu.Lock()
	defer k.mu.Unlock()
	log.owner, log.over = nil, true
	k.save(log)
	k.onlyNewer(next, log.reached)
}

// onlyAfter lets a new log begin with the requests that are newer than a time.
func (k *Logs) onlyAfter(log *knownLog, reached int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.onlyNewer(log, reached)
}

func (k *Logs) onlyNewer(log *knownLog, reached int64) {
	log.reached = reached
	log.after = max(reached, 0)
	k.save(log)
}

// readOfPart returns the time up to which a log was read that a shorter live file may be the beginning of, and
// pace.NoTime for any other file.
func (k *Logs) readOfPart(log *knownLog, file found) int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	if log.owner != nil || file.suffix != "" || file.compressed != logfile.Plain || file.info.Size() >= log.position {
		return pace.NoTime
	}
	return log.reached
}

// save makes the journal keep a state of a log that is part of no cut.
func (k *Logs) save(log *knownLog) {
	k.journal.Set(journal.Log{Source: log.source, Position: log.position, Reached: log.reached, Note: log.identity.bytes()})
}

// saw keeps a log known as long as its files exist.
func (k *Logs) saw(log *knownLog) {
	k.mu.Lock()
	defer k.mu.Unlock()
	log.stale, log.seen = false, true
	if day := k.today(); log.day < day-7 {
		log.day = day
		if log.owner == nil { // else its position is out of date; the next cut keeps the day
			k.save(log)
		}
	}
}
