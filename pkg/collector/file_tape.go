package collector

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"weir/internal/logfile"
)

const (
	headBytes   = 1024 // at the beginning of a file, which identify it
	tailBytes   = 64   // before the position, which must stay as they are
	sampleBytes = 200  // of a line that is too long

	chunkBytes   = 128 << 10
	maxLineBytes = logfile.MaxLine
	keptBytes    = chunkBytes // of a line that has not ended yet
	smallBytes   = 2 * chunkBytes
	largeBytes   = maxLineBytes + smallBytes
	longLines    = 4 // that may be in memory completely at a time
)

// errTruncated means that a file does not continue as it began: it is shorter than the part that was read, or other
// bytes stand at its beginning or before the position.
var errTruncated = errors.New("the file was cut off or overwritten")

// A tape reads the open file of a log from a position on. Positions are of the decompressed bytes.
//
// buffer[read:filled] has the bytes that no line has taken yet. At least tailBytes before it stay in the buffer. With
// every read of a file that is not compressed the tape reads these again and compares them, and afterwards the file's
// beginning. So the bytes always belong to the log that was identified by that beginning, whenever the file is written
// over.
//
// The tape does not keep a line that is too long, or zeros before a line: read is after the bytes so far, and the line
// still begins at began.position. It does not keep an unfinished line of more than keptBytes either, and reads it
// again once it has ended (recall). A compressed file cannot be read again, so there the line is kept. Both need room:
// of all tapes that share a longRoom only longLines have such a line in memory. A log with room must not wait for other
// logs, which may wait for room; so the tape gives it back as soon as the line is taken (shift). Zeros at the end of a
// file that is not compressed count as absent: the writer may have allocated them for later bytes.
type tape struct {
	file       *os.File
	compressed logfile.Kind
	begins     []byte        // first bytes of a file that is not compressed, up to headBytes, growing with the file
	beginsAt   int64         // their position: after zeros, if the file begins with headBytes of them
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
	room       *longRoom
	hasRoom    bool
	began      struct {
		position int64
		before   []byte
	} // where a line began that was, or is, not kept completely
}

// openTape reads an open file from a position on. The file was identified by begins. Its long lines share room; nil is
// a room of its own.
func openTape(file *os.File, compressed logfile.Kind, begins []byte, position int64, room *longRoom) (*tape, error) {
	t := &tape{file: file, compressed: compressed, room: room, begins: withoutZeros(begins), buffer: make([]byte, chunkBytes)}
	if compressed == logfile.Plain && len(t.begins) > 0 {
		t.beginsAt = behindHole(file)
	}

	before := min(position, tailBytes)
	t.base = position - before
	if compressed != logfile.Plain {
		if err := t.decompress(); err != nil {
			return nil, err
		}
		if _, err := io.CopyN(io.Discard, t.reader, t.base); err != nil {
			t.stop()
			return nil, shorter(err)
		}
	}

	n, err := t.from(t.buffer[:before], t.base)
	if int64(n) < before {
		if compressed != logfile.Plain && errors.Is(err, io.ErrUnexpectedEOF) && !truncatedStream(t.reader) {
			err = io.EOF // the packed text is complete
		}
		t.stop()
		return nil, shorter(err)
	}

	t.read, t.filled = n, n
	return t, nil
}

// shorter translates an error that comes before the position.
func shorter(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return errTruncated
	}
	return err
}

func (t *tape) decompress() (err error) {
	t.reader, err = logfile.Unpack(t.compressed, io.NewSectionReader(t.file, 0, 1<<62))
	return err
}

// from reads bytes at a position into b, as many as there are.
func (t *tape) from(b []byte, at int64) (int, error) {
	if t.compressed == logfile.Plain {
		return t.file.ReadAt(b, at)
	}
	return io.ReadFull(t.reader, b)
}

func (t *tape) close() {
	t.stop()
	t.file.Close()
}

// position is where the next line begins, after the lines that were taken or passed over.
func (t *tape) position() int64 { return t.base + int64(t.read) }

// readTo is the position up to which the file was read, complete lines or not.
func (t *tape) readTo() int64 { return max(t.base+int64(t.filled), t.zeros) }

// before returns the bytes before a position that was taken just now, up to tailBytes.
func (t *tape) before(position int64) []byte {
	if t.began.before != nil && position == t.began.position {
		return t.began.before
	}
	end := int(position - t.base)
	return t.buffer[max(0, end-tailBytes):end]
}

