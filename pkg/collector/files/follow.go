package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"weir/internal/logfile"
	"weir/internal/sleep"
	"weir/pkg/collector/pipeline"
	"weir/pkg/collector/tape"
	"weir/pkg/request"
)

// run follows the family until the context is done, and again after a panic.
func (f *family) run(ctx context.Context) {
	defer f.member.Leave()
	defer func() { _ = pipeline.Contained(func() error { f.closeAll(); return nil }) }()
	err := f.in.Outlive(ctx, f.path, func() error {
		defer f.giveRoom() // after a panic too: the family then pauses
		f.follow(ctx)
		return nil
	}, func() error { return f.restart(ctx) })
	if err != nil && ctx.Err() == nil {
		f.in.TroubleOf(f.path, "read", err)
	}
}

// restart prepares the family after a panic: its logs continue from the state in the journal. Noted cuts are sent
// again, as after the end of a process; everything else is read again.
func (f *family) restart(ctx context.Context) error {
	for _, log := range f.logs {
		f.allEnds.set(log, nil)
		_ = pipeline.Contained(func() error { log.tape.Close(); return nil })
		log.stream.Abandon()
	}
	f.logs, f.choice, f.undecided = nil, nil, true
	clear(f.finished)
	clear(f.done)
	clear(f.broken)
	return f.known.restart(ctx, f.owner)
}

// follow reads the family's logs until the context is done.
func (f *family) follow(ctx context.Context) {
	f.scan()
	if len(f.logs) == 0 && !f.undecided {
		f.in.Logger().Info("there is nothing to read yet", "file", f.path)
	}
	for ctx.Err() == nil {
		if err := f.read(ctx); err != nil {
			f.failed(ctx, err)
		} else {
			f.in.MendedOf(f.path, "read")
		}
		f.pause(ctx)
	}
	f.drain(ctx)
}

// failed reports an error, unless the context is done.
func (f *family) failed(ctx context.Context, err error) {
	if ctx.Err() == nil {
		f.in.TroubleOf(f.path, "read", err)
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
			f.in.Logger().Info("left to the next start", "log", log.path, "why", err)
		case err != nil && !errors.Is(err, context.Canceled):
			f.in.Logger().Info("left in the journal", "log", log.path, "why", err)
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
	f.allEnds.set(log, nil)
	log.stream.Close()
	log.tape.Close()
	f.known.releaseAt(log.knownLog, log.stream.Position(), log.stream.Reached())
}

// pause waits until there is something to look at, and looks for files that came or went.
func (f *family) pause(ctx context.Context) {
	var err error
	if n := len(f.logs); n > 0 {
		live := f.logs[n-1]
		live.stream.SetBehind(false)
		if f.setSteady(f.growth.note(live.grown)) {
			err = live.stream.Beat(ctx)
		} else {
			err = live.stream.Wait(ctx, f.wake)
		}
		if err != nil {
			f.failed(ctx, err)
		}
	} else {
		f.setSteady(false)
		f.member.Idle(true)
		select {
		case <-f.wake:
		case <-ctx.Done():
		}
		f.member.Idle(false)
	}

	// While a packed copy waits for its log, changed closes the log's file, which may be deleted.
	changed := f.polled.Swap(false) && f.changed()
	if f.moved.Swap(false) || f.undecided || changed {
		f.scan()
	}
}

// setSteady notes whether the live log is read at each beat. If it is not any more, notifications are needed again.
func (f *family) setSteady(steady bool) bool {
	if f.steady.Swap(steady) && !steady {
		sleep.Wake(f.calmed)
	}
	return steady
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
	if len(f.logs) > 0 {
		return f.logs[len(f.logs)-1].inode != inodeOf(info)
	}
	done := f.finished[inodeOf(info)]
	return done == nil || !unchanged(done, info) // it may be back with more, after its folder was away
}

// tidy closes files that will not grow any more, and live files that another live file continues: these are copies of
// it that were found first.
func (f *family) tidy() {
	kept := f.logs[:0]
	for _, log := range f.logs {
		isCopy := log.suffix == "" && !log.gone && f.known.isLonger(log.knownLog)
		idle := f.in.Now().Sub(log.grown)
		if log.suffix == "" && !log.gone && !isCopy || !log.stream.Quiet() ||
			!log.ended && idle < closeAfter && !(isCopy && idle >= finalAfter) {
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

		// Asked before reading: at the end of the file, all of this is read.
		info, _ := log.tape.Stat()
		if err := log.tape.More(); err != nil {
			f.allEnds.set(log, info)
			return f.atEnd(ctx, log, err)
		}
		log.grown = f.in.Now()
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
	t := log.tape
	if t.NeedsRoom(false) {
		if err := f.makeRoom(ctx, log); err != nil {
			return err
		}
	}

	f.learn(log)
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
		f.in.Logger().Warn("a line of more than 16 MiB is not counted; reading continues after its end: is the file a log?",
			"file", log.path, "position", position, "begins", request.Sample(string(begins)))
	}
}

// learn finds out the format from the lines on the tape, unless the format of the log before fits them. After a start, the
// first lines of the log decide again: all new ones may be a client's, with text that fits no format.
func (f *family) learn(log *fileLog) {
	s, t := log.stream, log.tape
	if !s.Learns() {
		return
	}
	if first := t.First(); f.choice == nil && first != nil && !log.learned {
		log.learned = true
		f.choice = s.Learn(sampleOf(first), nil)
	}
	if complete := t.Lines(); complete != nil {
		f.choice = s.Learn(sampleOf(complete), f.choice)
	}
}

func sampleOf(complete []byte) []string {
	lines := strings.Split(string(complete), "\n")
	return lines[:min(len(lines), pipeline.SampleLines)]
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
	final := log.tape.Packed() || (log.suffix != "" || log.gone) && f.in.Now().Sub(log.grown) > finalAfter
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

// truncated handles a log whose file no longer continues as it began: the file belongs to another log now. The unread
// rest may be in a copy.
func (f *family) truncated(ctx context.Context, log *fileLog) {
	f.drop(ctx, log)
	if err := f.known.cuts.Settle(ctx, log.source); err != nil { // after a crash its lines could not be read again
		f.failed(ctx, err)
	}
	f.scan()
	from := "none"
	for _, other := range f.logs {
		if other.knownLog == log.knownLog {
			from = other.path
		}
	}
	f.in.Logger().Warn("a file was cut off or overwritten: a new log begins in it, and the unread rest of the old one is looked for in copies",
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
