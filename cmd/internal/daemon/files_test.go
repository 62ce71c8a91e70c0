package daemon

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"weir/cmd/internal/config"
	"weir/internal/kafka/kafkatest"
	"weir/internal/keys"
	"weir/internal/telemetry"
)

func (p *place) getWith(key, path string) int {
	p.t.Helper()
	request, _ := http.NewRequest(http.MethodGet, "http://"+p.address+path, nil)
	request.Header.Set("X-Api-Key", key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0
	}
	response.Body.Close()
	return response.StatusCode
}

// A removed key is refused even when the rules contain a mistake, and so are all keys when their file is deleted.
func TestKeysAreReadAgainWhileTheRulesHaveErrors(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "  keys: keys.yaml\n")
	line := func(name string) string {
		return fmt.Sprintf("  - {name: %s, role: read, sha256: %x}\n", name, sha256.Sum256([]byte(name)))
	}
	p.write("keys.yaml", "keys:\n"+line("kept")+line("revoked"))
	p.start()
	if p.getWith("revoked", "/status") != 200 || p.getWith("kept", "/status") != 200 {
		t.Fatal("the keys are not known")
	}
	p.write("rules.yaml", "rules: [{name: per-ip, key: ip, limits: [10/minuet]}]\n")
	p.await("refused", func() bool { return strings.Contains(p.heard.String(), "minuet") })
	p.write("keys.yaml", "keys:\n"+line("kept"))
	p.await("revoked", func() bool { return p.getWith("revoked", "/status") == 401 })
	if got := p.getWith("kept", "/status"); got != 200 {
		t.Errorf("the other key: %d", got)
	}
	p.write("keys.yaml", "keys: faulty\n")
	p.await("seen as faulty", func() bool { return strings.Contains(p.heard.String(), "where a list of keys is expected") })
	if got := p.getWith("kept", "/status"); got != 200 {
		t.Errorf("with a faulty file: %d", got)
	}
	if err := os.Remove(filepath.Join(p.folder, "keys.yaml")); err != nil {
		t.Fatal(err)
	}
	p.await("without a key", func() bool { return p.getWith("kept", "/status") == 401 })
	p.write("keys.yaml", "keys:\n"+line("kept"))
	p.write("rules.yaml", oneRule)
	p.await("in force", func() bool {
		return p.getWith("kept", "/status") == 200 && strings.Contains(p.heard.String(), "read the configuration again")
	})
}

// A named pipe in the place of a file is an error, and a file that replaces it is read. Reading the pipe would never end.
func TestAPipeInThePlaceOfKeys(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "  keys: keys.yaml\n")
	line := func(name string) string {
		return fmt.Sprintf("keys:\n  - {name: %s, role: read, sha256: %x}\n", name, sha256.Sum256([]byte(name)))
	}
	p.write("keys.yaml", line("first"))
	p.start()
	file := filepath.Join(p.folder, "keys.yaml")
	pipe := file + ".pipe"
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(pipe, file); err != nil {
		t.Fatal(err)
	}
	p.await("seen as no file", func() bool { return strings.Contains(p.heard.String(), "is not a regular file") })
	if got := p.getWith("first", "/status"); got != 200 {
		t.Errorf("with a pipe: %d", got)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	p.write("keys.yaml", line("second"))
	p.await("read again", func() bool { return p.getWith("second", "/status") == 200 && p.getWith("first", "/status") == 401 })
}

// A file that was moved away and back has the same time of its last change. It is read again.
func TestKeysThatArePutBackAreReadAgain(t *testing.T) {
	folder := t.TempDir()
	path, away := filepath.Join(folder, "keys.yaml"), filepath.Join(folder, "away")
	text := fmt.Sprintf("keys:\n  - {name: kept, role: read, sha256: %x}\n", sha256.Sum256([]byte("kept")))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &Process{Logger: slog.New(slog.DiscardHandler), files: &rereads{}}
	file, err := p.keysOf(path)
	if err != nil {
		t.Fatal(err)
	}
	faults := telemetry.NewFaults(p.Logger)
	for round := range 2 {
		for _, move := range []struct {
			from, to string
			known    bool
		}{{path, away, false}, {away, path, true}} {
			if err := os.Rename(move.from, move.to); err != nil {
				t.Fatal(err)
			}
			p.files.look(p.Logger, faults)
			if _, known := file.Find("kept"); known != move.known || p.files.faulty() == move.known {
				t.Errorf("round %d, moved to %s: the key is known: %v, faulty: %v", round, filepath.Base(move.to), known, p.files.faulty())
			}
		}
	}
}

