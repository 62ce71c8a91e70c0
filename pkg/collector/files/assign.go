package files

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"
	"time"

	"weir/internal/logfile"
	"weir/pkg/collector/pace"
	"weir/pkg/collector/pipeline"
	"weir/pkg/collector/tape"
)

// look opens a file if it has something to read.
func (f *family) look(file found) {
	if done := f.finished[inodeOf(file.info)]; done != nil && unchanged(done, file.info) {
		f.undecided = f.undecided || f.in.Now().Sub(done.ModTime()) < closeAfter // it may be added to yet
		return
	}

	f.changedAgain(file)
	opened, err := openLog(file.path)
	if err != nil {
		if !errors.Is(err, os.ErrNotExist) { // it was rotated just now: a scan finds it under its new name
			f.bar(file.path, err)
		}
		return
	}
	if file.info, err = opened.Stat(); err != nil {
		opened.Close()
		return
	}

	if !f.sniff(&file, opened) || !f.identify(file, opened) {
		opened.Close()
	}
}

// openLog opens a file, unless the process may have few more files open: its listeners and its store need some, and
// without them it could not say why logs are not read.
func openLog(path string) (*os.File, error) {
	var most syscall.Rlimit
	opened, err := os.Open(path)
	if err != nil || syscall.Getrlimit(syscall.RLIMIT_NOFILE, &most) != nil {
		return opened, err
	}
	if spare := min(most.Cur/8, 256); uint64(opened.Fd()) >= most.Cur-spare { // the system gives the lowest number that is free
		opened.Close()
		return nil, &os.PathError{Op: "open", Path: path, Err: syscall.EMFILE}
	}
	return opened, nil
}

// sniff finds the compression of a file by its first bytes, and refuses the file when it is no log.
func (f *family) sniff(file *found, opened *os.File) (ok bool) {
	start := make([]byte, logfile.HeadBytes)
	n, err := opened.ReadAt(start, 0)
	if err != nil && err != io.EOF {
		f.bar(file.path, fmt.Errorf("reading %s: %w", file.path, err))
		return false
	}
	if n < logfile.TellingBytes && logfile.NamedAsPacked(file.path) {
		f.brokeEarly(*file, io.ErrUnexpectedEOF)
		return false
	}
	if file.compressed, err = logfile.KindOf(start[:n]); err != nil {
		f.refuse(file.path, err)
		return false
	}

	return true
}

// identify finds the log that a file belongs to, and takes the file if the log is to be read from it.
func (f *family) identify(file found, opened *os.File) (taken bool) {
	compressed := file.compressed
	start, complete, err := tape.Head(opened, compressed)
	switch {
	case err == nil:
	case compressed != logfile.Plain && isBroken(err):
		f.brokeEarly(file, err)
		return false
	default:
		f.bar(file.path, fmt.Errorf("reading %s: %w", file.path, err))
		return false
	}

	if err := logfile.CheckText(start[:min(len(start), logfile.HeadBytes)]); err != nil {
		f.refuse(file.path, err)
		return false
	}

	quiet := f.in.Now().Sub(file.info.ModTime()) > finalAfter
	if len(start) > 0 && len(tape.WithoutZeros(start)) == 0 { // it may be a copy that is being made
		f.undecided = f.undecided || !quiet
		return false
	}

	complete = complete || compressed == logfile.Plain && file.suffix != "" && quiet
	text, ok := opening(start, complete)
	if !ok {
		f.undecided = f.undecided || !complete
		if !complete && compressed != logfile.Plain {
			f.brokeEarly(file, io.ErrUnexpectedEOF)
		}
		return false
	}

	id := inodeOf(file.info)
	certain, possible := f.known.candidates(start, id, f.path)
	newerThan := int64(pace.NoTime)
	for _, log := range certain {
		f.known.saw(log)
		switch taken, mine := f.resume(log, file, opened, start); {
		case taken:
			return true
		case mine:
			return false
		}
		newerThan = max(newerThan, f.known.readOfPart(log, file))
	}

	// Only now may the file be a new log. A shorter copy of a known one still grows, so wait until it is quiet.
	if len(possible) > 0 && !quiet {
		f.undecided = true
		return false
	}

	log := f.known.register(f.owner, id, start, text)
	f.in.Logger().Info("a new log", "file", file.path, "log", log.source)
	if newerThan != pace.NoTime {
		f.known.onlyAfter(log, newerThan)
		f.in.Logger().Warn("a file begins with the same 1,024 bytes as a log that was read, and is shorter: only requests that are newer than the last one of that log count",
			"file", file.path, "newer than", time.UnixMilli(log.after).UTC())
	}
	if f.passOver(log, file, opened); log.done {
		f.known.release(log)
		return false
	}

	if f.open(log, file, opened, start) != nil {
		f.known.release(log)
		f.undecided = true
		return false
	}

	return true
}

