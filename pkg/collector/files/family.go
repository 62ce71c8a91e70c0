package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"weir/internal/logfile"
	"weir/internal/sleep"
	"weir/pkg/collector/pace"
	"weir/pkg/collector/pipeline"
	"weir/pkg/collector/tape"
	"weir/pkg/request"
)

const (
	finalAfter = 5 * time.Second  // a file that is not live and was not written for so long is not written any more
	closeAfter = 30 * time.Second // and is closed
)

// A family is a live file and its rotated files: access.log, access.log.1, access.log.2.gz. Each file belongs to a
// log, and several files may belong to the same one (a copy, a compressed file). The family reads each log to its end,
// the oldest first, from whichever file has it. One goroutine does all of this.
type family struct {
	*owner
	source *source
	folder string
	name   string
	real   atomic.Pointer[string] // the path behind links
	began  beginning
	member *pace.Member

	wake   chan struct{} // holds one
	polled atomic.Bool
	moved  atomic.Bool // files came or went

	logs      []*fileLog            // open, oldest first
	undecided bool                  // some files could not be assigned to a log yet
	barred    map[string]error      // files that cannot be read, by path
	warned    map[string]bool       // files that were logged as not read
	finished  map[inode]os.FileInfo // files that have nothing to read until they change
	done      map[inode]string      // those of them that were read to their end, with their paths
	broken    map[inode]*brokenFile // the finished files that are cut off or damaged
	choice    *request.Choice       // the format of the log before
}

// A fileLog is a log with an open file.
type fileLog struct {
	*knownLog
	known   *Logs
	stream  *pipeline.Stream
	tape    *tape.Tape
	inode   inode
	path    string
	suffix  string
	gone    bool        // no name leads to it
	ended   bool        // compressed, and read to its end
	endless bool        // a line that is too long was logged
	info    os.FileInfo // of the file before it was opened
	grown   time.Time
	at      time.Time
}

func newFamily(source *source, path string, began beginning) *family {
	f := &family{source: source, owner: &owner{path}, began: began, wake: make(chan struct{}, 1), finished: map[inode]os.FileInfo{}, done: map[inode]string{}, broken: map[inode]*brokenFile{}, warned: map[string]bool{}}
	f.folder, f.name = filepath.Dir(path), filepath.Base(path)
	f.real.Store(&path)
	return f
}

// woken makes the family look for new lines; moved means that files came or went.
func (f *family) woken(moved bool) {
	if moved {
		f.moved.Store(true)
	}
	sleep.Wake(f.wake)
}

// poll makes the family look without a notification.
func (f *family) poll() {
	f.polled.Store(true)
	f.woken(false)
}

// has reports whether a file may belong to the family.
func (f *family) has(folder, name string) bool {
	for _, live := range [2]string{f.path, *f.real.Load()} {
		base := filepath.Base(live)
		if folder == filepath.Dir(live) {
			if _, rotated := rotationOf(base, name); rotated || name == base {
				return true
			}
		}
	}
	return false
}

// run follows the family until the context is done, and again after a panic.
func (f *family) run(ctx context.Context) {
	defer f.member.Leave()
	defer func() { _ = pipeline.Contained(func() error { f.closeAll(); return nil }) }()
	err := f.source.in.Outlive(ctx, f.path, func() error {
		defer f.giveRoom() // after a panic too: the family then pauses
		f.follow(ctx)
		return nil
	}, func() error { return f.restart(ctx) })
	if err != nil && ctx.Err() == nil {
		f.source.in.Trouble("read", err)
	}
}

// restart prepares the family after a panic: its logs continue from the state in the journal. Noted cuts are sent
// again, as after the end of a process; everything else is read again.
func (f *family) restart(ctx context.Context) error {
	for _, log := range f.logs {
		_ = pipeline.Contained(func() error { log.tape.Close(); return nil })
		log.stream.Abandon()
	}
	f.logs, f.choice, f.undecided = nil, nil, true
	clear(f.finished)
	clear(f.done)
	clear(f.broken)
	return f.source.known.restart(ctx, f.owner)
}

// follow reads the family's logs until the context is done.
func (f *family) follow(ctx context.Context) {
	f.scan()
	if len(f.logs) == 0 && !f.undecided {
		f.source.in.Logger().Info("there is nothing to read yet", "file", f.path)
	}
	for ctx.Err() == nil {
		if err := f.read(ctx); err != nil {
			f.failed(ctx, err)
		}
		f.pause(ctx)
	}
	f.drain(ctx)
}

// failed reports an error, unless the context is done.
func (f *family) failed(ctx context.Context, err error) {
	if ctx.Err() == nil {
		f.source.in.Trouble("read", err)
	}
}

// drain waits until Kafka has acknowledged the hits that were sent. Hits that are held because their log is ahead of
// others are read again at the next start.
func (f *family) drain(ctx context.Context) {
	patient, cancel := pipeline.Draining(ctx)
	defer cancel()
	for _, log := range f.logs {
		_, err := log.stream.Leave(patient)
		switch {
		case errors.Is(err, pipeline.ErrHeld):
			f.source.in.Logger().Info("left to the next start", "log", log.path, "why", err)
		case err != nil && !errors.Is(err, context.Canceled):
			f.source.in.Logger().Info("left in the journal", "log", log.path, "why", err)
		}
	}
}

