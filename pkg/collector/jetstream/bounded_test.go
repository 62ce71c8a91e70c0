package jetstream

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// claiming is a server that answers the first request with a message of a few bytes, which claims others. It wants TLS if
// it has certificates.
func claiming(t *testing.T, size string, certificates []tls.Certificate) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, err := fmt.Fprintf(conn, `INFO {"server_id":"x","version":"2.10.0","headers":true,"max_payload":1048576,"jetstream":true,"tls_required":%t}`+"\r\n", certificates != nil)
				if certificates != nil {
					conn = tls.Server(conn, &tls.Config{Certificates: certificates})
				}
				for in := bufio.NewReader(conn); err == nil; {
					var line string
					line, err = in.ReadString('\n')
					words := strings.Fields(line)
					switch {
					case strings.HasPrefix(line, "PING"):
						_, err = io.WriteString(conn, "PONG\r\n")
					case strings.HasPrefix(line, "SUB"):
						_, err = io.WriteString(conn, "MSG "+strings.ReplaceAll(words[1], "*", "x")+" "+words[2]+" "+size+"\r\nabc")
					}
				}
			}()
		}
	}()
	return "nats://" + l.Addr().String()
}

// A message that only claims its bytes does not end the process, with TLS neither.
func TestAServerThatClaimsMuch(t *testing.T) {
	certificates, trusted := certificate(t)
	for _, size := range []string{"4611686018427387904", "99999999999", "99999999999999999999", "x"} {
		for _, s := range []*stream{
			{options: Options{URL: claiming(t, size, nil), Stream: "access"}},
			{options: Options{URL: claiming(t, size, certificates), Stream: "access", TLS: trusted}},
		} {
			if err := s.connect(); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			if _, err := s.js.Stream(ctx, "access"); err == nil {
				t.Errorf("%s: no error", size)
			}
			cancel()
			s.conn.Close()
		}
	}
}

// certificate is one of 127.0.0.1, and trust in it.
func certificate(t *testing.T) ([]tls.Certificate, *tls.Config) {
	server := httptest.NewTLSServer(nil)
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	return server.TLS.Certificates, &tls.Config{RootCAs: roots}
}

// A server gets no login unless it has the certificate of its name, where TLS is configured or the server wants it.
func TestLoginsOnlyOverTLS(t *testing.T) {
	certificates, trusted := certificate(t)
	open, secure := claiming(t, "1", nil), claiming(t, "1", certificates)
	named := func(url string) string { return strings.Replace(url, "127.0.0.1", "localhost", 1) }
	for _, c := range []struct {
		what, url string
		tls       *tls.Config
		want      string // empty: connected
	}{
		{"a server without TLS", open, nil, ""},
		{"a server without TLS, and a name", named(open), nil, ""},
		{"TLS at a server without it", open, trusted, "secure connection not available"},
		{"TLS by the URL", strings.Replace(open, "nats:", "tls:", 1), nil, "secure connection not available"},
		{"TLS", secure, trusted, ""},
		{"the server wants it", secure, nil, "certificate"},
		{"another authority", secure, &tls.Config{RootCAs: x509.NewCertPool()}, "certificate"},
		{"the certificate of another", named(secure), trusted, "not localhost"},
		{"a configured name", named(secure), &tls.Config{RootCAs: trusted.RootCAs, ServerName: "example.com"}, ""},
	} {
		s := &stream{options: Options{URL: c.url, Stream: "access", TLS: c.tls}}
		err := s.explain(s.connect())
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.what, err, c.want)
		}
		s.Close()
	}
}

// Servers that another one names by their addresses have the certificate of its name.
func TestNamesOfServers(t *testing.T) {
	d := newDialer(&Options{URL: "tls://192.0.2.1:4222,tls://nats.example"}, nil)
	for _, c := range []struct{ host, want string }{
		{"192.0.2.1", "192.0.2.1"}, {"192.0.2.9", "192.0.2.9"}, {"nats.example", "nats.example"}, {"192.0.2.9", "nats.example"},
		{"192.0.2.1", "192.0.2.1"}, {"b.example", "b.example"}, {"2001:db8::1", "b.example"},
	} {
		if got := d.configFor(c.host).ServerName; got != c.want {
			t.Errorf("%s: %s, want %s", c.host, got, c.want)
		}
	}
}

// Bytes in messages are not read as lines, however they are cut.
func TestMessagesInPieces(t *testing.T) {
	all := "INFO {}\r\nPING\r\nMSG a 1 27\r\nx\r\nMSG a 1 99999999999999\r\n\r\n\r\nhmsg a 1 b 3 5\r\nabcde\r\n+OK\r\n"
	for size := range len(all) {
		var c bounded
		for rest := all; rest != ""; {
			piece := rest[:min(size+1, len(rest))]
			if rest = rest[len(piece):]; !c.see([]byte(piece)) {
				t.Fatalf("pieces of %d bytes: refused at %q", size+1, piece)
			}
		}
		if c.body != 0 || len(c.line) != 0 {
			t.Errorf("pieces of %d bytes: %d bytes are missing", size+1, c.body)
		}
	}
}
