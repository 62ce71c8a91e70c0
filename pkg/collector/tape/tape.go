// Package tape reads the lines of one log file that others write, rename and write over: from a position on, packed or
// not, each line once it has ended. It knows bytes and lines; it does not know whose file it is, what a line says, or
// where the file went.
//
// A tape keeps at most 256 KiB, and one long line while it has room for it, which it shares with other tapes (Room). A
// tape is for one goroutine, a Room for many; only MakeRoom waits for other tapes.
package tape

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"weir/internal/logfile"
)

const (
	HeadBytes   = 1024 // at the beginning of a file, which identify it
	TailBytes   = 64   // before the position, which must stay as they are
	sampleBytes = 200  // of a line that is too long

	chunkBytes   = 128 << 10
	maxLineBytes = logfile.MaxLine
	keptBytes    = chunkBytes // of a line that has not ended yet
	smallBytes   = 2 * chunkBytes
	largeBytes   = maxLineBytes + smallBytes
	LongLines    = 4 // that may be in memory completely at a time
)

// ErrTruncated means that a file does not continue as it began: it is shorter than the part that was read, or other
// bytes stand at its beginning or before the position.
var ErrTruncated = errors.New("the file was cut off or overwritten")

// A Tape reads the open file of a log from a position on. Positions are of the decompressed bytes.
//
// buffer[read:filled] has the bytes that no line has taken yet. At least TailBytes before it stay in the buffer. With
// every read of a file that is not compressed the tape reads these again and compares them, and afterwards the file's
// beginning. So the bytes always belong to the log that was identified by that beginning, whenever the file is written
// over.
//
// The tape does not keep a line that is too long, or zeros before a line: read is after the bytes so far, and the line
// still begins at began.position. It does not keep an unfinished line of more than keptBytes either, and reads it
// again once it has ended (MakeRoom). A compressed file cannot be read again, so there the line is kept. Both need room:
// of all tapes that share a Room only LongLines have such a line in memory. A log with room must not wait for other
// logs, which may wait for room; so the tape gives it back as soon as the line is taken (shift). Zeros at the end of a
// file that is not compressed count as absent: the writer may have allocated them for later bytes.
type Tape struct {
	file       *os.File
	compressed logfile.Kind
	begins     []byte        // first bytes of a file that is not compressed, up to HeadBytes, growing with the file
	beginsAt   int64         // their position: after zeros, if the file begins with HeadBytes of them
	reader     io.ReadCloser // of a compressed file
	buffer     []byte
	base       int64 // position of buffer[0]
	read       int
	filled     int
	zeros      int64  // position up to which there were only zeros after the filled bytes
	passing    bool   // within a line that is not completely in the buffer any more
	long       bool   // passing because the line is too long
	far        bool   // passing because the line is long; it is read again once it has ended
	textBegins int64  // where that line begins, without zeros
	sample     []byte // of a line that is long
	room       *Room
	hasRoom    bool
	began      struct {
		position int64
		before   []byte
	} // where a line began that was, or is, not kept completely
}

// Open reads an open file from a position on. The file was identified by begins. Its long lines share room; nil has
// no bound.
func Open(file *os.File, compressed logfile.Kind, begins []byte, position int64, room *Room) (*Tape, error) {
	t := &Tape{file: file, compressed: compressed, room: room, begins: WithoutZeros(begins), buffer: make([]byte, chunkBytes)}
	if compressed == logfile.Plain && len(t.begins) > 0 {
		t.beginsAt = behindHole(file)
	}

	before := min(position, TailBytes)
	t.base = position - before
	if compressed != logfile.Plain {
		if err := t.decompress(); err != nil {
			return nil, err
		}
		if _, err := io.CopyN(io.Discard, t.reader, t.base); err != nil {
			t.Stop()
			return nil, shorter(err)
		}
	}

	n, err := t.from(t.buffer[:before], t.base)
	if int64(n) < before {
		if compressed != logfile.Plain && errors.Is(err, io.ErrUnexpectedEOF) && !truncatedStream(t.reader) {
			err = io.EOF // the packed text is complete
		}
		t.Stop()
		return nil, shorter(err)
	}

	t.read, t.filled = n, n
	return t, nil
}

// shorter translates an error that comes before the position.
func shorter(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return ErrTruncated
	}
	return err
}

func (t *Tape) decompress() (err error) {
	t.reader, err = logfile.Unpack(t.compressed, io.NewSectionReader(t.file, 0, 1<<62))
	return err
}

// from reads bytes at a position into b, as many as there are.
func (t *Tape) from(b []byte, at int64) (int, error) {
	if t.compressed == logfile.Plain {
		return t.file.ReadAt(b, at)
	}
	return io.ReadFull(t.reader, b)
}

// Close ends reading and closes the file.
func (t *Tape) Close() {
	t.Stop()
	t.file.Close()
}

// Position is where the next line begins, after the lines that were taken or passed over.
func (t *Tape) Position() int64 { return t.base + int64(t.read) }

