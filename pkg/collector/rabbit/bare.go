package rabbit

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
)

// A bare connection leaves out the properties of the messages that come, except the offset of a stream's message. So a
// publisher's headers take no memory, and none ends the connection: the library ends it for headers that are nested more
// than 32 times, that have more than 8,192 members, or that have outgrown a frame, as those of dead letters can. The server
// would then deliver the same message again.
type bare struct {
	net.Conn
	in    *bufio.Reader // of Conn
	space [64]byte      // for first
	first []byte        // what is not read yet of the beginning of a frame
	rest  int64         // how many of its bytes follow
}

func newBare(conn net.Conn) *bare {
	return &bare{Conn: conn, in: bufio.NewReader(conn)}
}

func (b *bare) Read(p []byte) (int, error) {
	if len(b.first) == 0 && b.rest == 0 {
		if err := b.next(); err != nil {
			return 0, err
		}
	}
	if len(b.first) > 0 {
		n := copy(p, b.first)
		b.first = b.first[n:]
		return n, nil
	}
	n, err := b.in.Read(p[:min(int64(len(p)), b.rest)])
	b.rest -= int64(n)
	return n, err
}

// The parts of a frame, and the properties in the header of a message.
const (
	frameStart  = 7  // its type, channel and size; the end of a frame has one byte
	headerStart = 12 // a header's class, weight and the size of the body

	headerFrame = 2
	headerBytes = frameStart + 4 // the place of the size of the body

	mostMessage = 512 << 20 // bytes; a server has no more (max_message_size)
	mostFrame   = 128 << 10 // that we let the server send

	hasType     = 1 << 15
	hasEncoding = 1 << 14
	hasHeaders  = 1 << 13
)

var errLong = errors.New("the server sends a message of more than 512 MiB")

// next begins the next frame.
func (b *bare) next() error {
	start := b.space[:frameStart]
	if _, err := io.ReadFull(b.in, start); err != nil {
		return err
	}
	size := int64(binary.BigEndian.Uint32(start[3:]))
	if start[0] != headerFrame || size < headerStart {
		b.first, b.rest = start, size+1
		return nil
	}
	start = start[:frameStart+headerStart]
	if _, err := io.ReadFull(b.in, start[frameStart:]); err != nil {
		return err
	}
	if binary.BigEndian.Uint64(start[headerBytes:]) > mostMessage {
		return errLong
	}
	properties := &fields{from: b.in, left: size - headerStart}
	offset, found := properties.offset()
	if properties.skip(properties.left); properties.err != nil {
		return properties.err
	}
	if found {
		start = binary.BigEndian.AppendUint16(start, hasHeaders)
		start = binary.BigEndian.AppendUint32(start, uint32(1+len(offsetHeader)+1+8))
		start = append(append(append(start, byte(len(offsetHeader))), offsetHeader...), 'l')
		start = binary.BigEndian.AppendUint64(start, offset)
	} else {
		start = binary.BigEndian.AppendUint16(start, 0)
	}
	binary.BigEndian.PutUint32(start[3:], uint32(len(start)-frameStart))
	b.first, b.rest = start, 1
	return nil
}

// fields are the properties of a message that are left to be read. Those that are cut off are read as zeroes.
type fields struct {
	from *bufio.Reader
	left int64
	err  error // of the connection
}

// offset returns the offset in the headers, and whether there is one. Of several the first one is the server's: it writes
// that over the first header of the name, and leaves others that a publisher sent.
func (f *fields) offset() (offset uint64, found bool) {
	flags := f.number(2)
	for _, text := range []uint64{hasType, hasEncoding} {
		if flags&text != 0 {
			f.skip(int64(f.number(1)))
		}
	}
	if flags&hasHeaders == 0 {
		return 0, false
	}
	length := int64(f.number(4))
	for end := max(0, f.left-length); f.left > end; {
		name, kind := f.text(), byte(f.number(1))
		size, known := sizes[kind]
		switch {
		case name == offsetHeader && kind == 'l' && f.left-end >= size:
			return f.number(8), true
		case known:
			f.skip(size)
		case kind == 'S' || kind == 'x' || kind == 'A' || kind == 'F':
			f.skip(int64(f.number(4)))
		default: // how long it is is not known
			return 0, false
		}
	}
	return 0, false
}

// sizes are those of the kinds of fields that have no length of their own.
var sizes = map[byte]int64{'V': 0, 't': 1, 'b': 1, 'B': 1, 's': 2, 'u': 2, 'I': 4, 'i': 4, 'f': 4, 'D': 5, 'l': 8, 'd': 8, 'T': 8}

// number reads a number of some bytes.
func (f *fields) number(size int) (n uint64) {
	var number [8]byte
	f.read(number[8-size:])
	return binary.BigEndian.Uint64(number[:])
}

// text reads a text, as far as an offset's name is long.
func (f *fields) text() string {
	size := int64(f.number(1))
	var text [len(offsetHeader) + 1]byte
	read := min(size, int64(len(text)))
	f.read(text[:read])
	f.skip(size - read)
	return string(text[:read])
}

func (f *fields) read(into []byte) {
	if int64(len(into)) > f.left {
		f.skip(f.left)
		return
	}
	f.left -= int64(len(into))
	_, err := io.ReadFull(f.from, into)
	f.failed(err)
}

func (f *fields) skip(n int64) {
	n = min(n, f.left)
	f.left -= n
	_, err := f.from.Discard(int(n))
	f.failed(err)
}

func (f *fields) failed(err error) {
	if err != nil {
		f.err, f.left = err, 0
	}
}