// A follower checks its upstream with changed roots, and shows a changed certificate. Roots that cannot be read change
// nothing.
func TestRootsForTheUpstreamAreReadAgain(t *testing.T) {
	first, err := kafkatest.NewCertificates(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	second, err := kafkatest.NewCertificates(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	copied := func(from, name string) string {
		data, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, name), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return filepath.Join(folder, name)
	}
	serve := func(c kafkatest.Certificates) string {
		secure, err := loadServerTLS(config.ServerTLS{Cert: c.Client, Key: c.ClientKey, Clients: c.Authority})
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		server.TLS, server.Config.ErrorLog = secure, log.New(io.Discard, "", 0)
		server.StartTLS()
		t.Cleanup(server.Close)
		return server.URL
	}
	before, after := serve(first), serve(second)

	settings := config.Enforcer{Follow: before, FollowTLS: config.ClientTLS{
		CA: copied(first.Authority, "ca.pem"), Cert: copied(first.Client, "c.pem"), Key: copied(first.ClientKey, "k.pem")}}
	p := &Process{Logger: slog.New(slog.DiscardHandler), files: &rereads{}}
	faults := telemetry.NewFaults(p.Logger)
	upstream, err := p.upstreamOf(&settings)
	if err != nil {
		t.Fatal(err)
	}
	reaches := func(url string) bool {
		answer, err := upstream.Client.Get(url)
		if err != nil {
			return false
		}
		answer.Body.Close()
		return true
	}
	if !reaches(before) || reaches(after) {
		t.Fatal("at first the upstream of these roots is not reached, or another one is")
	}

	copied(os.DevNull, "ca.pem")
	p.files.look(p.Logger, faults)
	if !reaches(before) || !p.files.faulty() {
		t.Error("an empty file of roots cuts the follower off, or is no fault")
	}

	copied(second.Authority, "ca.pem")
	copied(second.Client, "c.pem")
	copied(second.ClientKey, "k.pem")
	p.files.look(p.Logger, faults)
	if reaches(before) || !reaches(after) || p.files.faulty() {
		t.Error("the changed roots are not used")
	}
}

// New connections get a changed certificate and are checked with changed roots. When the file of roots is deleted no client
// may connect.
func TestCertificatesAreReadAgain(t *testing.T) {
	folder := t.TempDir()
	first, err := kafkatest.NewCertificates(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	second, err := kafkatest.NewCertificates(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cert, key, roots := filepath.Join(folder, "c.pem"), filepath.Join(folder, "k.pem"), filepath.Join(folder, "ca.pem")
	show := func(c kafkatest.Certificates) {
		for to, from := range map[string]string{cert: c.Client, key: c.ClientKey, roots: c.Authority} {
			data, err := os.ReadFile(from)
			if err == nil {
				err = os.WriteFile(to, data, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	show(first)
	p := &Process{Logger: slog.New(slog.DiscardHandler), files: &rereads{}}
	secure, err := p.serverTLS(config.ServerTLS{Cert: cert, Key: key, Clients: roots})
	if err != nil {
		t.Fatal(err)
	}
	faults := telemetry.NewFaults(p.Logger)
	// A client that connected while its certificate was good, and sends another request.
	asks := func(c kafkatest.Certificates) bool {
		own, err := tls.LoadX509KeyPair(c.Client, c.ClientKey)
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(c.Authority)
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(data)
		root, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		return keys.Certified(&http.Request{TLS: &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{own.Leaf, root}}}}, secure)
	}
	if !asks(first) || keys.Certified(&http.Request{TLS: &tls.ConnectionState{}}, secure) || keys.Certified(&http.Request{}, secure) {
		t.Error("at first a certificate is not accepted, or none is")
	}
	lets := func(c kafkatest.Certificates) (in bool, shown *x509.Certificate) {
		own, err := tls.LoadX509KeyPair(c.Client, c.ClientKey)
		if err != nil {
			t.Fatal(err)
		}
		ours, theirs := net.Pipe()
		defer ours.Close()
		served := make(chan error, 1)
		go func() {
			served <- tls.Server(theirs, secure).Handshake()
			theirs.Close()
		}()
		client := tls.Client(ours, &tls.Config{Certificates: []tls.Certificate{own}, InsecureSkipVerify: true}) //nolint:gosec // the shown certificate is tested
		_ = client.Handshake()
		if seen := client.ConnectionState().PeerCertificates; len(seen) > 0 {
			shown = seen[0]
		}
		ours.Close()
		return <-served == nil, shown
	}
	in, before := lets(first)
	if other, _ := lets(second); !in || other {
		t.Fatalf("at first: %v, a stranger %v", in, other)
	}
	show(second)
	p.files.look(p.Logger, faults)
	in, after := lets(second)
	if asks(first) || !asks(second) {
		t.Error("on a connection that was there before, the roots before count")
	}
	if other, _ := lets(first); !in || other || before.Equal(after) {
		t.Errorf("after the change: %v, the one before %v; another certificate: %v", in, other, !before.Equal(after))
	}
	if err := os.Remove(roots); err != nil {
		t.Fatal(err)
	}
	p.files.look(p.Logger, faults)
	if in, _ := lets(second); in || asks(second) {
		t.Error("without roots someone is let in")
	}
	if !p.files.faulty() {
		t.Error("that the roots are gone is no fault")
	}
	show(second)
	p.files.look(p.Logger, faults)
	if in, _ := lets(second); !in || p.files.faulty() {
		t.Error("with the roots again nobody is let in")
	}
}
