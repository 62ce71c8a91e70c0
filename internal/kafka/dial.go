package kafka

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"

	"weir/internal/topic"
)

// A dialer makes all connections of a client and knows which are open, so that they can be closed and the
// goroutines that read them be waited for.
type dialer struct {
	connect func(ctx context.Context, network, address string) (net.Conn, error)
	secure  *TLS
	login   string // in words; "" without one
	logged  int    // requests until a login is complete

	setting func(key string) string // its name in the configuration

	mu     sync.Mutex
	open   map[*connection]struct{}
	closed bool
	none   sync.WaitGroup // of the open ones
}

func newDialer(config Config) *dialer {
	d := &dialer{connect: config.Dial, secure: config.TLS, setting: config.setting, open: map[*connection]struct{}{}}
	if config.SASL != nil {
		d.login, d.logged = config.SASL.who(), 3 // versions, mechanism, password
		if strings.HasPrefix(config.SASL.name(), "SCRAM") {
			d.logged = 4
		}
	}
	if d.connect == nil {
		d.connect = (&net.Dialer{}).DialContext
	}
	return d
}

// dial connects to a broker, with TLS where it is configured. Its errors, and those of the connection, name the cause.
func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	plain, err := d.connect(ctx, network, address)
	if err != nil {
		return nil, &topic.Error{Text: fmt.Sprintf("broker %s cannot be reached: %s", address, innermost(err)), Kind: topic.ErrUnreachable, Cause: err}
	}

	conn := plain
	if d.secure != nil {
		conn, err = d.handshake(ctx, plain, address)
	}
	if err == nil {
		conn, err = d.remember(conn, address)
	}

	if err != nil {
		plain.Close()
		return nil, err
	}
	return conn, nil
}

func (d *dialer) handshake(ctx context.Context, plain net.Conn, address string) (net.Conn, error) {
	config, err := d.secure.config()
	if err != nil {
		return nil, &topic.Error{Text: d.setting("tls") + ": " + err.Error(), Kind: topic.ErrTLS, Cause: err}
	}
	config.ServerName, _, _ = net.SplitHostPort(address)
	secured := tls.Client(plain, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, d.handshakeFault(address, err)
	}
	return secured, nil
}

func (d *dialer) handshakeFault(address string, err error) error {
	var untrusted *tls.CertificateVerificationError
	var noTLS tls.RecordHeaderError
	switch {
	case errors.As(err, &untrusted):
		return topic.Errorf(topic.ErrTLS, "the certificate of broker %s is not accepted: %s", address, untrusted.Err)
	case errors.As(err, &noTLS), errors.Is(err, io.EOF):
		return topic.Errorf(topic.ErrTLS, "broker %s does not speak TLS: remove %s, or use its port for TLS", address, d.setting("tls"))
	case isAlert(err):
		return d.alert(address, err)
	case errors.Is(err, context.DeadlineExceeded):
		return topic.Errorf(topic.ErrUnreachable, "broker %s does not answer", address)
	}

	return &topic.Error{Text: fmt.Sprintf("TLS with broker %s fails: %s", address, err), Kind: topic.ErrTLS, Cause: err}
}

// isAlert reports whether the other side refuses us by a TLS alert. With TLS 1.3 alerts come after the handshake.
func isAlert(err error) bool {
	alert, ok := errors.AsType[*net.OpError](err)
	return ok && alert.Op == "remote error"
}

func (d *dialer) alert(address string, err error) error {
	if d.secure.Cert == "" {
		return topic.Errorf(topic.ErrTLS, "broker %s wants a client's certificate: set %s and %s (%s)", address, d.setting("tls.cert"), d.setting("tls.key"), innermost(err))
	}
	return topic.Errorf(topic.ErrTLS, "broker %s refuses our certificate %s: %s", address, d.secure.Cert, innermost(err))
}

func (d *dialer) remember(conn net.Conn, address string) (net.Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, topic.Errorf(topic.ErrClosed, "the client is closed")
	}
	c := &connection{Conn: conn, dialer: d, address: address}
	c.answers = answers{from: bufio.NewReader(received{c}), asked: map[int32]asked{}}
	d.open[c] = struct{}{}
	d.none.Add(1)
	return c, nil
}

// close closes every connection and waits until kafka-go has let go of them.
func (d *dialer) close() {
	d.mu.Lock()
	d.closed = true
	for c := range d.open {
		c.Conn.Close()
	}
	d.mu.Unlock()
	d.none.Wait()
}

// A connection notifies its dialer when it is closed, and returns to its reader why the other side ended it.
type connection struct {
	net.Conn
	dialer  *dialer
	address string
	once    sync.Once

	requests, received int // writes and bytes so far; one goroutine writes and reads, as kafka-go uses it
	answers            answers
}

func (c *connection) Close() error {
	c.once.Do(func() {
		c.dialer.mu.Lock()
		delete(c.dialer.open, c)
		c.dialer.mu.Unlock()
		c.dialer.none.Done()
	})
	return c.Conn.Close()
}

func (c *connection) Write(b []byte) (int, error) {
	c.requests++
	c.answers.wrote(b)
	return c.Conn.Write(b)
}

// tlsAlert is the first byte of a TLS server's answer to bytes that are not TLS. No answer of Kafka is long enough for
// its length to begin with it.
const tlsAlert = 21

// firstText is the smallest byte of text. An answer of Kafka begins with its length, so one that begins with text, or
// with a negative length, would have 512 MiB or more.
const firstText = ' '

func (c *connection) Read(b []byte) (int, error) {
	n, err := c.answers.read(b)
	if errors.Is(err, errAnswer) {
		err = topic.Errorf(topic.ErrUnreachable, "broker %s: %s", c.address, err)
	}
	return n, err
}

// received are the bytes of a connection before they are checked.
type received struct{ *connection }

func (c received) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	switch {
	case c.dialer.secure == nil && c.received == 0 && n > 0 && b[0] == tlsAlert:
		return 0, topic.Errorf(topic.ErrTLS, "broker %s speaks TLS: set %s", c.address, c.dialer.setting("tls"))
	case c.received == 0 && n > 0 && b[0] >= firstText:
		return 0, topic.Errorf(topic.ErrUnreachable, "%s is no broker of Kafka: it answers %q; look at %s", c.address, b[:min(n, 12)], c.dialer.setting("brokers"))
	case errors.Is(err, io.EOF):
		err = c.ended()
	case isAlert(err):
		err = c.dialer.alert(c.address, err)
	}
	c.received += n
	return n, err
}

// ended returns why a broker closed the connection. A broker that requires TLS or a login does so at the first other
// request, and some refuse a login that way.
func (c *connection) ended() error {
	hint := ""
	switch {
	case c.dialer.secure == nil && c.received == 0:
		hint = " without an answer; it may want TLS (" + c.dialer.setting("tls") + ")"
	case c.dialer.login == "" && c.requests <= 2:
		hint = " at the first request; it may want a login (" + c.dialer.setting("sasl") + ")"
	case c.dialer.login != "" && c.requests <= c.dialer.logged:
		hint = " during the login; it may refuse " + c.dialer.login
	}
	return topic.Errorf(topic.ErrUnreachable, "broker %s closed the connection%s", c.address, hint)
}

// innermost returns the error at the bottom, without the repetitions of the layers.
func innermost(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
