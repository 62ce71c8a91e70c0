package daemon

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/cmd/internal/config"
	"weir/internal/store/redis/redistest"
	"weir/test/nats"
	"weir/test/port"
	"weir/test/rabbit"
)

// certificate writes a certificate for 127.0.0.1, which is its own authority, and its key.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	private, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: server.Certificate().Raw},
		"key.pem":  {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(filepath.Join(folder, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
}

// sourceOf reads the configuration of a source.
func sourceOf(t *testing.T, text string) *config.Source {
	t.Helper()
	c, _, err := config.Read([]byte("collector: {sources: ["+text+"]}"), config.Options{File: "weir.yaml", NoRules: true})
	if err != nil {
		t.Fatal(err)
	}
	return &c.Collector.Sources[0]
}

// A stream is found over TLS with the certificates and the password that the configuration names.
func TestAStreamOfRedisOverTLS(t *testing.T) {
	cert, key := certificate(t)
	secure := port.Reserve(t, "127.0.0.1")
	server := redistest.Start(t, "--tls-port", strings.TrimPrefix(secure, "127.0.0.1:"), "--tls-cert-file", cert, "--tls-key-file", key,
		"--tls-ca-cert-file", cert, "--tls-auth-clients", "no")
	if err := server.Client.Do(t.Context(), "ACL", "SETUSER", "weir", "on", ">hush", "~logs", "+xinfo").Err(); err != nil {
		t.Fatal(err)
	}
	if err := server.Client.Do(t.Context(), "XADD", "logs", "*", "line", "a").Err(); err != nil {
		t.Fatal(err)
	}
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("hush\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, try := range map[string]struct{ scheme, tls, want string }{
		"with the certificates": {"rediss", fmt.Sprintf("{ca: %q}", cert), ""},
		"without the authority": {"rediss", "true", "certificate signed by unknown authority"},
		"without encryption":    {"redis", "false", "EOF"},
	} {
		logs, err := OpenStreams(t.Context(), sourceOf(t, fmt.Sprintf("{redis_stream: {url: '%s://%s', keys: logs, user: weir, password_file: %q}, tls: %s}", try.scheme, secure, password, try.tls)))
		if err != nil {
			t.Fatal(name, err)
		}
		extent, err := logs[0].Extent(t.Context(), nil)
		logs[0].Close()
		if try.want == "" && (err != nil || extent.Last.Position != 1) || try.want != "" && (err == nil || !strings.Contains(err.Error(), try.want)) {
			t.Errorf("%s: %+v, %v", name, extent, err)
		}
	}
}

// A server of NATS is found over TLS with the authority that the configuration names. It has no stream yet.
func TestAStreamOfNATSOverTLS(t *testing.T) {
	cert, key := certificate(t)
	server := nats.Start(t, nats.Unsynced+fmt.Sprintf("tls: {cert_file: %q, key_file: %q}\n", cert, key))
	for tls, want := range map[string]string{
		fmt.Sprintf("{ca: %q}", cert): "it does not exist",
		"true":                        "certificate signed by unknown authority",
	} {
		source := fmt.Sprintf("{nats: {url: %q, stream: logs}, tls: %s}", strings.Replace(server.URL, "nats://", "tls://", 1), tls)
		logs, err := OpenStreams(t.Context(), sourceOf(t, source))
		if err != nil {
			t.Fatal(err)
		}
		_, err = logs[0].Extent(t.Context(), nil)
		logs[0].Close()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", source, err, want)
		}
	}
}

// A stream of RabbitMQ is found over TLS with the authority that the configuration names.
func TestAStreamOfRabbitMQOverTLS(t *testing.T) {
	cert, key := certificate(t)
	secure := port.Reserve(t, "127.0.0.1")
	server := rabbit.Start(t, fmt.Sprintf("listeners.ssl.default = %s\nssl_options.cacertfile = %s\nssl_options.certfile = %[2]s\nssl_options.keyfile = %s\n", secure, cert, key))
	server.Make("logs", "stream")
	server.Add("logs", []string{"a", "b"})
	authority := fmt.Sprintf("tls: {ca: %q}", cert)
	for _, try := range []struct{ scheme, tls, want string }{
		{"amqps", authority, ""},
		{"AMQPS", authority, ""},
		{"amqps", "tls: true", "certificate signed by unknown authority"},
	} {
		logs, err := OpenStreams(t.Context(), sourceOf(t, fmt.Sprintf("{amqp: {url: '%s://%s', queue: logs}, %s}", try.scheme, secure, try.tls)))
		if err != nil {
			t.Fatal(err)
		}
		extent, err := logs[0].Extent(t.Context(), nil)
		logs[0].Close()
		if try.want == "" && (err != nil || extent.Last.Position != 2) || try.want != "" && (err == nil || !strings.Contains(err.Error(), try.want)) {
			t.Errorf("%+v: %+v, %v", try, extent, err)
		}
	}
}
