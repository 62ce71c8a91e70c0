package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"

	"weir/cmd/internal/config"
	"weir/internal/regular"
	"weir/pkg/blocklist/follow"
)

// upstreamOf returns the enforcer to follow. Its key and our certificate are read from their files each time.
func upstreamOf(c *config.Enforcer) (follow.Upstream, error) {
	secure, err := clientTLS(&c.FollowTLS)
	if err != nil {
		return follow.Upstream{}, fmt.Errorf("enforcer.follow_tls: %w", err)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = secure
	upstream := follow.Upstream{URL: c.Follow, Client: &http.Client{Transport: transport}}
	if c.FollowKeyFile != "" {
		upstream.Key = func() (string, error) { return passwordIn(c.FollowKeyFile) }
	}
	return upstream, nil
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
