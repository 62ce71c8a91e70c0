package enforcer

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/keys"
	"weir/pkg/blocklist"
	"weir/test/wait"
)

// encrypted returns a certificate for 127.0.0.1, and a client that trusts it.
func encrypted(t *testing.T) (*tls.Config, *http.Client) {
	t.Helper()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	client := server.Client()
	t.Cleanup(client.CloseIdleConnections)
	return &tls.Config{Certificates: server.TLS.Certificates, MinVersion: tls.VersionTLS12}, client
}

func TestOverTLS(t *testing.T) {
	config, client := encrypted(t)
	r := start(t, list(t, ofIP("203.0.113.7")), func(c *Config) { c.TLS = config })
	q, _ := http.NewRequest(http.MethodGet, "https://"+r.Address()+"/v1/check", http.NoBody)
	q.Header.Set("X-Forwarded-For", "203.0.113.7")
	response, err := client.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusTooManyRequests {
		t.Errorf("%d", response.StatusCode)
	}
	if response, err := http.Get("http://" + r.Address() + "/v1/check"); err == nil {
		response.Body.Close()
		if response.StatusCode == http.StatusOK {
			t.Error("it answers without TLS")
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// A certificate is enough to read, and not to give orders.
func TestACertificateReads(t *testing.T) {
	e, err := Open(Config{Set: list(t), Ruling: usualRuling(t), Keys: keysFile(t), Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	q := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	q.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{{Subject: pkix.Name{CommonName: "edge-1"}}}}}
	if by, err := e.Admit(q, keys.Read); by != "edge-1" || err != nil {
		t.Errorf("%s, %v", by, err)
	}
	if _, err := e.Admit(q, keys.Write); err == nil {
		t.Error("a certificate gives orders")
	}
	q.Header.Set("X-Api-Key", "wrong")
	if _, err := e.Admit(q, keys.Read); err == nil {
		t.Error("a wrong key is let through")
	}

	// Its name is known without a file of keys, too: it distinguishes bouncers.
	if e, err = Open(Config{Set: list(t), Ruling: usualRuling(t), Logger: quiet}); err != nil {
		t.Fatal(err)
	}
	q.Header.Del("X-Api-Key")
	if by, err := e.Admit(q, keys.Read); by != "edge-1" || err != nil {
		t.Errorf("without a file of keys: %s, %v", by, err)
	}
}

func TestWhereItMayListen(t *testing.T) {
	mutual := &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert}
	for listen, test := range map[string]struct {
		tls  *tls.Config
		keys bool
		good bool
	}{
		"127.0.0.1:0": {nil, false, true}, "[::1]:0": {nil, false, true}, "localhost:0": {nil, false, true}, "": {nil, false, true},
		":0": {nil, false, false}, "0.0.0.0:0": {&tls.Config{}, false, false}, "10.1.2.3:7421": {mutual, false, true}, "[::]:7421": {nil, true, true},
		"nowhere": {nil, false, false},
	} {
		c := Config{Set: list(t), Ruling: usualRuling(t), Listen: listen, TLS: test.tls, Logger: quiet}
		if test.keys {
			c.Keys = keysFile(t)
		}
		if _, err := Open(c); (err == nil) != test.good {
			t.Errorf("%q: %v", listen, err)
		}
	}
}

func TestTheSocket(t *testing.T) {
	r := start(t, list(t), nil)
	path := r.config.Socket
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if _, err := listenSocket(t.Context(), path); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a second enforcer: %v", err)
	}
	r.stop()
	stale, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	stale.(*net.UnixListener).SetUnlinkOnClose(false)
	stale.Close()
	again, err := listenSocket(t.Context(), path)
	if err != nil {
		t.Fatalf("what another process left: %v", err)
	}
	again.Close()
	if _, err := listenSocket(t.Context(), filepath.Join(t.TempDir(), strings.Repeat("x", 200))); err == nil {
		t.Error("a path that is too long")
	}
}

// TestADeletedSocketComesBack also deletes its folder.
func TestADeletedSocketComesBack(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "data")
	r := start(t, list(t), func(c *Config) { c.Socket = filepath.Join(folder, "weir.sock") })
	answers := func() bool {
		conn, err := net.Dial("unix", r.config.Socket)
		if err == nil {
			conn.Close()
		}
		return err == nil
	}
	wait.Until(t, "listened on", answers)
	for range 2 {
		if err := os.RemoveAll(folder); err != nil {
			t.Fatal(err)
		}
		wait.Until(t, "listened on again", answers)
		if got := r.ask(r.overSocket(), "POST", "/v1/blocks", `{"target":"203.0.113.8","why":"w"}`); got.status != http.StatusCreated {
			t.Errorf("an order over the socket that is there again: %d %s", got.status, got.body)
		}
	}
}

// A copy of the folder, as from a backup or on another disk, has a socket on which no one listens.
func TestTheSocketOfACopiedFolder(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "data")
	before, restored := folder+".before", folder+".copy"
	if err := os.Mkdir(restored, 0o700); err != nil {
		t.Fatal(err)
	}
	stale, err := net.Listen("unix", filepath.Join(restored, "weir.sock"))
	if err != nil {
		t.Fatal(err)
	}
	stale.(*net.UnixListener).SetUnlinkOnClose(false)
	stale.Close()

	r := start(t, list(t), func(c *Config) { c.Socket = filepath.Join(folder, "weir.sock") })
	for _, step := range [][2]string{{folder, before}, {restored, folder}, {folder, restored}, {before, folder}} {
		if err := os.Rename(step[0], step[1]); err != nil {
			t.Fatal(err)
		}
		if step[1] != folder {
			continue
		}
		wait.Until(t, "listened on", func() bool {
			conn, err := net.Dial("unix", r.config.Socket)
			if err == nil {
				conn.Close()
			}
			return err == nil
		})
		if got := r.ask(r.overSocket(), "POST", "/v1/blocks", `{"target":"203.0.113.8","why":"w"}`); got.status != http.StatusCreated {
			t.Errorf("an order over the socket of %s: %d %s", step[0], got.status, got.body)
		}
	}
}

func TestFollowersAreBounded(t *testing.T) {
	e, err := Open(Config{Set: blocklist.NewSet(blocklist.Limits{}), Ruling: usualRuling(t), Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	e.following.Store(maxFollowers)
	if _, err := e.follows(); err == nil || e.following.Load() != maxFollowers {
		t.Errorf("%v", err)
	}
}

// A file in the place of the socket, by a mistake in the configuration, is not deleted.
func TestAFileIsNotReplacedByTheSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, []byte("rules: []"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := listenSocket(t.Context(), path)
	if err == nil || !strings.Contains(err.Error(), "is no socket: move it away") {
		t.Errorf("%v", err)
	}
	if l != nil {
		l.Close()
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "rules: []" {
		t.Errorf("%q, %v", text, err)
	}
}

// A check is answered before the body that its request announces: some edges announce the client's and send none.
func TestCheckDoesNotWaitForABody(t *testing.T) {
	r := start(t, list(t, ofIP("203.0.113.7")), nil)
	for _, header := range []string{"Content-Length: 5", "Transfer-Encoding: chunked"} {
		conn, err := net.Dial("tcp", r.Address())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(bodyPatience - 5*time.Second)); err != nil {
			t.Fatal(err)
		}

		fmt.Fprintf(conn, "POST /v1/check HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Forwarded-For: 203.0.113.7\r\n%s\r\n\r\n", header)
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%s: %v", header, err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusTooManyRequests || !answer.Close {
			t.Errorf("%s: %s, closes %t", header, answer.Status, answer.Close)
		}
	}
}
