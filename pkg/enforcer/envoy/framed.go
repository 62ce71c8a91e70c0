package envoy

import (
	"bufio"
	"encoding/binary"
	"errors"
	"net"
)

// Frames of HTTP/2 (RFC 9113): a header of 9 bytes with length, kind, flags and stream, and then length bytes.
const (
	frameHead  = 9
	greeting   = 24 // bytes that a client sends before its first frame
	frameData  = 0
	frameOpen  = 1 // the fields of a call or of its answer
	frameReset = 3
	endsStream = 1 // a flag
)

const readBuffer = 32 << 10

var errFrames = errors.New("a call has too many frames, its connection is closed")

// A framed is a connection after its handshake. It notes which streams have begun and ended, since the library does not
// report when a client has taken an answer. One goroutine reads and one writes.
type framed struct {
	net.Conn
	of      *connection
	calls   *calls
	from    *bufio.Reader
	in, out frames
}

func newFramed(c net.Conn, of *connection, all *calls) *framed {
	return &framed{Conn: c, of: of, calls: all, from: bufio.NewReaderSize(c, readBuffer), in: frames{rest: greeting}}
}

// Read returns bytes of one frame at most. So a call that the library begins is of the frame that it read last.
func (f *framed) Read(b []byte) (int, error) {
	n, err := f.from.Read(b[:min(len(b), f.in.left())])
	tooMany := false
	f.in.pass(b[:n], func(kind, _ byte, stream uint32) {
		switch kind {
		case frameOpen:
			f.of.opening = stream
		case frameData:
			tooMany = tooMany || !f.of.data(stream)
		case frameReset:
			f.calls.gone(f.of, stream)
		}
	})
	if tooMany {
		return 0, errFrames
	}
	return n, err
}

// Write notes the streams that end with what is written.
func (f *framed) Write(b []byte) (int, error) {
	n, err := f.Conn.Write(b)
	f.out.pass(b[:n], func(kind, flags byte, stream uint32) {
		if kind == frameReset || kind == frameOpen && flags&endsStream != 0 {
			f.calls.gone(f.of, stream)
		}
	})
	return n, err
}

// Close ends all streams.
func (f *framed) Close() error {
	err := f.Conn.Close()
	for _, stream := range f.of.close() {
		f.calls.gone(f.of, stream)
	}
	return err
}

// frames finds the heads of frames in what passes, in pieces of any length.
type frames struct {
	head [frameHead]byte
	have int // bytes of a head
	rest int // bytes until the next head
}

// left returns how many bytes are left of what has begun: of a head, or until the next one.
func (f *frames) left() int {
	if f.rest > 0 {
		return f.rest
	}
	return frameHead - f.have
}

func (f *frames) pass(b []byte, begins func(kind, flags byte, stream uint32)) {
	for len(b) > 0 {
		n := min(len(b), f.left())
		if f.rest > 0 {
			f.rest -= n
			b = b[n:]
			continue
		}
		f.have += copy(f.head[f.have:], b[:n])
		b = b[n:]
		if f.have == frameHead {
			f.have, f.rest = 0, int(f.head[0])<<16|int(f.head[1])<<8|int(f.head[2])
			begins(f.head[3], f.head[4], binary.BigEndian.Uint32(f.head[5:])&(1<<31-1))
		}
	}
}