func (f *family) closeAll() {
	for _, log := range f.logs {
		f.close(log)
	}
	f.logs = nil
}

func (f *family) close(log *fileLog) {
	log.stream.Close()
	log.tape.Close()
	f.source.known.releaseAt(log.knownLog, log.stream.Position(), log.stream.Reached())
}

// pause waits until there is something to look at, and looks for files that came or went.
func (f *family) pause(ctx context.Context) {
	var err error
	if n := len(f.logs); n > 0 {
		live := f.logs[n-1]
		live.stream.SetBehind(false)
		if err = live.stream.Wait(ctx, f.wake); err != nil {
			f.failed(ctx, err)
		}
	} else {
		f.member.Idle(true)
		select {
		case <-f.wake:
		case <-ctx.Done():
		}
		f.member.Idle(false)
	}

	polled := f.polled.Swap(false)
	if f.moved.Swap(false) || f.undecided || polled && f.changed() {
		f.scan()
	}
}

// changed reports whether the live file is no longer the file that is read as such, or a broken file has moved.
func (f *family) changed() bool {
	f.tidy()
	for _, one := range f.broken {
		if one.moved() {
			return true
		}
	}
	info, err := os.Stat(f.path)
	if err != nil {
		return len(f.logs) > 0 && f.logs[len(f.logs)-1].suffix == ""
	}
	return len(f.logs) == 0 && f.finished[inodeOf(info)] == nil || len(f.logs) > 0 && f.logs[len(f.logs)-1].inode != inodeOf(info)
}

// tidy closes files that will not grow any more.
func (f *family) tidy() {
	kept := f.logs[:0]
	for _, log := range f.logs {
		if log.suffix == "" && !log.gone || !log.stream.Quiet() ||
			!log.ended && f.source.in.Now().Sub(log.grown) < closeAfter {
			kept = append(kept, log)
			continue
		}

		info, err := log.tape.Stat()
		switch {
		case log.ended:
			f.finished[log.inode] = log.info
		case err == nil && info.Size() != log.tape.ReadTo(): // written just now
			kept = append(kept, log)
			continue
		case err == nil:
			f.finished[log.inode] = info
		}
		if f.finished[log.inode] != nil && f.broken[log.inode] == nil && !log.gone {
			f.done[log.inode] = log.path
		}
		f.close(log)
	}

	if len(kept) < len(f.logs) {
		clear(f.logs[len(kept):])
		f.logs = kept
		f.showRead(nil)
	}
}

// read reads all logs as far as they go, the oldest first. Kafka has all of a rotated log before the next log is read.
func (f *family) read(ctx context.Context) error {
	for i := 0; i < len(f.logs); i++ {
		log := f.logs[i]
		err := f.readLog(ctx, log)
		if err == nil && i < len(f.logs)-1 {
			err = log.stream.Drain(ctx)
		}

		switch {
		case errors.Is(err, tape.ErrTruncated):
			f.truncated(ctx, log)
			i = -1
		case errors.Is(err, errUnfinished):
			f.drop(ctx, log)
			i = -1
		case err != nil && log.tape.HoldsRoom() && ctx.Err() == nil: // of a file that cannot be read at the moment
			f.putAway(ctx, log)
			return err
		case err != nil:
			return err
		case f.moved.Swap(false):
			f.scan() // open new files before rotation deletes them
			i = -1
		}
	}

	return nil
}

// readLog reads a log as far as it goes, or until files came or went.
func (f *family) readLog(ctx context.Context, log *fileLog) error {
	for !log.ended {
		if err := f.lines(ctx, log); err != nil {
			return err
		}

		if err := log.tape.More(); err != nil {
			return f.atEnd(ctx, log, err)
		}
		log.grown = f.source.in.Now()
		if lag, known := log.lag(); known {
			log.stream.SetLag(lag)
		}
		if f.moved.Load() && !log.tape.HoldsRoom() {
			return nil
		}
	}

	return nil
}

// lines gives the stream the complete lines that the tape has.
func (f *family) lines(ctx context.Context, log *fileLog) error {
	s, t := log.stream, log.tape
	if t.NeedsRoom(false) {
		if err := f.makeRoom(ctx, log); err != nil {
			return err
		}
	}

	f.learn(s, t)
	for {
		line, long, ok := t.Line()
		if !ok {
			f.reportEndless(log)
			if t.NeedsRoom(false) { // for the next bytes
				return f.makeRoom(ctx, log)
			}
			return nil
		}
		if err := log.add(ctx, line, long); err != nil {
			return err
		}
	}
}

// makeRoom waits until the log may have a long line in memory. Before, the stream becomes ready to take the line
// without waiting for other logs: they may be waiting for this room.
func (f *family) makeRoom(ctx context.Context, log *fileLog) error {
	if err := log.stream.Ready(ctx); err != nil {
		return err
	}
	f.member.Wait(true)
	defer f.member.Wait(false)
	return log.tape.MakeRoom(ctx)
}

