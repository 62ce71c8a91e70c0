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
	"syscall"

	"weir/internal/logfile"
)

const (
	chunkBytes   = 128 << 10
	maxLineBytes = logfile.MaxLine
	keptBytes    = chunkBytes // of a line that has not ended
	smallBytes   = 2 * chunkBytes
	largeBytes   = maxLineBytes + smallBytes
	longLines    = 4 // that may be in memory as a whole at a time
)

// An inode is a file, by whatever name.
type inode struct{ device, number uint64 }

func inodeOf(info os.FileInfo) inode {
	stat := info.Sys().(*syscall.Stat_t)
	return inode{stat.Dev, stat.Ino}
}

// errTruncated is that a file does not go on as it began: it is shorter than what was read of it, or other bytes stand
// at its beginning or before the position.
var errTruncated = errors.New("the file was cut off or overwritten")

// A tape is a log's file, open, read from a position on. Positions are of the decompressed bytes.
//
// buffer[read:filled] is what is yet to be taken, and at least the tailBytes before it stay where they are: with every
// read of a file that can be written to, they are read again and compared, and so is the file's beginning afterwards.
// What is read is therefore the log's that was identified by that beginning, whenever the file is written over.
//
// A line that is too long, and zeros before a line, are not kept: read is behind what is there of them, and the line that
// they belong to still begins at began.position. Nor is a line of more than keptBytes that has not ended: it is read again
// once it has (recall). In a compressed file nothing can be read again, so there it is kept. For either there has to be
// room: of all tapes that share it only longLines have such a line in memory. Zeros at the end of a file that is not compressed are not taken to be
// there: they may have been laid out for what will be written.
type tape struct {
	file       *os.File
	compressed logfile.Kind
	begins     []byte        // what a file that is not compressed begins with, up to headBytes, growing with the file
	beginsAt   int64         // where that stands: behind zeros, if the file begins with headBytes of them
	reader     io.ReadCloser // of a compressed file
	buffer     []byte
	base       int64 // position of buffer[0]
	read       int
	filled     int
	zeros      int64  // position up to which there were only zeros behind what is filled
	passing    bool   // within a line of which something is not in the buffer any more
	long       bool   // because it is too long
	far        bool   // because it is long, and is read again when it has ended
	textBegins int64  // where that line begins, without zeros
	sample     []byte // of a line that is long
	room       *longRoom
	hasRoom    bool
	began      struct {
		position int64
		before   []byte
	} // where a line began that was, or is, not kept as a whole
}

// openTape opens a file at a position. begins is what it was identified by.
func openTape(file *os.File, compressed logfile.Kind, begins []byte, position int64) (*tape, error) {
	t := &tape{file: file, compressed: compressed, begins: withoutZeros(begins), buffer: make([]byte, chunkBytes)}
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
			err = io.EOF // of what is packed, which is complete
		}
		t.stop()
		return nil, shorter(err)
	}

	t.read, t.filled = n, n
	return t, nil
}

// shorter is what an error means that comes before the position.
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

// from reads into b what stands at a position, as much as there is.
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

// position is up to where lines were taken, or passed over.
func (t *tape) position() int64 { return t.base + int64(t.read) }

// seen is how far the file was read, lines or not.
func (t *tape) seen() int64 { return max(t.base+int64(t.filled), t.zeros) }

// before are the bytes before a position that was taken just now, as many as there are, up to tailBytes.
func (t *tape) before(position int64) []byte {
	if t.began.before != nil && position == t.began.position {
		return t.began.before
	}
	end := int(position - t.base)
	return t.buffer[max(0, end-tailBytes):end]
}

// rest is how many bytes are there that do not make a whole line.
func (t *tape) rest() []byte { return t.buffer[t.read:t.filled] }

// line takes the next whole line, without its end. long says that it was too long: then only its beginning is given.
func (t *tape) line() (line []byte, long, ok bool) {
	rest := t.rest()
	end := bytes.IndexByte(rest, '\n')
	if end < 0 {
		t.passOver(rest)
		return nil, false, false
	}
	if t.far {
		return nil, false, false // until it is read again
	}

	first := t.lineBegins() == 0
	t.read += end + 1
	line, long = t.end(rest[:end], first)
	return bytes.TrimSuffix(line, []byte{'\r'}), long, true
}

// last takes what is left as a line: nothing will be added to it.
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

// end ends a line.
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

// passOver goes past what need not be kept of a line that has not ended yet.
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

// goFar begins to pass over a line that begins with text and is read again when it has ended.
func (t *tape) goFar(text []byte) {
	t.begin()
	t.far, t.textBegins = true, t.base+int64(t.filled-len(text))
	t.sample = bytes.Clone(text[:min(len(text), sampleBytes)])
}

// toRecall says whether a line that was passed over has ended.
func (t *tape) toRecall() bool { return t.far && bytes.IndexByte(t.rest(), '\n') >= 0 }