// packed reports whether the file is compressed.
func (t *tape) packed() bool { return t.compressed != logfile.Plain }

// stat returns the present state of the file.
func (t *tape) stat() (os.FileInfo, error) { return t.file.Stat() }

// lines returns the complete lines that were read and not taken; nil when there are none.
func (t *tape) lines() []byte {
	at := bytes.LastIndexByte(t.rest(), '\n')
	if at < 0 {
		return nil
	}
	return logfile.Line(t.rest()[:at], t.lineBegins() == 0)
}

// endless reports whether the present line is too long, where it begins, and how.
func (t *tape) endless() (position int64, begins []byte, is bool) {
	return t.began.position, t.sample, t.long
}

// memory is the number of bytes that the tape keeps.
func (t *tape) memory() int { return len(t.buffer) }

// rest returns the bytes that no line has taken yet.
func (t *tape) rest() []byte { return t.buffer[t.read:t.filled] }

// line takes the next complete line, without its end. long means that it was too long: then only its beginning is
// returned.
func (t *tape) line() (line []byte, long, ok bool) {
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

// last takes the remaining bytes as a line, in a file that will not grow.
func (t *tape) last() (line []byte, long bool) {
	rest, first := t.rest(), t.lineBegins() == 0
	t.read = t.filled
	return t.end(rest, first)
}

// lineBegins is where the next line begins.
func (t *tape) lineBegins() int64 {
	if t.passing {
		return t.began.position
	}
	return t.position()
}

// end finishes a line.
func (t *tape) end(rest []byte, first bool) (line []byte, long bool) {
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
func (t *tape) passOver(rest []byte) {
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
func (t *tape) goFar(text []byte) {
	t.begin()
	t.far, t.textBegins = true, t.base+int64(t.filled-len(text))
	t.sample = bytes.Clone(text[:min(len(text), sampleBytes)])
}

// needsRoom reports whether makeRoom has to be called before the next line is taken or more is read. final means that
// nothing more comes.
func (t *tape) needsRoom(final bool) bool {
	switch {
	case t.far:
		return final || bytes.IndexByte(t.rest(), '\n') >= 0 // a line that was passed over has ended
	case t.hasRoom || t.compressed == logfile.Plain:
		return false
	}
	return len(t.rest()) > keptBytes && bytes.IndexByte(t.rest(), '\n') < 0
}

// makeRoom waits until the tape may have a long line in memory, and reads a line again that was passed over, up to the
// position where the file was read.
func (t *tape) makeRoom(ctx context.Context) error {
	if err := t.takeRoom(ctx); err != nil {
		return err
	}
	if !t.far {
		return nil
	}
	if t.base+int64(t.filled)-t.textBegins > largeBytes-tailBytes { // as after a large hole
		t.far, t.long = false, true
		return nil
	}

	err := t.readAgain()
	if err != nil {
		t.giveRoom()
	}
	return err
}

// readAgain reads a line that was passed over. It returns errTruncated when the line was written over meanwhile.
func (t *tape) readAgain() error {
	begin, end, passed := max(0, t.textBegins-tailBytes), t.base+int64(t.filled), t.position()
	again := t.room.buffer()[:max(chunkBytes, end-begin)]
	n, err := t.file.ReadAt(again[:end-begin], begin)
	if int64(n) < end-begin {
		if err = shorter(err); err != errTruncated {
			err = fmt.Errorf("reading a long line again: %w", err)
		}
		return err
	}

	// The line must still join the bytes in the buffer, and have no end before them: otherwise it was written over.
	overlap := max(t.base, begin)
	if !bytes.Equal(t.buffer[overlap-t.base:t.filled], again[overlap-begin:end-begin]) || bytes.IndexByte(again[t.textBegins-begin:passed-begin], '\n') >= 0 {
		return errTruncated
	}

	t.room.spare(t.buffer)
	t.buffer, t.base, t.read, t.filled, t.far = again, begin, int(t.textBegins-begin), int(end-begin), false
	return nil
}

// holdsRoom reports whether the tape has a long line in memory. It must not wait for other logs then.
func (t *tape) holdsRoom() bool { return t.hasRoom }

// takeRoom waits until the tape may have a long line in memory.
func (t *tape) takeRoom(ctx context.Context) error {
	if t.hasRoom || t.room == nil {
		return nil
	}

	select {
	case t.room.taken <- struct{}{}:
		t.hasRoom = true
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// giveRoom lets another tape have a long line.
func (t *tape) giveRoom() {
	if t.hasRoom {
		t.hasRoom = false
		<-t.room.taken
	}
}

// A longRoom is shared by many tapes: it has buffers for longLines long lines.
type longRoom struct {
	taken   chan struct{} // one element for each tape that has such a line
	buffers sync.Pool     // of largeBytes
}

func newLongRoom() *longRoom { return &longRoom{taken: make(chan struct{}, longLines)} }

// used is the number of tapes that have room.
func (r *longRoom) used() int { return len(r.taken) }

// buffer returns a buffer of largeBytes.
func (r *longRoom) buffer() []byte {
	if r != nil {
		if b, ok := r.buffers.Get().(*[largeBytes]byte); ok {
			return b[:]
		}
	}
	return make([]byte, largeBytes)
}

// spare keeps a large buffer for its next use.
func (r *longRoom) spare(b []byte) {
	if r != nil && cap(b) == largeBytes {
		r.buffers.Put((*[largeBytes]byte)(b[:largeBytes]))
	}
}

// begin notes where a line began, before the tape passes over some of it.
func (t *tape) begin() {
	if t.passing {
		return
	}
	t.began.position = t.position()
	t.began.before = append([]byte{}, t.buffer[max(0, t.read-tailBytes):t.read]...)
	t.passing = true
}

// more reads the next bytes. It returns io.EOF when there are none at the moment.
func (t *tape) more() error {
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

// discard drops the bytes that no line has taken yet, and gives room back. Nothing is read any more.
func (t *tape) discard() {
	t.filled = t.read
	t.shift()
}

// shift makes room after the bytes that no line has taken yet.
func (t *tape) shift() {
	if drop := t.read - tailBytes; drop > 0 && (t.filled > chunkBytes/2 || t.read == t.filled) {
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
	case size > smallBytes && t.filled <= chunkBytes+tailBytes:
		t.moveTo(make([]byte, smallBytes))
	}

	if len(t.buffer) <= smallBytes {
		t.giveRoom()
	}
}

// moveTo changes to another buffer.
func (t *tape) moveTo(buffer []byte) {
	copy(buffer, t.buffer[:t.filled])
	t.room.spare(t.buffer)
	t.buffer = buffer
}

// moreOfPlain reads on, and compares the last known bytes with the file again.
func (t *tape) moreOfPlain() error {
	known := min(t.filled, tailBytes)
	var was [tailBytes]byte
	start := t.filled - known
	copy(was[:], t.buffer[start:t.filled])
	n, err := t.file.ReadAt(t.buffer[start:], t.base+int64(start))
	// Put the old bytes back on a mismatch, so that the stream can note them before the file is dropped.
	if n < known || !bytes.Equal(was[:known], t.buffer[start:t.filled]) {
		copy(t.buffer[start:], was[:known])
		if err != nil && err != io.EOF {
			return fmt.Errorf("reading on: %w", err)
		}
		return errTruncated
	}

	if err := t.sameBeginning(); err != nil {
		return err
	}
	if text := withoutZeros(t.buffer[t.filled : start+n]); len(text) > 0 {
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
func (t *tape) pastZeros() error {
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
	}
}

// goTo continues to read after zeros.
func (t *tape) goTo(position int64) {
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
	known := min(hole, tailBytes)
	clear(t.buffer[:known])
	t.base, t.read, t.filled = position-known, int(known), int(known)
}

// withoutZeros returns b without the zeros at its end.
func withoutZeros(b []byte) []byte {
	if len(b) == 0 || b[len(b)-1] != 0 {
		return b
	}
	return bytes.TrimRight(b, "\x00")
}

// sameBeginning returns errTruncated when the file no longer begins as it did. It runs after a read: so the tape
// notices a file that was written over before or during the read, even if the bytes before the position are the same
// by chance or there are none.
func (t *tape) sameBeginning() error {
	start := make([]byte, headBytes)
	n, err := t.file.ReadAt(start, t.beginsAt)
	switch start = start[:n]; {
	case err != nil && err != io.EOF:
		return fmt.Errorf("reading its beginning: %w", err)
	case !bytes.HasPrefix(start, t.begins):
		return errTruncated
	}
	t.begins = withoutZeros(start)
	return nil
}

// beginning returns the first bytes of a file that is not compressed, without zeros at the end. Those of a file that had
// only zeros before are looked for again.
func (t *tape) beginning() []byte {
	if len(t.begins) == 0 && t.compressed == logfile.Plain {
		if start, _, err := head(t.file, logfile.Plain); err == nil {
			t.begins, t.beginsAt = withoutZeros(start), behindHole(t.file)
		}
	}
	return t.begins
}

// behindHole is the position where a log begins in a file whose first headBytes or more are zeros: at the first byte
// after them. Otherwise, and where nothing follows, a log begins where the file does. Files that begin with zeros are
// common: they were cut off under a writer that continues at its own offset.
func behindHole(file *os.File) int64 {
	chunk := make([]byte, headBytes)
	for at := int64(0); ; {
		n, err := file.ReadAt(chunk, at)
		zeros := n - len(logfile.WithoutHole(chunk[:n]))
		at += int64(zeros)
		switch {
		case zeros < n && at >= headBytes:
			return at
		case zeros < n || err != nil:
			return 0
		case len(chunk) < chunkBytes:
			chunk = make([]byte, chunkBytes)
		}
	}
}

// head returns the first bytes of a file, at most headBytes; complete means that it has no more and never will.
func head(file *os.File, compressed logfile.Kind) (head []byte, complete bool, err error) {
	head = make([]byte, headBytes)
	if compressed == logfile.Plain {
		n, err := file.ReadAt(head, behindHole(file))
		if err == io.EOF {
			err = nil
		}
		return head[:n], false, err
	}

	t := &tape{file: file, compressed: compressed}
	if err := t.decompress(); err != nil {
		return nil, false, err
	}
	defer t.reader.Close()
	text := bufio.NewReader(t.reader)
	n, err := io.ReadFull(text, head)
	if err == nil && len(withoutZeros(head)) == 0 && skipHole(text) {
		n, err = io.ReadFull(text, head)
	}
	if errors.Is(err, logfile.ErrBehind) {
		return head[:n], true, nil
	}
	if err == io.EOF || err == io.ErrUnexpectedEOF && n < headBytes {
		return head[:n], !truncatedStream(text), nil
	}

	return head[:n], false, err
}

// skipHole passes over zeros, and reports whether something follows them.
func skipHole(text *bufio.Reader) bool {
	for {
		if _, err := text.Peek(1); err != nil {
			return false
		}
		there, _ := text.Peek(text.Buffered())
		rest := logfile.WithoutHole(there)
		_, _ = text.Discard(len(there) - len(rest))
		if len(rest) > 0 {
			return true
		}
	}
}

// truncatedStream reports whether a compressed file ends in the middle of its stream: it is still being written.
func truncatedStream(r io.Reader) bool {
	_, err := r.Read(make([]byte, 1))
	return err != io.EOF
}

// isDamage reports whether an error is about the content of a compressed file. A file that is cut off may still grow,
// and a file that the disk refuses may be readable later.
func isDamage(err error) bool {
	var refused *fs.PathError
	return err != io.EOF && err != io.ErrUnexpectedEOF && !errors.As(err, &refused)
}

// uncompressedSize is the number of bytes in a gz file, modulo 2^32, as its last member states; ok is false for
// others.
func uncompressedSize(file *os.File, compressed logfile.Kind, size int64) (uint32, bool) {
	var trailer [4]byte
	if compressed != logfile.Gzip || size < 18 {
		return 0, false
	}
	_, err := file.ReadAt(trailer[:], size-4)
	return uint32(trailer[0]) | uint32(trailer[1])<<8 | uint32(trailer[2])<<16 | uint32(trailer[3])<<24, err == nil
}

// stop ends reading; the file stays open.
func (t *tape) stop() {
	t.giveRoom()
	if t.reader != nil {
		t.reader.Close()
	}
}

// behindLastLine is the position after the last line of a file. Bytes after it are an incomplete line, or zeros that
// may be written over.
func behindLastLine(file *os.File, size int64) int64 {
	chunk := make([]byte, chunkBytes)
	for end := size; end > 0; {
		begin := max(0, end-chunkBytes)
		n, _ := file.ReadAt(chunk[:end-begin], begin)
		if at := bytes.LastIndexByte(chunk[:n], '\n'); at >= 0 {
			return begin + int64(at) + 1
		}
		end = begin
	}
	return 0
}
