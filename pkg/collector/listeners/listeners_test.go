package listeners

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"weir/pkg/collector/pipeline"
)

// testTLS returns the settings of a server that requires a certificate of its own authority, and those of a client
// with and of one without such a certificate.
func testTLS(t testing.TB) (server, client, stranger *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	pair := []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}
	return &tls.Config{Certificates: pair, ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert},
		&tls.Config{Certificates: pair, RootCAs: roots, ServerName: "localhost"}, &tls.Config{RootCAs: roots, ServerName: "localhost"}
}

func TestSenders(t *testing.T) {
	senders := NewSenders([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fe80::/10")})
	for address, want := range map[string]bool{
		"10.1.2.3": true, "::ffff:10.1.2.3": true, "fe80::1%eth0": true, "11.1.2.3": false, "2001:db8::1": false,
	} {
		if got := senders.may(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: %v", address, got)
		}
	}
	senders.Set(nil)
	if senders.may(netip.MustParseAddr("10.1.2.3")) {
		t.Error("10.1.2.3 may send when nobody may")
	}
	if !(*Senders)(nil).may(netip.MustParseAddr("10.1.2.3")) {
		t.Error("10.1.2.3 may not send when nobody is asked")
	}
}

func TestLingering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		work, abandon := lingering(ctx)
		defer abandon()
		time.Sleep(time.Hour)
		cancel()
		time.Sleep(pipeline.DrainPatience - time.Millisecond)
		if work.Err() != nil {
			t.Error("ended early")
		}
		time.Sleep(2 * time.Millisecond)
		if !errors.Is(context.Cause(work), errUnsent) {
			t.Errorf("ended with %v", context.Cause(work))
		}
	})
}
