package tape

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"weir/internal/logfile"
)

// AfterLastLine is the position after the last line of a file. Bytes after it are an incomplete line, or zeros that
// may be written over.
func AfterLastLine(file *os.File, size int64) int64 {
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

// Head returns the first bytes of a file, at most HeadBytes; complete means that it has no more and never will.
func Head(file *os.File, compressed logfile.Kind) (head []byte, complete bool, err error) {
	head = make([]byte, HeadBytes)
	if compressed == logfile.Plain {
		n, err := file.ReadAt(head, behindHole(file))
		if err == io.EOF {
			err = nil
		}
		return head[:n], false, err
	}

	t := &Tape{file: file, compressed: compressed}
	if err := t.decompress(); err != nil {
		return nil, false, err
	}
	defer t.reader.Close()
	text := bufio.NewReader(t.reader)
	n, err := io.ReadFull(text, head)
	if err == nil && len(WithoutZeros(head)) == 0 && skipHole(text) {
		n, err = io.ReadFull(text, head)
	}
	if errors.Is(err, logfile.ErrBehind) {
		return head[:n], true, nil
	}
	if err == io.EOF || err == io.ErrUnexpectedEOF && n < HeadBytes {
		return head[:n], !truncatedStream(text), nil
	}

	return head[:n], false, err
}

// behindHole is the position where a log begins in a file whose first HeadBytes or more are zeros: at the first byte
// after them. Otherwise, and where nothing follows, a log begins where the file does. Files that begin with zeros are
// common: they were cut off under a writer that continues at its own offset.
func behindHole(file *os.File) int64 {
	chunk := make([]byte, HeadBytes)
	for at := int64(0); ; {
		n, err := file.ReadAt(chunk, at)
		zeros := n - len(logfile.WithoutHole(chunk[:n]))
		at += int64(zeros)
		switch {
		case zeros < n && at >= HeadBytes:
			return at
		case zeros < n || err != nil:
			return 0
		case len(chunk) < chunkBytes:
			chunk = make([]byte, chunkBytes)
		}
		at = behindUnwritten(file, at)
	}
}

// behindUnwritten is the first position, at or after another one, that was ever written: of the rest of a sparse file
// the system knows that it is zeros, so gigabytes of them need not be read.
func behindUnwritten(file *os.File, at int64) int64 {
	if data, err := file.Seek(at, unix.SEEK_DATA); err == nil {
		return max(at, data)
	}
	return at
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

// IsDamage reports whether an error is about the content of a compressed file. A file that is cut off may still grow,
// and a file that the disk refuses may be readable later.
func IsDamage(err error) bool {
	var refused *fs.PathError
	return err != io.EOF && err != io.ErrUnexpectedEOF && !errors.As(err, &refused)
}

// UncompressedSize is the number of bytes in a gz file, modulo 2^32, as its last member states; ok is false for
// others.
func UncompressedSize(file *os.File, compressed logfile.Kind, size int64) (uint32, bool) {
	var trailer [4]byte
	if compressed != logfile.Gzip || size < 18 {
		return 0, false
	}
	_, err := file.ReadAt(trailer[:], size-4)
	return uint32(trailer[0]) | uint32(trailer[1])<<8 | uint32(trailer[2])<<16 | uint32(trailer[3])<<24, err == nil
}

// WithoutZeros returns b without the zeros at its end.
func WithoutZeros(b []byte) []byte {
	if len(b) == 0 || b[len(b)-1] != 0 {
		return b
	}
	return bytes.TrimRight(b, "\x00")
}