// ReadTo is the position up to which the file was read, complete lines or not.
func (t *Tape) ReadTo() int64 { return max(t.base+int64(t.filled), t.zeros) }

// Before returns the bytes before a position that was taken just now, up to TailBytes.
func (t *Tape) Before(position int64) []byte {
	if t.began.before != nil && position == t.began.position {
		return t.began.before
	}
	end := int(position - t.base)
	return t.buffer[max(0, end-TailBytes):end]
}

// Packed reports whether the file is compressed.
func (t *Tape) Packed() bool { return t.compressed != logfile.Plain }

// Stat returns the present state of the file.
func (t *Tape) Stat() (os.FileInfo, error) { return t.file.Stat() }

// Lines returns the complete lines that were read and not taken; nil when there are none.
func (t *Tape) Lines() []byte {
	at := bytes.LastIndexByte(t.rest(), '\n')
	if at < 0 {
		return nil
	}
	return logfile.Line(t.rest()[:at], t.lineBegins() == 0)
}

// First returns the first lines of a file that is not compressed, as far as they were taken before; nil when there are none.
func (t *Tape) First() []byte {
	if t.Packed() || t.Position() <= t.beginsAt {
		return nil
	}
	text := make([]byte, min(t.Position()-t.beginsAt, keptBytes))
	n, _ := t.file.ReadAt(text, t.beginsAt)
	at := bytes.LastIndexByte(text[:n], '\n')
	if at < 0 {
		return nil
	}
	return logfile.Line(text[:at], true)
}

// Endless reports whether the present line is too long, where it begins, and how.
func (t *Tape) Endless() (position int64, begins []byte, is bool) {
	return t.began.position, t.sample, t.long
}

// Memory is the number of bytes that the tape keeps.
func (t *Tape) Memory() int { return len(t.buffer) }

// rest returns the bytes that no line has taken yet.
func (t *Tape) rest() []byte { return t.buffer[t.read:t.filled] }

// Line takes the next complete line, without its end. long means that it was too long: then only its beginning is
// returned.
func (t *Tape) Line() (line []byte, long, ok bool) {
	if t.hasRoom && t.filled-t.read <= chunkBytes {
		t.shift() // the long line was taken: give the room back before the next line, which may have to wait
	}
	rest := t.rest()
	end := bytes.IndexByte(rest, '\n')
	if end < 0 {
		t.passOver(rest)
		return nil, false, false
	}
	if t.far {
		return nil, false, false // recall reads it again first
	}

	first := t.lineBegins() == 0
	t.read += end + 1
	line, long = t.end(rest[:end], first)
	return bytes.TrimSuffix(line, []byte{'\r'}), long, true
}

// Last takes the remaining bytes as a line, in a file that will not grow.
func (t *Tape) Last() (line []byte, long bool) {
	rest, first := t.rest(), t.lineBegins() == 0
	t.read = t.filled
	return t.end(rest, first)
}

// lineBegins is where the next line begins.
func (t *Tape) lineBegins() int64 {
	if t.passing {
		return t.began.position
	}
	return t.Position()
}

// end finishes a line.
func (t *Tape) end(rest []byte, first bool) (line []byte, long bool) {
	wasLong := t.long
	t.passing, t.long = false, false
	if wasLong {
		return t.sample, true
	}
	if line = logfile.Line(rest, first); len(line) > maxLineBytes {
		return line[:sampleBytes], true
	}
	return line, false
}

// passOver skips the bytes of an unfinished line that need not be kept.
func (t *Tape) passOver(rest []byte) {
	text := logfile.WithoutHole(rest)
	switch {
	case len(rest) == 0:
		return
	case t.far:
		t.long = t.base+int64(t.filled)-t.textBegins > maxLineBytes
		t.far = !t.long
	case t.long || len(text) == 0:
	case len(text) > maxLineBytes:
		t.begin()
		t.long, t.sample = true, bytes.Clone(text[:sampleBytes])
	case len(text) > keptBytes && t.compressed == logfile.Plain:
		t.goFar(text)
	default:
		return
	}

	t.begin()
	t.read = t.filled
}

// goFar starts to pass over a line that begins with text. The tape reads it again once it has ended.
func (t *Tape) goFar(text []byte) {
	t.begin()
	t.far, t.textBegins = true, t.base+int64(t.filled-len(text))
	t.sample = bytes.Clone(text[:min(len(text), sampleBytes)])
}

// begin notes where a line began, before the tape passes over some of it.
func (t *Tape) begin() {
	if t.passing {
		return
	}
	t.began.position = t.Position()
	t.began.before = append([]byte{}, t.buffer[max(0, t.read-TailBytes):t.read]...)
	t.passing = true
}

// More reads the next bytes. It returns io.EOF when there are none at the moment.
func (t *Tape) More() error {
	t.shift()
	if t.compressed != logfile.Plain {
		// A little at a time: what follows a long line must not need room.
		n, err := t.reader.Read(t.buffer[t.filled:min(len(t.buffer), t.filled+chunkBytes)])
		t.filled += n
		if n > 0 {
			return nil
		}
		return err
	}
	return t.moreOfPlain()
}