// resume continues to read a log if the file has more of it. mine means that the file belongs to the log, whether it
// was taken or not.
func (f *family) resume(log *knownLog, file found, opened *os.File, start []byte) (taken, mine bool) {
	if log.done {
		return false, true
	}
	if owner := f.known.claim(log, f.owner); owner != nil {
		// This is a copy of a file that is read already, or another log. The bytes before the position show which
		// once the owner has stopped reading.
		if owner == f.owner && file.suffix == "" && f.readsRotated(log) {
			return false, false // it begins like the file before it, and is another log
		}
		f.undecided = true
		if owner != f.owner && file.suffix == "" {
			if f.known.differ(log, opened, file) {
				return false, false
			}
			if f.known.isFileOf(log, file) { // rotation has renamed it, or made a link to it
				return false, true
			}
			if f.doubt(file.path) >= finalAfter {
				f.notRead(file.path, "a file begins with the same 1,024 bytes as another file; it is taken for a copy and not read; if it is another log, it is read once it differs from that file",
					"other", owner.path)
			}
		}

		return false, true
	}

	// A file that is known to have nothing left is not read.
	if size, known := tape.UncompressedSize(opened, file.compressed, file.info.Size()); known && size == uint32(log.position) {
		f.finished[inodeOf(file.info)], f.done[inodeOf(file.info)] = file.info, file.path
		f.known.release(log)
		return false, true
	}

	err := f.open(log, file, opened, start)
	if err == tape.ErrTruncated && log.isOf(file) {
		return f.goOn(log, file, opened, start), true
	}
	if err == nil {
		return true, true
	}

	f.known.release(log)
	return false, f.isPart(log, file, err)
}

// isOf reports whether a file is the log's own although it does not continue the log: it has all of the log's long
// beginning, but not the bytes that were read last. A loss of power does that: it takes bytes that the disk had not
// stored.
func (log *knownLog) isOf(file found) bool {
	return log.size >= tape.HeadBytes && log.identity.id == inodeOf(file.info) && file.compressed == logfile.Plain
}

// goOn reads such a file as another log. Requests that are not newer than the last one read were read before.
func (f *family) goOn(log *knownLog, file found, opened *os.File, start []byte) (taken bool) {
	if file.suffix != "" && f.in.Now().Sub(file.info.ModTime()) <= finalAfter {
		f.known.release(log)
		f.undecided = true // it may be a copy that is being made, with a number that the file had
		return false
	}

	text, _ := opening(start, false)
	next := f.known.register(f.owner, inodeOf(file.info), start, text)
	f.known.goOn(log, next)
	f.in.Logger().Error("a file lost its end after it was read, as by a loss of power: counted requests stay counted, and reading continues with requests that are newer than the last one",
		"file", file.path, "read", log.position, "bytes", file.info.Size(), "newer than", time.UnixMilli(next.after).UTC(), "log", next.source)

	if f.open(next, file, opened, start) != nil {
		f.known.release(next)
		f.undecided = true
		return false
	}

	return true
}

