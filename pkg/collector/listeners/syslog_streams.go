package listeners

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"weir/internal/keys"
	"weir/internal/limited"
	"weir/pkg/collector/pipeline"
)

// converse reads a connection until it ends or the context is done.
func (s *syslogSource) converse(ctx context.Context, conn net.Conn) {
	defer closeWith(ctx, conn)()
	if s.refuses(addressOf(conn.RemoteAddr())) {
		return
	}

	if s.scheme == "tls" {
		encrypted := tls.Server(conn, s.config.TLS)
		limited.Shakes(encrypted, true)
		shaking, cancel := context.WithTimeout(ctx, s.limits.handshake)
		err := encrypted.HandshakeContext(shaking)
		cancel()
		if err != nil {
			s.troubleWith(ctx, conn, err)
			return
		}

		limited.Shakes(encrypted, false)
		conn = encrypted
		if keys.AsksCertificates(s.config.TLS) {
			limited.Known(conn)
		}
		limited.Busy(conn)
	}

	s.troubleWith(ctx, conn, s.messages(ctx, conn))
}

func (s *syslogSource) troubleWith(ctx context.Context, conn net.Conn, err error) {
	if err != nil && ctx.Err() == nil {
		s.in.Incident("connection", fmt.Errorf("the connection of %s: %w", conn.RemoteAddr(), err))
	}
}

var errHTTP = errors.New("it speaks HTTP, not syslog, as a browser's page does: it is not counted; post lines to a source of the kind http")

// A page can choose parts of the first bytes of a browser's TLS (a session's ticket), lines too.
var errTLS = errors.New("it speaks TLS, and this address takes plain lines: it is not counted; let the source listen at tls://")

