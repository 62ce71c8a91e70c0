// Package logfile interprets the bytes of log files for all readers of such files. It detects the compression by the
// first bytes, never by the name. It detects files that are not logs, and returns the part of a line that belongs to
// the line.
//
// It starts no goroutines. Unpacking keeps one window or block in memory, at most 128 MiB of zstd.
package logfile

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

const (
	// MaxLine is how many bytes a line may have without its newline and the zeros before it.
	MaxLine = 16 << 20

	// HeadBytes is how many of the first bytes are needed to recognise a file.
	HeadBytes = 512

	// TellingBytes is how many of the first bytes are needed to detect the compression.
	TellingBytes = 6

	tarMagicAt     = 257
	maxWindowBytes = 128 << 20 // zstd --long
)

// A Kind is a file's compression.
type Kind string

// The supported kinds.
const (
	Plain Kind = ""
	Gzip  Kind = "gz"
	Zstd  Kind = "zst"
	Bzip2 Kind = "bz2"
)

// ErrNoLog reports a file that cannot be read as a log.
var ErrNoLog = errors.New("not read")

// ErrBehind reports other bytes after the end of compressed data.
var ErrBehind = errors.New("other bytes follow the end of the compressed data")

var byteOrderMark = []byte("\ufeff")

type refused struct{ what, remedy string }

func (r refused) Error() string { return fmt.Sprintf("%s is not read: %s", r.what, r.remedy) }

func (r refused) Is(target error) bool { return target == ErrNoLog }

var packages = []struct {
	magic string
	at    int
	why   refused
}{
	{"\xfd7zXZ\x00", 0, refused{"xz", "unpack it with xz -d, or read the output of xz -dc"}},
	{"PK\x03\x04", 0, refused{"zip", "unpack it, or read the output of unzip -p"}},
	{"7z\xbc\xaf\x27\x1c", 0, refused{"7z", "unpack it"}},
	{"\x04\x22\x4d\x18", 0, refused{"lz4", "unpack it, or read the output of lz4 -dc"}},
	{"ustar", tarMagicAt, refused{"a tar archive", "unpack it, or read the output of tar -xO"}},
}

// KindOf detects the compression of a file by its first bytes. For a file that is not a log it returns ErrNoLog with
// the file's type.
func KindOf(head []byte) (Kind, error) {
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return Gzip, nil
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}), len(head) >= 4 && head[0]&0xf0 == 0x50 && bytes.Equal(head[1:4], []byte{0x2a, 0x4d, 0x18}):
		return Zstd, nil
	case bytes.HasPrefix(head, []byte("BZh")) && len(head) >= 4 && head[3] >= '1' && head[3] <= '9':
		return Bzip2, nil
	}
	return Plain, CheckText(head)
}

// NamedAsPacked reports whether a file's name looks compressed. Its bytes decide whether it is, except in a file of
// fewer than TellingBytes: that one is cut off.
func NamedAsPacked(path string) bool {
	switch filepath.Ext(path) {
	case ".gz", ".zst", ".bz2":
		return true
	}
	return false
}

// CheckText returns ErrNoLog when the first unpacked bytes do not belong to a log.
func CheckText(head []byte) error {
	for _, p := range packages {
		if len(head) > p.at && bytes.HasPrefix(head[p.at:], []byte(p.magic)) {
			return p.why
		}
	}
	if isUTF16(head) {
		return refused{"UTF-16", "convert it with iconv -f UTF-16 -t UTF-8"}
	}
	return nil
}

// isUTF16 reports whether a text begins with UTF-16's byte order mark, or has a zero at every other byte and none
// between.
func isUTF16(head []byte) bool {
	if bytes.HasPrefix(head, []byte{0xff, 0xfe}) || bytes.HasPrefix(head, []byte{0xfe, 0xff}) {
		return true
	}
	const telling = 32
	if len(head) < telling {
		return false
	}

	for zero := range 2 {
		is := true
		for i, c := range head[:telling] {
			is = is && (c == 0) == (i%2 == zero)
		}
		if is {
			return true
		}
	}

	return false
}

// Unpack reads compressed bytes. A stream that is cut off ends with io.ErrUnexpectedEOF.
func Unpack(kind Kind, packed io.Reader) (io.ReadCloser, error) {
	switch kind {
	case Gzip:
		return newGunzip(packed)
	case Zstd:
		decoder, err := zstd.NewReader(packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindowBytes))
		if err != nil {
			return nil, err
		}
		return decoder.IOReadCloser(), nil
	case Bzip2:
		return io.NopCloser(bzip2.NewReader(packed)), nil
	}

	return io.NopCloser(packed), nil
}

// A gunzip unpacks the members of a gzip file one by one, to distinguish other bytes after the last member from a
// member that is cut off.
type gunzip struct {
	from   *bufio.Reader
	member *gzip.Reader
}

func newGunzip(packed io.Reader) (*gunzip, error) {
	from, ok := packed.(*bufio.Reader)
	if !ok {
		from = bufio.NewReader(packed)
	}

	member, err := gzip.NewReader(from)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}

	member.Multistream(false)
	return &gunzip{from, member}, nil
}

// Read unpacks.
func (g *gunzip) Read(b []byte) (int, error) {
	n, err := g.member.Read(b)
	if !errors.Is(err, io.EOF) {
		return n, err
	}

	// A member has ended. Two bytes show whether another one follows, or something else, as when a program wrote plain
	// lines to a compressed file.
	next, err := g.from.Peek(2)
	switch {
	case len(next) < 2 && err != nil && !errors.Is(err, io.EOF):
		return n, err
	case len(next) == 0:
		return n, io.EOF
	case next[0] != 0x1f || len(next) > 1 && next[1] != 0x8b:
		return n, ErrBehind
	case len(next) == 1:
		return n, io.ErrUnexpectedEOF
	}

	err = g.member.Reset(g.from)
	g.member.Multistream(false)
	return n, err
}

// Close does nothing.
func (g *gunzip) Close() error { return nil }

// Line returns the part of a line's bytes that belongs to the line: without a byte order mark if it is a file's first,
// and without zeros before it. Zeros stand where nothing was written: after a loss of power, or where a file was cut
// off whose writer went on at its own offset.
func Line(line []byte, first bool) []byte {
	if first {
		line = bytes.TrimPrefix(WithoutHole(line), byteOrderMark)
	}
	return WithoutHole(line)
}

// WithoutHole returns the bytes after leading zeros.
func WithoutHole(b []byte) []byte {
	if len(b) == 0 || b[0] != 0 {
		return b
	}
	return bytes.TrimLeft(b, "\x00")
}

// Counting adds the number of bytes that are read to Done.
type Counting struct {
	io.Reader
	Done *atomic.Int64
}

// Read reads and counts.
func (c Counting) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.Done.Add(int64(n))
	return n, err
}