// recall reads the line again that was passed over, if one was, up to where the file was read. It waits for room.
func (t *tape) recall(ctx context.Context) error {
	if !t.far {
		return nil
	}
	if t.base+int64(t.filled)-t.textBegins > largeBytes-tailBytes { // as behind a large hole
		t.far, t.long = false, true
		return nil
	}
	if err := t.takeRoom(ctx); err != nil {
		return err
	}

	err := t.readAgain()
	if err != nil {
		t.giveRoom()
	}
	return err
}

// readAgain reads a line that was passed over. It says errTruncated when that is another by now.
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

	overlap := max(t.base, begin)
	if !bytes.Equal(t.buffer[overlap-t.base:t.filled], again[overlap-begin:end-begin]) || bytes.IndexByte(again[t.textBegins-begin:passed-begin], '\n') >= 0 {
		return errTruncated
	}

	t.room.spare(t.buffer)
	t.buffer, t.base, t.read, t.filled, t.far = again, begin, int(t.textBegins-begin), int(end-begin), false
	return nil
}

// grows says whether there has to be room for what is read next: that of a long line in a compressed file.
func (t *tape) grows() bool { return t.compressed != logfile.Plain && len(t.rest()) > keptBytes }

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

// A longRoom is what many tapes have together for lines that are long: buffers for longLines of them.
type longRoom struct {
	taken   chan struct{} // holds one for each tape that has such a line
	buffers sync.Pool     // of largeBytes
}

func newLongRoom() *longRoom { return &longRoom{taken: make(chan struct{}, longLines)} }

// buffer gives one of largeBytes.
func (r *longRoom) buffer() []byte {
	if r != nil {
		if b, ok := r.buffers.Get().(*[largeBytes]byte); ok {
			return b[:]
		}
	}
	return make([]byte, largeBytes)
}

// spare keeps a buffer that is not needed any more, if it is a large one.
func (r *longRoom) spare(b []byte) {
	if r != nil && cap(b) == largeBytes {
		r.buffers.Put((*[largeBytes]byte)(b[:largeBytes]))
	}
}

// begin keeps where a line began, before something of it is passed over.
func (t *tape) begin() {
	if t.passing {
		return
	}
	t.began.position = t.position()
	t.began.before = append([]byte{}, t.buffer[max(0, t.read-tailBytes):t.read]...)
	t.passing = true
}

// more reads on. It says io.EOF when there is nothing more at the moment.
func (t *tape) more() error {
	t.shift()
	if t.compressed != logfile.Plain {
		n, err := t.reader.Read(t.buffer[t.filled:])
		t.filled += n
		if n > 0 {
			return nil
		}
		return err
	}
	return t.moreOfPlain()
}

// shift makes room behind what is yet to be taken.
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
	case size > smallBytes && t.filled <= chunkBytes:
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

// moreOfPlain reads the last bytes before the end of what is known once more.
func (t *tape) moreOfPlain() error {
	known := min(t.filled, tailBytes)
	var was [tailBytes]byte
	start := t.filled - known
	copy(was[:], t.buffer[start:t.filled])
	n, err := t.file.ReadAt(t.buffer[start:], t.base+int64(start))
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

// pastZeros looks for what comes behind zeros. It says io.EOF when there is nothing.
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

// goTo goes on reading behind zeros.
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

// withoutZeros is what stands before the zeros at the end.
func withoutZeros(b []byte) []byte {
	if len(b) == 0 || b[len(b)-1] != 0 {
		return b
	}
	return bytes.TrimRight(b, "\x00")
}

// sameBeginning says errTruncated when the file does not begin any more as it did. It is asked after a read: a file
// that was written over before or meanwhile is found out, though its bytes before the position be the same by chance
// or though there be none.
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

// findBeginning looks for what the file begins with, where there were only zeros before.
func (t *tape) findBeginning() {
	if len(t.begins) > 0 || t.compressed != logfile.Plain {
		return
	}
	if start, _, err := head(t.file, logfile.Plain); err == nil {
		t.begins, t.beginsAt = withoutZeros(start), behindHole(t.file)
	}
}

// behindHole is where a log begins in a file whose first bytes are zeros, headBytes or more of them: at what comes behind
// them. Else, and where nothing comes, it begins where the file does. Many files begin with zeros, and not by chance:
// those that were cut off under a writer that goes on at its own offset.
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

// head is what a file begins with, at most headBytes; whole says that it has no more than that and never will.
func head(file *os.File, compressed logfile.Kind) (head []byte, whole bool, err error) {
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

// skipHole passes over zeros, and says whether something comes behind them.
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

// truncatedStream says whether a compressed file ends in the midst of its stream: it is being written.
func truncatedStream(r io.Reader) bool {
	_, err := r.Read(make([]byte, 1))
	return err != io.EOF
}

// isDamage says whether an error tells of what is in a compressed file. One that is cut off may be in the making, and
// what the disk refuses may be had later.
func isDamage(err error) bool {
	var refused *fs.PathError
	return err != io.EOF && err != io.ErrUnexpectedEOF && !errors.As(err, &refused)
}

// uncompressedSize is how many bytes a gz file holds, modulo 2^32, as its last member says; ok is false for others.
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
