package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"sync/atomic"

	"weir/cmd/internal/config"
	"weir/internal/regular"
	"weir/pkg/blocklist/follow"
)

// upstreamOf returns the enforcer to follow. Its key, its roots and our certificate are read from their files again when
// they change.
func (p *Process) upstreamOf(c *config.Enforcer) (follow.Upstream, error) {
	transport, err := p.transportTo(&c.FollowTLS)
	if err != nil {
		return follow.Upstream{}, fmt.Errorf("enforcer.follow_tls: %w", err)
	}
	upstream := follow.Upstream{URL: c.Follow, Client: &http.Client{Transport: transport}}
	if c.FollowKeyFile != "" {
		upstream.Key = func() (string, error) { return passwordIn(c.FollowKeyFile) }
	}
	return upstream, nil
}

// transport makes requests to servers. It is replaced when the file of their roots changes.
type transport struct {
	current atomic.Pointer[http.Transport]
}

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.current.Load().RoundTrip(r)
}

// CloseIdleConnections is what http.Client calls by this name.
func (t *transport) CloseIdleConnections() { t.current.Load().CloseIdleConnections() }

// transportTo returns connections to servers. After a change of the roots, new requests use new connections. After an
// error the roots before stay valid.
func (p *Process) transportTo(c *config.ClientTLS) (*transport, error) {
	made := &transport{}
	load := func() error {
		secure, err := clientTLS(c)
		if err != nil {
			return err
		}
		next := http.DefaultTransport.(*http.Transport).Clone()
		next.TLSClientConfig = secure
		if before := made.current.Swap(next); before != nil {
			before.CloseIdleConnections()
		}
		return nil
	}

	before := ""
	if c.CA != "" {
		before = lookAt(c.CA)
	}
	if err := load(); err != nil {
		return nil, err
	}
	if c.CA != "" {
		p.files.add(before, load, c.CA)
	}
	return made, nil
}

// clientTLS makes the settings for our connections to servers.
func clientTLS(t *config.ClientTLS) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CA != "" {
		roots, err := regular.ReadFile(t.CA)
		if err != nil {
			return nil, err
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(roots) {
			return nil, fmt.Errorf("%s has no PEM certificate", t.CA)
		}
	}

	if t.Cert == "" {
		return c, nil
	}

	// Read for each handshake, so that a renewed certificate needs no restart. It is tried once now, to report an error
	// at the start.
	load := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := regular.ReadKeyPair(t.Cert, t.Key)
		return &pair, err
	}

	if _, err := load(nil); err != nil {
		return nil, err
	}
	c.GetClientCertificate = load
	return c, nil
}
