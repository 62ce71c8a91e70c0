package jetstream

import (
	"bytes"
	"errors"
	"net"
	"strconv"
)

const (
	mostMessage = 64 << 20 // bytes of a message; a server permits no more (max_payload)
	longestLine = 1 << 20  // that is no message
)

var errClaim = errors.New("the server sends a message or a line that is too long, or damaged")

// A dialer makes connections with bounded messages.
type dialer struct{}

// Dial connects to a server.
func (dialer) Dial(network, address string) (net.Conn, error) {
	conn, err := net.DialTimeout(network, address, callPatience)
	if err != nil {
		return nil, err
	}
	return &bounded{Conn: conn}, nil
}

// A bounded connection ends at a message that claims too many bytes. The client takes memory for as many as a message
// claims, which would end the process. With TLS it has no readable lines, and bounds nothing.
type bounded struct {
	net.Conn
	line []byte // as far as it came
	body int    // bytes of a message that are still to come
}

// Read reads a part of what the server sends.
func (c *bounded) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if !c.see(b[:n]) {
		return 0, errors.Join(errClaim, c.Close())
	}
	return n, err
}

// see reports whether the bytes keep to the bounds.
func (c *bounded) see(b []byte) bool {
	for len(b) > 0 {
		if c.body > 0 {
			n := min(c.body, len(b))
			c.body -= n
			b = b[n:]
			continue
		}
		end := bytes.IndexByte(b, '\n') + 1
		if end == 0 {
			end = len(b)
		}
		c.line = append(c.line, b[:end]...)
		b = b[end:]
		if len(c.line) > longestLine {
			return false
		}
		if c.line[len(c.line)-1] != '\n' {
			return true
		}
		if !c.message() {
			return false
		}
		c.line = c.line[:0]
	}
	return true
}

// message reads the line of a message, which ends with its bytes. Other lines have none.
func (c *bounded) message() bool {
	words := bytes.Fields(c.line)
	if len(words) == 0 || !bytes.EqualFold(words[0], []byte("MSG")) && !bytes.EqualFold(words[0], []byte("HMSG")) {
		return true
	}
	count, err := strconv.Atoi(string(words[len(words)-1]))
	c.body = count + len("\r\n")
	return err == nil && count >= 0 && count <= mostMessage
}
