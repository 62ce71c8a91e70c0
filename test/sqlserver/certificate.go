package sqlserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// certify makes a certificate of the server for 127.0.0.1, which is its own authority.
func (s *Server) certify() (certificate, key string) {
	s.t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "database"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		s.t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		s.t.Fatal(err)
	}
	s.CA = s.write("certificate.pem", "CERTIFICATE", der)
	return s.CA, s.write("key.pem", "PRIVATE KEY", secret)
}

// write writes a file that only the server's user can read.
func (s *Server) write(name, block string, der []byte) (path string) {
	s.t.Helper()
	path = filepath.Join(s.Folder, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: block, Bytes: der}), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if as := s.as.Credential; as != nil {
		if err := os.Chown(path, int(as.Uid), int(as.Gid)); err != nil {
			s.t.Fatal(err)
		}
	}
	return path
}
