package edges

import (
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"

	"weir/pkg/blocklist"
	"weir/pkg/request"
	"weir/test/wait"
)

// countsSpellings sends request lines that an edge serves as /signin in other spellings, and expects that path in its
// log, and in its checks.
func (s *site) countsSpellings(address string, log func() string, format string, spellings ...string) {
	t := s.t
	t.Helper()
	awaitEdge(t, "http://"+address)
	for _, line := range spellings {
		if got := raw(t, goodClient, address, line); !strings.Contains(got, " 200 ") {
			t.Fatalf("%q: %s", line, got)
		}
	}
	decoder, err := request.NewDecoder("none", format, request.Options{})
	if err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "all are in the log, as /signin", func() bool {
		count := 0
		for line := range strings.Lines(log()) {
			var r request.Request
			if decoder.Decode(line, &r) == nil && r.IP == netip.MustParseAddr(goodClient) && r.Status == http.StatusOK {
				if path, _ := (request.PathForm{}).Normal(r.Path, r.PathDecoded, nil); path == "/signin" {
					count++
				}
			}
		}
		return count == len(spellings)
	})
	s.order(blocklist.OrderBlock, "path:/signin")
	for _, line := range spellings {
		wait.Until(t, "a check refuses "+line, func() bool { return strings.Contains(raw(t, goodClient, address, line), " 429 ") })
	}
}

func TestSpellingsNginx(t *testing.T) {
	s := newSite(t)
	address := loopback + ":" + freePort(t)
	log := nginx(t, snippet(t, "nginx.conf", "listen 80;", "listen "+address+";", "127.0.0.1:7421", s.address, "127.0.0.1:8080", s.app))
	text := func() string {
		text, _ := os.ReadFile(log)
		return string(text)
	}
	s.countsSpellings(address, text, "weir", "GET /signin HTTP/1.1", "GET  /signin HTTP/1.1", "GET    /signin  HTTP/1.1", "GET /signin  HTTP/1.1",
		"GET a://h/signin HTTP/1.1", "GET http://h/signin HTTP/1.1", "GET http://h/%2e//signin HTTP/1.1")
}

func TestSpellingsCaddy(t *testing.T) {
	s := newSite(t)
	url, said := s.caddy()
	s.countsSpellings(strings.TrimPrefix(url, "http://"), said.String, "caddy", "GET /signin HTTP/1.1", "GET http:/signin HTTP/1.1", "GET a+b:/signin HTTP/1.1",
		"GET http:///signin HTTP/1.1", "GET a://h/signin HTTP/1.1", "CONNECT /signin HTTP/1.1", "GET /#/../signin HTTP/1.1", "GET http://h/#/../signin HTTP/1.1")
}

func TestSpellingsTraefik(t *testing.T) {
	s := newSite(t)
	url, said := s.traefik()
	s.countsSpellings(strings.TrimPrefix(url, "http://"), said.String, "traefik-json", "GET /signin HTTP/1.1", "GET http:/signin HTTP/1.1", "GET a+b:/signin HTTP/1.1",
		"GET http:///signin HTTP/1.1", "GET a://h/signin HTTP/1.1")
}
