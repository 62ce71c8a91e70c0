package jetstream

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	mostMessage = 64 << 20 // bytes of a message; a server permits no more (max_payload)
	longestLine = 1 << 20  // that is no message
)

var errClaim = errors.New("the server sends a message or a line that is too long, or damaged")

// A dialer makes connections with bounded messages. The client takes memory for as many bytes as a message claims, which
// would end the process. So that messages over TLS can be bounded too, the dialer makes that connection, and not the
// client.
type dialer struct {
	secure *tls.Config // nil: TLS only where the server wants it
	given  []string    // the hosts of the URLs that are configured
	name   string      // of the last server that was found by one: it names others by their addresses
	failed func(error) // notes why TLS failed: the client does not always say it
}

func newDialer(o *Options, failed func(error)) *dialer {
	d := &dialer{secure: o.TLS, failed: failed}
	for text := range strings.SplitSeq(o.URL, ",") {
		u, err := url.Parse(text)
		if err != nil {
			continue // the client reports it
		}
		d.given = append(d.given, u.Hostname())
		if u.Scheme == "tls" && d.secure == nil {
			d.secure = &tls.Config{MinVersion: tls.VersionTLS12}
		}
	}
	return d
}

// SkipTLSHandshake tells the client that the dialer does that.
func (*dialer) SkipTLSHandshake() bool { return true }

// Dial connects to a server.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	conn, err := net.DialTimeout(network, address, callPatience)
	if err != nil {
		return nil, err
	}
	host, _, _ := net.SplitHostPort(address)
	greeted, err := d.greet(conn, host)
	if err != nil {
		d.failed(err)
		return nil, errors.Join(err, conn.Close())
	}
	return greeted, nil
}

// greet reads the first line of a server, and begins TLS after it.
func (d *dialer) greet(conn net.Conn, host string) (net.Conn, error) {
	if err := conn.SetDeadline(time.Now().Add(callPatience)); err != nil {
		return nil, err
	}
	line, err := firstLine(conn)
	if err != nil {
		return nil, err
	}

	var info struct {
		Required  bool `json:"tls_required"`
		Available bool `json:"tls_available"`
	}
	_ = json.Unmarshal(bytes.TrimPrefix(line, []byte("INFO ")), &info) // the client reports a damaged one
	switch {
	case info.Required, d.secure != nil && info.Available:
		secured := tls.Client(conn, d.configFor(host))
		if err := secured.Handshake(); err != nil {
			return nil, err
		}
		conn = secured
	case d.secure != nil:
		return nil, nats.ErrSecureConnWanted
	}
	return &bounded{Conn: conn, first: line}, conn.SetDeadline(time.Time{})
}

func (d *dialer) configFor(host string) *tls.Config {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if d.secure != nil {
		config = d.secure.Clone()
	}
	_, err := netip.ParseAddr(host)
	switch {
	case err != nil:
		d.name = host
	case d.name != "" && !slices.Contains(d.given, host):
		host = d.name
	}
	config.ServerName = cmp.Or(config.ServerName, host)
	return config
}

// firstLine reads nothing that follows the line, which may be TLS.
func firstLine(conn net.Conn) (line []byte, err error) {
	for one := make([]byte, 1); len(line) < longestLine; {
		if _, err := io.ReadFull(conn, one); err != nil {
			return nil, err
		}
		if line = append(line, one[0]); one[0] == '\n' {
			return line, nil
		}
	}
	return nil, errClaim
}

// A bounded connection ends at a message that claims too many bytes.
type bounded struct {
	net.Conn
	first []byte // what is read before all else
	line  []byte // as far as it came
	body  int    // bytes of a message that are still to come
}

// Read reads a part of what the server sends.
func (c *bounded) Read(b []byte) (int, error) {
	if len(c.first) > 0 {
		n := copy(b, c.first)
		c.first = c.first[n:]
		return n, nil
	}
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
