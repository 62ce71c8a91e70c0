package keys

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
)

// Reasons to refuse a request: the first two are a 401, the last is a 403.
var (
	ErrNone    = errors.New("an API key is needed: send it as X-Api-Key, or as Authorization: Bearer")
	ErrUnknown = errors.New("the API key is not known")
	ErrRole    = errors.New("the API key may not do this")
	// ErrCertificate is a 401: the certificate was valid when the connection began.
	ErrCertificate = errors.New("the client's certificate is not accepted any more")
)

// Admit returns the key that a request carries, if its role is enough.
func (f *File) Admit(r *http.Request, want Role) (Key, error) {
	secret := presented(r)
	if secret == "" {
		return Key{}, ErrNone
	}
	key, ok := f.Find(secret)
	if !ok {
		return Key{}, ErrUnknown
	}
	if !key.Role.May(want) {
		return Key{}, fmt.Errorf("%w: %s has the role %s, and %s is needed", ErrRole, key.Name, key.Role, want)
	}
	return key, nil
}

// presented returns the key that a request carries; empty when it carries none.
func presented(r *http.Request) string {
	if key := r.Header.Get("X-Api-Key"); key != "" {
		return key
	}
	scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(key)
}

// Certified reports whether a request came with a client's certificate that the present configuration still accepts. A
// certificate whose roots were removed is no longer valid, even on an existing connection.
func Certified(r *http.Request, c *tls.Config) bool {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return false
	}
	if c == nil || c.GetConfigForClient == nil {
		return true // the configuration cannot have changed
	}

	now, err := c.GetConfigForClient(nil)
	if err != nil || now == nil || now.ClientCAs == nil {
		return false
	}

	// Go has verified the chain when the connection began; here it is verified by the present roots.
	chain, between := r.TLS.VerifiedChains[0], x509.NewCertPool()
	for _, above := range chain[1:] {
		between.AddCert(above)
	}

	_, err = chain[0].Verify(x509.VerifyOptions{Roots: now.ClientCAs, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return err == nil
}

// AsksCertificates reports that every client needs a certificate signed by one of our roots.
func AsksCertificates(c *tls.Config) bool {
	return c != nil && c.ClientAuth == tls.RequireAndVerifyClientCert
}

// Speaks returns settings by which a server and its clients agree on one of the protocols, also after the settings were
// read again. gRPC demands that. Nil is no encryption.
func Speaks(c *tls.Config, protocols ...string) *tls.Config {
	if c == nil {
		return nil
	}
	type pair struct{ of, with *tls.Config }
	var last atomic.Pointer[pair] // a copy for each handshake would resume no session
	outer, ask := c.Clone(), c.GetConfigForClient
	outer.NextProtos = protocols
	if ask == nil {
		return outer
	}

	outer.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		now, err := ask(hello)
		if err != nil || now == nil {
			return now, err
		}
		if p := last.Load(); p != nil && p.of == now {
			return p.with, nil
		}
		with := now.Clone()
		with.NextProtos = protocols
		last.Store(&pair{now, with})
		return with, nil
	}
	return outer
}