// messages puts all messages of a connection into the inbox.
func (s *syslogSource) messages(ctx context.Context, conn net.Conn) error {
	f, from := newFramer(patient{conn, s.limits.idle, s.limits.quiet, s.in.Now}), addressOf(conn.RemoteAddr())
	for first := true; ; first = false {
		message, why, err := f.next()
		if first && !f.counted {
			if speaksHTTP(message, why == pipeline.ReasonLong) {
				return errHTTP
			}
			if speaksTLS(message) {
				return errTLS
			}
		}

		if s.refuses(from) { // from may have changed
			return nil
		}
		if err == nil || len(message) > 0 {
			if err := s.inbox.put(ctx, message, why); err != nil {
				return err
			}
		}

		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// patient is a connection that ends after a long time without bytes, and whose place another connection may take
// earlier.
type patient struct {
	net.Conn
	idle, quiet time.Duration
	now         func() time.Time
}

// Read reads the bytes that come in time.
func (p patient) Read(b []byte) (int, error) {
	quiet := min(p.quiet, p.idle)
	n, err := p.within(quiet, b)
	if n > 0 || quiet == p.idle || !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	limited.Idle(p.Conn)
	n, err = p.within(p.idle-quiet, b)
	limited.Busy(p.Conn) // lines that it has sent would be lost with its place
	return n, err
}

func (p patient) within(d time.Duration, b []byte) (int, error) {
	if err := p.SetReadDeadline(p.now().Add(d)); err != nil {
		return 0, err
	}
	return p.Conn.Read(b)
}

// speaksTLS reports whether a connection begins with a TLS handshake.
func speaksTLS(begins []byte) bool { return bytes.HasPrefix(begins, []byte{0x16, 0x03}) }

// speaksHTTP reports whether a line is the first one of an HTTP request: a method, a target and HTTP/1.1. A page may
// choose the method: any token, as x or 203.0.113.7. A line that is too long to be kept may lack its end.
func speaksHTTP(line []byte, truncated bool) bool {
	method, rest, spaced := bytes.Cut(line, []byte{' '})
	if len(method) == 0 || bytes.ContainsFunc(method, noToken) {
		return false
	}
	target, version, _ := bytes.Cut(rest, []byte{' '})
	if truncated {
		begins := bytes.HasPrefix(target, []byte("/")) || bytes.HasPrefix(target, []byte("http"))
		return !spaced || begins && (len(version) == 0 || bytes.HasPrefix(version, []byte("H")) && len(version) <= len("HTTP/1.1"))
	}
	return bytes.HasPrefix(version, []byte("HTTP/")) && len(version) == len("HTTP/1.1") && version[6] == '.'
}

func noToken(r rune) bool {
	letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
	return !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

// A framer takes the messages out of a stream, as in RFC 6587: each with its length before it (octet counting), or
// each with a newline after it. The first message decides: it is counted when it begins with digits, a space and <.
// The last line of a stream needs no newline.
type framer struct {
	reader  *bufio.Reader
	known   bool // whether counted is set
	counted bool
}

func newFramer(r io.Reader) *framer { return &framer{reader: bufio.NewReaderSize(r, maxMessageBytes)} }

const (
	maxDigits     = 8
	maxFrameBytes = 64 << 20 // a larger number is no length
)

var errFraming = errors.New("it sends no syslog: a message's length is expected")

// next returns the next message, which is valid until the following call; of one that is too long, its beginning and
// the reason. With an error there may be a last message too.
func (f *framer) next() (message []byte, why pipeline.Reason, err error) {
	if !f.known {
		f.counted = f.countsOctets()
		f.known = true
	}
	if f.counted {
		return f.octets()
	}
	for err == nil && len(message) == 0 { // empty lines are nothing
		message, why, err = f.line()
	}
	return message, why, err
}

// countsOctets looks no further ahead than necessary: after a short message the stream may have no more bytes yet.
func (f *framer) countsOctets() bool {
	for n := 1; n <= maxDigits+1; n++ {
		ahead, err := f.reader.Peek(n)
		if err != nil {
			return false
		}

		last := ahead[n-1]
		if last == ' ' && n > 1 {
			ahead, err = f.reader.Peek(n + 1)
			return err == nil && ahead[n] == '<'
		}
		if last < '0' || last > '9' {
			return false
		}
	}

	return false
}

// octets returns a message that carries its length.
func (f *framer) octets() (message []byte, why pipeline.Reason, err error) {
	length, err := f.length()
	if err != nil {
		return nil, pipeline.Counted, err
	}

	keep, why := length, pipeline.Counted
	if length > maxMessageBytes {
		keep, why = maxMessageBytes, pipeline.ReasonLong
	}

	message, err = f.reader.Peek(keep)
	if err != nil {
		return message, pipeline.ReasonFormat, unexpected(err)
	}
	if why == pipeline.ReasonLong {
		message = bytes.Clone(message) // Discard writes over it
	}

	_, err = f.reader.Discard(length)
	return message, why, unexpected(err)
}

// length reads a message's length and the space behind it.
func (f *framer) length() (length int, err error) {
	for digits := 0; ; digits++ {
		c, err := f.reader.ReadByte()
		switch {
		case err != nil && digits > 0:
			return 0, unexpected(err)
		case err != nil:
			return 0, err
		case c == ' ' && digits > 0:
			return length, nil
		case c == '\n' && digits == 0: // some senders end their messages with one, too
			digits--
			continue
		case c < '0' || c > '9':
			return 0, errFraming
		}

		if length = 10*length + int(c-'0'); length > maxFrameBytes {
			return 0, errFraming
		}
	}
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// line returns a message that ends with a newline, without it.
func (f *framer) line() (message []byte, why pipeline.Reason, err error) {
	message, err = f.reader.ReadSlice('\n')
	switch {
	case err == nil, errors.Is(err, io.EOF):
		return bytes.TrimRight(message, "\r\n\x00"), pipeline.Counted, err
	case !errors.Is(err, bufio.ErrBufferFull):
		return message, pipeline.ReasonFormat, err // not all of it came
	}
	message = bytes.Clone(message)
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = f.reader.ReadSlice('\n')
	}
	return message, pipeline.ReasonLong, err
}