// giveRoom gives back all room.
func (f *family) giveRoom() {
	for _, log := range f.logs {
		log.tape.GiveRoom()
	}
}

// add gives the stream a line of the tape; of a line that is too long, its beginning.
func (log *fileLog) add(ctx context.Context, line []byte, long bool) error {
	if long {
		return log.stream.Lost(ctx, line, pipeline.ReasonLong, log.tape.Position())
	}
	return log.stream.Add(ctx, line, log.tape.Position())
}

// reportEndless logs once that a log's last line is too long, and continues.
func (f *family) reportEndless(log *fileLog) {
	position, begins, endless := log.tape.Endless()
	if endless && !log.endless {
		log.endless = true
		f.source.in.Logger().Warn("a line of more than 16 MiB is not counted; reading continues after its end: is the file a log?",
			"file", log.path, "position", position, "begins", request.Sample(string(begins)))
	}
}

// learn finds out the format from the lines on the tape, unless the format of the log before fits them.
func (f *family) learn(s *pipeline.Stream, t *tape.Tape) {
	if !s.Learns() {
		return
	}
	if complete := t.Lines(); complete != nil {
		lines := strings.Split(string(complete), "\n")
		f.choice = s.Learn(lines[:min(len(lines), pipeline.SampleLines)], f.choice)
	}
}

// errUnfinished means that a compressed file ends in the middle: it is still being written, or it is cut off.
var errUnfinished = errors.New("the compressed file is not complete yet")

// atEnd handles a log that has no more bytes at the moment.
func (f *family) atEnd(ctx context.Context, log *fileLog, err error) error {
	log.stream.SetLag(0)
	if log.tape.Packed() && tape.IsDamage(err) {
		f.broke(log.path, log.info, err)
		if !errors.Is(err, logfile.ErrBehind) { // with other bytes behind the end, the text is complete
			log.tape.Discard()
		}
		err = io.EOF
	}

	switch {
	case err != io.EOF && err != io.ErrUnexpectedEOF:
		return fmt.Errorf("reading %s: %w", log.path, err)
	case err == io.ErrUnexpectedEOF && log.tape.Packed():
		return errUnfinished
	}

	// The last line of a live file may still grow; that of a packed or rotated file will not.
	final := log.tape.Packed() || (log.suffix != "" || log.gone) && f.source.in.Now().Sub(log.grown) > finalAfter
	if !final {
		return nil
	}

	log.ended = log.tape.Packed()
	if log.tape.NeedsRoom(true) {
		if err := f.makeRoom(ctx, log); err != nil {
			return err
		}
	}

	rest, long := log.tape.Last()
	if len(rest) == 0 {
		return nil
	}
	if err := log.add(ctx, rest, long); err != nil {
		return err
	}

	log.tape.Discard() // a long line need not stay in memory
	return nil
}

// lag is the number of bytes that wait to be read, if the file has a length.
func (log *fileLog) lag() (bytes int64, known bool) {
	info, err := log.tape.Stat()
	if err != nil {
		return 0, false
	}
	return max(0, info.Size()-log.tape.Position()), true
}

// truncated handles a log whose file no longer continues as it began: the file belongs to another log now. The unread
// rest may be in a copy.
func (f *family) truncated(ctx context.Context, log *fileLog) {
	f.drop(ctx, log)
	f.scan()
	from := "none"
	for _, other := range f.logs {
		if other.knownLog == log.knownLog {
			from = other.path
		}
	}
	f.source.in.Logger().Warn("a file was cut off or overwritten: a new log begins in it, and the unread rest of the old one is looked for in copies",
		"file", log.path, "read", log.position, "copy", from)
}

// drop closes a log's file once Kafka has all that was read from it. The family opens the file again when it changes.
func (f *family) drop(ctx context.Context, log *fileLog) {
	f.putAway(ctx, log)
	if log.tape.Packed() {
		f.broke(log.path, log.info, io.ErrUnexpectedEOF)
	}
}

// putAway closes a log's file once Kafka has all that was read from it. The next scan opens it again.
func (f *family) putAway(ctx context.Context, log *fileLog) {
	log.tape.Discard()
	if err := log.stream.Drain(ctx); err != nil {
		f.failed(ctx, err)
	}
	f.logs = slices.DeleteFunc(f.logs, func(other *fileLog) bool { return other == log })
	f.undecided = true
	f.close(log)
}

// keep returns the bytes that the journal keeps with a position.
func (log *fileLog) keep(position int64) []byte {
	log.known.mu.Lock()
	defer log.known.mu.Unlock()
	log.setTail(log.tape.Before(position))
	log.tailAt = position
	begins := log.tape.Beginning()
	if known := min(position, int64(len(begins))); known > int64(log.size) || known > 0 && log.blank() {
		log.setHead(begins[:known])
	}

	log.day = log.known.today()
	log.identity.id = log.inode
	return log.identity.bytes()
}