// readsRotated reports whether the family reads a log from a rotated file that still exists. Then the live file is not
// a copy of it.
func (f *family) readsRotated(known *knownLog) bool {
	return slices.ContainsFunc(f.logs, func(log *fileLog) bool { return log.knownLog == known && log.suffix != "" && !log.gone })
}

// isPart reports whether a file that does not continue the log is still a part of it, and not another log. A file that
// cannot be read counts as a part until it can.
func (f *family) isPart(log *knownLog, file found, fault error) bool {
	if file.compressed != logfile.Plain { // it is being compressed, or was broken off
		f.finished[inodeOf(file.info)] = file.info
		f.undecided = true
		return true
	}

	// A plain file that cannot be read now may be either; it is looked at again.
	if fault != tape.ErrTruncated {
		f.undecided = true
		return true
	}
	if file.info.Size() >= log.position || log.size < tape.HeadBytes {
		return false
	}

	// A client can make a long beginning, and so two logs that begin alike. The live file may be the second.
	if file.suffix == "" && f.doubt(file.path) >= finalAfter {
		return false
	}

	f.undecided = true
	if file.suffix != "" && f.in.Now().Sub(file.info.ModTime()) > finalAfter {
		f.notRead(file.path, "a file begins with the same 1,024 bytes as a log that was read, and is shorter: it is taken for a part of that log and not read; if it is another log, it is read once it is longer",
			"bytes", file.info.Size(), "read", log.position)
	}

	return true
}

// passOver moves a new log's position to its end, or marks the log as done, where the configuration starts reading
// after its content.
func (f *family) passOver(log *knownLog, file found, opened *os.File) {
	began := f.began
	if !began.skip || began.notBefore != pace.NoTime && file.info.ModTime().UnixMilli() >= began.notBefore {
		return
	}

	f.known.mu.Lock()
	defer f.known.mu.Unlock()
	if file.compressed != logfile.Plain {
		log.done = true
	} else {
		log.position = tape.AfterLastLine(opened, file.info.Size())
		log.tailAt = log.position
		before := make([]byte, min(log.position, tape.TailBytes))
		n, _ := opened.ReadAt(before, log.position-int64(len(before)))
		log.setTail(before[:n])
	}

	f.known.save(log)
}

// open begins to read a log from a file that begins with start. It reports problems itself, and returns errTruncated
// when the file does not continue the log.
func (f *family) open(known *knownLog, file found, opened *os.File, start []byte) error {
	t, err := tape.Open(opened, file.compressed, start, known.position, f.known.room)
	if err == nil && known.last > 0 && !known.endsLike(t.Before(t.Position())) {
		t.Stop()
		err = tape.ErrTruncated
	}
	if err != nil {
		switch {
		case errors.Is(err, tape.ErrTruncated):
		case file.compressed != logfile.Plain && isBroken(err):
			f.broke(file.path, file.info, err)
		default:
			f.bar(file.path, fmt.Errorf("reading %s: %w", file.path, err))
		}
		return err
	}

	log := &fileLog{knownLog: known, known: f.known, tape: t, inode: inodeOf(file.info), path: file.path, suffix: file.suffix, info: file.info, grown: f.in.Now(), at: file.info.ModTime()}
	notBefore := f.began.notBefore
	if known.after > 0 {
		notBefore = max(notBefore, known.after+1)
	}

	config := pipeline.StreamConfig{
		Log: file.path, Source: known.source, Position: known.position, Reached: known.reached, Journal: f.known.cuts, Send: f.known.cuts.Send,
		Keep: log.keep, Member: f.member, NotBefore: notBefore, LateNotes: true, Unsynced: true,
	}
	if !t.Packed() { // of others the length says nothing
		config.Measure = log.lag
	}

	log.stream = f.in.NewStream(config)
	f.logs = append(f.logs, log)
	f.woken(false)
	return nil
}
