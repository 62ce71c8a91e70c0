package enforcer

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// ask sends one request literally and returns the status, and whether the connection is closed after the answer.
func ask(t *testing.T, address string, lines ...string) (status int, closed bool) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, strings.Join(lines, "\r\n")+"\r\n\r\n")
	conn.SetReadDeadline(time.Now().Add(time.Minute))
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	return answer.StatusCode, answer.Close
}

// Without keys, requests of web pages in a browser are refused, even when their name resolves to 127.0.0.1. Checks
// carry headers of the original request, and are answered whatever these are.
func TestPagesAreNotAnswered(t *testing.T) {
	free := start(t, list(t, ofIP("203.0.113.7")), func(c *Config) { c.Keys, c.Hosts = nil, []string{"enforcer.internal"} })
	keyed := start(t, list(t, ofIP("203.0.113.7")), func(c *Config) { c.Keys = keysFile(t) })
	for _, test := range []struct {
		request, host, more string
		free, keyed         int
	}{
		{"GET /v1/blocklist", "rebind.example:7421", "", 403, 401},
		{"GET /v1/find?key=203.0.113.7", "rebind.example", "", 403, 401},
		{"GET /v1/blocklist", "127.0.0.1:7421", "", 200, 401},
		{"GET /v1/blocklist", "enforcer.internal:7421", "", 200, 401},
		{"GET /v1/blocklist", "localhost", "Origin: http://evil.example", 403, 403},
		{"GET /v1/blocklist", "localhost", "Sec-Fetch-Site: cross-site", 403, 403},
		{"DELETE /v1/pause", "localhost", "Sec-Fetch-Site: same-site", 403, 403},
		{"GET /nothing", "localhost", "", 404, 404},
		{"GET /v1/check/nothing", "shop.example", "", 404, 404},
		{"GET /v1/check/envoy/index.html", "shop.example", "Origin: http://evil.example", 200, 200},
		{"GET /v1/check", "shop.example", "Sec-Fetch-Site: cross-site\r\nX-Forwarded-For: 203.0.113.7", 429, 429},
	} {
		lines := []string{test.request + " HTTP/1.1", "Host: " + test.host, "X-A: b"}
		if test.more != "" {
			lines = append(lines, test.more)
		}
		closes := func(status int) bool { return status == 401 || status == 403 || status == 404 }
		if status, closed := ask(t, free.Address(), lines...); status != test.free || closed != closes(status) {
			t.Errorf("without keys: %+v: %d, closed %v", test, status, closed)
		}
		if status, closed := ask(t, keyed.Address(), lines...); status != test.keyed || closed != closes(status) {
			t.Errorf("with keys: %+v: %d, closed %v", test, status, closed)
		}
	}
}