// Discard drops the bytes that no line has taken yet, and gives room back. Nothing is read any more.
func (t *Tape) Discard() {
	t.filled = t.read
	t.shift()
}

// shift makes room after the bytes that no line has taken yet.
func (t *Tape) shift() {
	if drop := t.read - TailBytes; drop > 0 && (t.filled > chunkBytes/2 || t.read == t.filled) {
		copy(t.buffer, t.buffer[drop:t.filled])
		t.base += int64(drop)
		t.read -= drop
		t.filled -= drop
	}

	switch size := len(t.buffer); {
	case t.filled > size-chunkBytes/2 && size < smallBytes:
		t.moveTo(make([]byte, smallBytes))
	case t.filled > size-chunkBytes/2 && size < largeBytes:
		t.moveTo(t.room.buffer())
	case t.filled > size-chunkBytes/2:
		t.moveTo(make([]byte, size+chunkBytes))
	case size > chunkBytes && t.filled < chunkBytes/2:
		t.moveTo(make([]byte, chunkBytes))
	case size > smallBytes && t.filled <= chunkBytes+TailBytes:
		t.moveTo(make([]byte, smallBytes))
	}

	if len(t.buffer) <= smallBytes {
		t.GiveRoom()
	}
}

// moveTo changes to another buffer.
func (t *Tape) moveTo(buffer []byte) {
	copy(buffer, t.buffer[:t.filled])
	t.room.spare(t.buffer)
	t.buffer = buffer
}

// moreOfPlain reads on, and compares the last known bytes with the file again.
func (t *Tape) moreOfPlain() error {
	known := min(t.filled, TailBytes)
	var was [TailBytes]byte
	start := t.filled - known
	copy(was[:], t.buffer[start:t.filled])
	n, err := t.file.ReadAt(t.buffer[start:], t.base+int64(start))
	// Put the old bytes back on a mismatch, so that the stream can note them before the file is dropped.
	if n < known || !bytes.Equal(was[:known], t.buffer[start:t.filled]) {
		copy(t.buffer[start:], was[:known])
		if err != nil && err != io.EOF {
			return fmt.Errorf("reading on: %w", err)
		}
		return ErrTruncated
	}

	if err := t.sameBeginning(); err != nil {
		return err
	}
	if text := WithoutZeros(t.buffer[t.filled : start+n]); len(text) > 0 {
		t.filled += len(text)
		return nil
	}
	if n > known {
		t.zeros = max(t.zeros, t.base+int64(start+n))
		return t.pastZeros()
	}

	if err == nil {
		err = io.EOF
	}
	return err
}

// pastZeros looks for text after zeros. It returns io.EOF when there is none.
func (t *Tape) pastZeros() error {
	chunk := make([]byte, chunkBytes)
	for {
		n, err := t.file.ReadAt(chunk, t.zeros)
		if hole := len(chunk[:n]) - len(logfile.WithoutHole(chunk[:n])); hole < n {
			t.goTo(t.zeros + int64(hole))
			return nil
		}
		t.zeros += int64(n)
		if err != nil {
			return err
		}
		t.zeros = behindUnwritten(t.file, t.zeros)
	}
}

// goTo continues to read after zeros.
func (t *Tape) goTo(position int64) {
	hole := position - t.base - int64(t.filled)
	text := logfile.WithoutHole(t.rest())
	if len(text) > 0 && hole <= keptBytes {
		t.buffer = append(t.buffer[:t.filled], make([]byte, hole+chunkBytes)...)
		t.filled += int(hole)
		return
	}

	if len(text) > 0 {
		t.goFar(text)
	}
	t.begin()
	known := min(hole, TailBytes)
	clear(t.buffer[:known])
	t.base, t.read, t.filled = position-known, int(known), int(known)
}

// sameBeginning returns ErrTruncated when the file no longer begins as it did. It runs after a read: so the tape
// notices a file that was written over before or during the read, even if the bytes before the position are the same
// by chance or there are none.
func (t *Tape) sameBeginning() error {
	start := make([]byte, HeadBytes)
	n, err := t.file.ReadAt(start, t.beginsAt)
	switch start = start[:n]; {
	case err != nil && err != io.EOF:
		return fmt.Errorf("reading its beginning: %w", err)
	case !bytes.HasPrefix(start, t.begins):
		return ErrTruncated
	}
	t.begins = WithoutZeros(start)
	return nil
}

// Beginning returns the first bytes of a file that is not compressed, without zeros at the end. Those of a file that had
// only zeros before are looked for again.
func (t *Tape) Beginning() []byte {
	if len(t.begins) == 0 && t.compressed == logfile.Plain {
		if start, _, err := Head(t.file, logfile.Plain); err == nil {
			t.begins, t.beginsAt = WithoutZeros(start), behindHole(t.file)
		}
	}
	return t.begins
}

// Stop ends reading; the file stays open.
func (t *Tape) Stop() {
	t.GiveRoom()
	if t.reader != nil {
		t.reader.Close()
	}
}
