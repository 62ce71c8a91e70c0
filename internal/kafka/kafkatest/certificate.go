package kafkatest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Certificates are PEM files of our own authority: those that it signed for the brokers on 127.0.0.1 and for one
// client, and another authority that signed nothing.
type Certificates struct {
	Authority, Stranger   string
	Client, ClientKey     string
	broker, brokerKeyPair string
}

// NewCertificates makes the files in a folder. They are valid for a day.
func NewCertificates(folder string) (Certificates, error) {
	in := func(name string) string { return filepath.Join(folder, name) }
	files := Certificates{Authority: in("authority.pem"), Stranger: in("stranger.pem"), Client: in("client.pem"),
		ClientKey: in("client.key"), broker: in("broker.pem"), brokerKeyPair: in("broker-pair.pem")}
	authority, err := newIdentity("weir test authority", nil)
	if err != nil {
		return files, err
	}

	stranger, err := newIdentity("weir test stranger", nil)
	if err != nil {
		return files, err
	}

	broker, err := newIdentity("broker", authority)
	if err != nil {
		return files, err
	}

	client, err := newIdentity("client", authority)
	if err != nil {
		return files, err
	}

	contents := map[string][]byte{
		files.Authority: authority.certificate, files.Stranger: stranger.certificate,
		files.Client: client.certificate, files.ClientKey: client.key,
		files.broker: broker.certificate, files.brokerKeyPair: append(broker.key, broker.certificate...),
	}

	for path, content := range contents {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return files, fmt.Errorf("writing a test certificate: %w", err)
		}
	}

	return files, nil
}

type identity struct {
	certificate, key []byte // PEM
	parsed           *x509.Certificate
	private          *ecdsa.PrivateKey
}

// newIdentity makes a key and its certificate, signed by the authority; without one it makes an authority.
func newIdentity(name string, authority *identity) (*identity, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a test key: %w", err)
	}

	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		DNSNames:     []string{"localhost"},
	}

	made := &identity{private: private, parsed: template}

	// An authority signs itself, and is good for nothing else.
	signer := authority
	if authority == nil {
		template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
		template.ExtKeyUsage, template.IPAddresses, template.DNSNames = nil, nil, nil
		signer = made
	}

	der, err := x509.CreateCertificate(rand.Reader, template, signer.parsed, &private.PublicKey, signer.private)
	if err != nil {
		return nil, fmt.Errorf("signing a test certificate: %w", err)
	}

	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, fmt.Errorf("encoding a test key: %w", err)
	}

	made.certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	made.key = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
	return made, nil
}
