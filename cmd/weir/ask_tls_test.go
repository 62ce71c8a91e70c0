package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/kafka/kafkatest"
)

// The user's file names the roots to trust, and our certificate for an enforcer that requires one.
func TestTheToolShowsItsCertificate(t *testing.T) {
	home := t.TempDir()
	folder := filepath.Join(home, ".config", "weir")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	files, err := kafkatest.NewCertificates(folder)
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan string, 10)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.TLS.PeerCertificates[0].Subject.CommonName
		http.Error(w, "enough", http.StatusNotFound)
	}))
	own, err := tls.LoadX509KeyPair(files.Client, files.ClientKey)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := os.ReadFile(files.Authority)
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(authority)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{own}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	defer server.Close()
	t.Setenv("HOME", home)
	list := func(file string) string {
		if err := os.WriteFile(filepath.Join(folder, "client.yaml"), []byte("url: "+server.URL+"\nca: authority.pem\n"+file), 0o600); err != nil {
			t.Fatal(err)
		}
		var out, errs bytes.Buffer
		run([]string{"weir", "list"}, nil, &out, &errs)
		return errs.String()
	}
	if said := list("cert: client.pem\ncert_key: client.key\n"); len(asked) == 0 {
		t.Error("it was not reached:", said)
	}
	if said := list(""); !strings.Contains(said, "certificate") {
		t.Error("without a certificate:", said)
	}
	if said := list("cert: client.pem\n"); !strings.Contains(said, "cert_key") {
		t.Error("without a key:", said)
	}
}
