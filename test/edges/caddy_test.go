package edges

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// caddy runs with the file of deployments/edge, with further replacements, and returns its URL and its output.
func (s *site) caddy(replace ...string) (string, *output) { return s.caddyWith("", replace...) }

// caddyWith runs Caddy with further global options, too.
func (s *site) caddyWith(options string, replace ...string) (string, *output) {
	t := s.t
	t.Helper()
	port, gone := freePort(t), freePort(t)
	text := snippet(t, "Caddyfile", append([]string{":80 {", ":" + port + " {", "127.0.0.1:7421", s.address, "127.0.0.1:8080", s.app}, replace...)...)
	text = "{\n" + options + "\tadmin off\n\tauto_https off\n\tdefault_bind " + loopback + "\n}\n" + replaced(t, text, "127.0.0.1:7429", loopback+":"+gone, "bind 127.0.0.1", "bind "+loopback)
	said := run(t, program(t, "caddy", "caddy"), "run", "--adapter", "caddyfile", "--config", write(t, filepath.Join(t.TempDir(), "Caddyfile"), text))
	return "http://" + loopback + ":" + port, said
}

func TestCaddy(t *testing.T) {
	s := newSite(t)
	url, said := s.caddy()
	s.asksAndGoesOn(url, said.String, `"X-Weir":["refused manual"]`)
}

// Caddy refuses large headers itself: the enforcer refuses a check with them, or is late.
func TestCaddyWithLargeHeaders(t *testing.T) {
	s := newSite(t)
	url, _ := s.caddyWith("\tservers {\n\t\tmax_header_size 60KB\n\t}\n")
	awaitEdge(t, url)
	for _, client := range []string{goodClient, blockedClient} {
		if got := ask(t, client, url, "Cookie", strings.Repeat("c", 70<<10)); got.status != http.StatusRequestHeaderFieldsTooLarge || got.header.Get("X-Weir") != "" {
			t.Errorf("%s: %+v", client, got)
		}
	}
}

// Without the second server to ask, no request passes without an enforcer.
func TestCaddyClosed(t *testing.T) {
	s := newSite(t)
	url, _ := s.caddy("127.0.0.1:7429 {\n\t\turi", "{\n\t\turi")
	awaitEdge(t, url)
	s.stop()
	if refused := ask(t, goodClient, url); refused.status != http.StatusBadGateway {
		t.Errorf("without an enforcer: %+v", refused)
	}
}
