package listeners

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// Strangers send the beginning of a long chain of certificates. All of them together take a bounded amount of memory:
// the oldest ones are closed, and a client with a certificate gets in.
func TestUnfinishedHandshakesShareABound(t *testing.T) {
	const connections, each = 180, 200 << 10 // more than 32 MiB
	b := newSyslogBench(t, "tls")
	server, client, _ := testTLS(t)
	b.config.Sources[0].Syslog.TLS = server
	b.changed = func(l *syslogLimits) { l.handshake = time.Hour }
	b.start()

	long := client.Clone()
	long.MaxVersion = tls.VersionTLS12 // the certificates are not encrypted: no more is needed than one answer
	long.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		chain := client.Certificates[0]
		for range 3 {
			chain.Certificate = append(chain.Certificate[:len(chain.Certificate):len(chain.Certificate)], make([]byte, 80<<10))
		}
		return &chain, nil
	}
	closed := make(chan error, 1)
	for i := range connections {
		conn := b.dial()
		began := make(chan struct{})
		shaking := tls.Client(&cutOff{Conn: conn, left: each, sent: began}, long)
		go func() {
			err := shaking.Handshake()
			if i == 0 {
				closed <- err
			}
		}()
		if i == 0 {
			_ = conn.SetDeadline(time.Now().Add(time.Minute))
			select {
			case <-began: // so it is the oldest
			case err := <-closed:
				t.Fatal(err)
			}
		}
	}
	if err := <-closed; errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the oldest handshake goes on")
	}

	b.send(tls.Client(b.dial(), client), b.Line())
	b.sink.Await(t, b.Want)
}

// cutOff is a connection that sends only the first bytes.
type cutOff struct {
	net.Conn
	left int
	sent chan struct{} // closed when it has sent them
}

func (c *cutOff) Write(p []byte) (int, error) {
	sent := p[:min(len(p), c.left)]
	c.left -= len(sent)
	if _, err := c.Conn.Write(sent); err != nil {
		return 0, err
	}
	if len(sent) < len(p) {
		close(c.sent)
		// The answer never comes.
		_, err := io.Copy(io.Discard, c.Conn)
		return 0, errors.Join(io.ErrShortWrite, err)
	}
	return len(p), nil
}
