package redis

import (
	"bytes"
	"errors"
	"net"
	"strconv"
	"syscall"
)

// Bounds of the replies to one command, or to commands that are sent together.
const (
	mostElements = 4 << 20
	mostBytes    = 256 << 20
	longestLine  = 64 << 10
	deepest      = 16 // arrays in one another: each takes a part of the stack
	mostNotes    = 16 // attributes, for the same reason: Redis sends none to our commands
)

// ErrReply reports a reply that is longer than any to our commands, or damaged.
var ErrReply = errors.New("the reply of Redis is too long, or damaged")

// Replies is a connection whose replies are bounded. go-redis takes memory for as many elements and bytes as a reply
// claims, so a few bytes would end the process.
type replies struct {
	net.Conn
	line     []byte // the beginning of a value, as far as it came
	text     int    // bytes of a text that are still to come
	elements int    // since the last command
	bytes    int
	notes    int   // attributes
	open     []int // of the arrays that the next value is in, the values that are still to come
	failed   bool  // a reply was refused, and no more is read: go-redis asks on after some errors
}

// PlainReplies are those of a connection without TLS.
type plainReplies struct{ replies }

func newReplies(c net.Conn) net.Conn {
	if _, plain := c.(syscall.Conn); plain {
		return &plainReplies{replies{Conn: c}}
	}
	return &replies{Conn: c}
}

// Write writes a command.
func (r *replies) Write(b []byte) (int, error) {
	if r.failed {
		return 0, ErrReply
	}
	r.elements, r.bytes, r.notes = 0, 0, 0
	return r.Conn.Write(b)
}

// Read reads a part of a reply.
func (r *replies) Read(b []byte) (int, error) {
	if r.failed {
		return 0, ErrReply
	}
	n, err := r.Conn.Read(b)
	if r.failed = !r.see(b[:n]); r.failed {
		return 0, ErrReply
	}
	return n, err
}

// SyscallConn lets go-redis ask whether the server has closed the connection, before it is used again. It does not ask
// through TLS.
func (r *plainReplies) SyscallConn() (syscall.RawConn, error) {
	return r.Conn.(syscall.Conn).SyscallConn()
}

// see reports whether the replies keep to the bounds.
func (r *replies) see(b []byte) bool {
	for len(b) > 0 {
		if r.text > 0 {
			n := min(r.text, len(b))
			r.text -= n
			b = b[n:]
			continue
		}
		end := bytes.IndexByte(b, '\n') + 1
		if end == 0 {
			end = len(b)
		}
		r.line = append(r.line, b[:end]...)
		b = b[end:]
		if len(r.line) > longestLine {
			return false
		}
		if r.line[len(r.line)-1] != '\n' {
			return true
		}
		if !r.claim(bytes.TrimRight(r.line, "\r\n")) {
			return false
		}
		r.line = r.line[:0]
	}
	return true
}

// claim adds what the beginning of a value claims.
func (r *replies) claim(line []byte) bool {
	if len(line) == 0 {
		return false
	}
	r.bytes += len(line)
	count := 0
	if bytes.IndexByte([]byte("*~>%|$=!"), line[0]) >= 0 {
		var err error
		if count, err = strconv.Atoi(string(line[1:])); err != nil || count > mostBytes {
			return false
		}
	}
	values := 0
	switch line[0] {
	case '*', '~', '>':
		values = max(count, 0)
	case '|':
		r.notes++
		values = 2 * max(count, 0)
	case '%':
		values = 2 * max(count, 0)
	case '$', '=', '!':
		if r.bytes += max(count, 0); count >= 0 {
			r.text = count + len("\r\n")
		}
	}
	r.elements += values
	r.nest(values, line[0] == '|')
	return r.elements <= mostElements && r.bytes <= mostBytes && r.notes <= mostNotes && len(r.open) <= deepest
}

// nest notes a value, which has others in it. An attribute stands before the value that it is about.
func (r *replies) nest(values int, attribute bool) {
	if last := len(r.open) - 1; last >= 0 && !attribute {
		r.open[last]--
	}
	if values > 0 {
		r.open = append(r.open, values)
	}
	for last := len(r.open) - 1; last >= 0 && r.open[last] == 0; last-- {
		r.open = r.open[:last]
	}
}
