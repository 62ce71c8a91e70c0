package kafka

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"

	"weir/internal/regular"
)

// TLS configures the security of connections. The files are PEM and are read for each new connection.
type TLS struct {
	CA        string // authorities of the brokers' certificates; "" is the system's roots
	Cert, Key string // our own certificate; "" is none
}

func (t *TLS) config() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CA != "" {
		file, err := regular.ReadFile(t.CA)
		if err != nil {
			return nil, fmt.Errorf("ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(file) {
			return nil, fmt.Errorf("ca: %s has no PEM certificate", t.CA)
		}
	}

	if t.Cert == "" && t.Key == "" {
		return config, nil
	}
	pair, err := regular.ReadKeyPair(t.Cert, t.Key)
	if err != nil {
		return nil, fmt.Errorf("cert, key: %w", err)
	}

	config.Certificates = []tls.Certificate{pair}
	return config, nil
}
