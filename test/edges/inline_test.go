package edges

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/pkg/blocklist"
)

// allowsFive checks that of the requests to a path the sixth within a minute is refused, and by what.
func allowsFive(t *testing.T, from, url string, headers ...string) {
	t.Helper()
	for n := range 5 {
		if got := ask(t, from, url, headers...); got.status != http.StatusOK {
			t.Fatalf("request %d of 5: %+v", n+1, got)
		}
	}
	if got := ask(t, from, url, headers...); got.status != http.StatusTooManyRequests || got.header.Get("Retry-After") == "" {
		t.Errorf("the sixth: %+v", got)
	}
}

func TestEdgesRefuseTheOneTooMany(t *testing.T) {
	for name, start := range map[string]func(*site) string{
		"nginx": func(s *site) string {
			port := freePort(s.t)
			nginx(s.t, snippet(s.t, "nginx.conf", "listen 80;", "listen "+loopback+":"+port+";", "127.0.0.1:7421", s.address, "127.0.0.1:8080", s.app))
			return "http://" + loopback + ":" + port
		},
		"Caddy":   func(s *site) string { url, _ := s.caddy(); return url },
		"Traefik": func(s *site) string { url, _ := s.traefik(); return url },
		"Envoy":   func(s *site) string { url, _ := s.envoy(); return url },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			url := start(s)
			awaitEdge(t, url)
			allowsFive(t, goodClient, url+"/at-once")
			if got := ask(t, goodClient, url+"/x/..//at-once"); name != "Caddy" && got.status == http.StatusOK {
				t.Errorf("another spelling of the path: %+v", got)
			}
			if got := ask(t, goodClient, url+"/"); got.status != http.StatusOK {
				t.Errorf("another path: %+v", got)
			}
			allowsFive(t, "127.0.0.3", url+"/at-once")
			allowsFive(t, "127.0.0.4", url+"/at-once", "X-Weir-Request", "one", "X-Weir-Attempt", "one") // a client names no request
		})
	}
}

// An enforcer without a list, or without its store of inline limits, may refuse. Its answer is not that of one that
// fails, which edges let pass.
func TestEdgesRefuseWithoutAList(t *testing.T) {
	for name, edge := range map[string]struct {
		start  func(*site) string
		status int
	}{
		"nginx": {func(s *site) string {
			port := freePort(s.t)
			nginx(s.t, snippet(s.t, "nginx.conf", "listen 80;", "listen "+loopback+":"+port+";", "127.0.0.1:7421", s.address, "127.0.0.1:8080", s.app))
			return "http://" + loopback + ":" + port
		}, http.StatusTooManyRequests},
		"Caddy":             {func(s *site) string { url, _ := s.caddy(); return url }, http.StatusServiceUnavailable},
		"Traefik":           {func(s *site) string { url, _ := s.traefik(); return url }, http.StatusServiceUnavailable},
		"Envoy":             {func(s *site) string { url, _ := s.envoy(); return url }, http.StatusTooManyRequests},
		"Envoy over gRPC":   {func(s *site) string { url, _ := s.envoyGRPC(authorizes); return url }, http.StatusServiceUnavailable},
		"Envoy, rate limit": {func(s *site) string { url, _ := s.envoyGRPC(limits, withKey...); return url }, http.StatusTooManyRequests},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.stop()
			s.set, s.denies = blocklist.NewSet(blocklist.Limits{}), true
			s.start()
			s.order(blocklist.OrderAllow, goodClient)
			url := edge.start(s)
			awaitEdge(t, url)
			wants(t, "one who is not allowed", edge.status, func() answer { return ask(t, "127.0.0.3", url) })
		})
	}
}

// nginx asks again after each internal redirect. Such a request counts once.
func TestNginxCountsARedirectedRequestOnce(t *testing.T) {
	s := newSite(t)
	port, folder := freePort(t), t.TempDir()
	if err := os.MkdirAll(filepath.Join(folder, "at-once"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(folder, "at-once", "index.html"), "the page")
	asks := "auth_request /_weir;\nauth_request_set $weir $upstream_http_x_weir;\nauth_request_set $weir_retry $upstream_http_retry_after;\nerror_page 403 = @weir_refused;\n"
	pages := "location /at-once {\n" + asks + "root " + folder + ";\nindex index.html;\n}\nlocation /at-once-tried {\n" + asks + "root " + folder + ";\ntry_files $uri /at-once/index.html;\n}\n"
	nginx(t, snippet(t, "nginx.conf", "listen 80;", "listen "+loopback+":"+port+";", "127.0.0.1:7421", s.address, "127.0.0.1:8080", s.app,
		"        location / {", pages+"        location / {"))
	url := "http://" + loopback + ":" + port
	awaitEdge(t, url)
	allowsFive(t, goodClient, url+"/at-once/")
	allowsFive(t, "127.0.0.3", url+"/at-once-tried")
}

// signIn is a sign-in of the application: a right password costs nothing.
func (s *site) signIn(w http.ResponseWriter, r *http.Request) {
	if r.FormValue("password") != "right" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	body := fmt.Sprintf(`{"attempt": %q, "cost": 0}`, r.Header.Get("X-Weir-Attempt"))
	q, err := http.NewRequest(http.MethodPost, "http://"+s.address+"/v1/settle", bytes.NewReader([]byte(body)))
	if err != nil {
		s.t.Error(err)
		return
	}
	q.Header.Set("X-Api-Key", takeKey)
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		s.t.Error(err)
		return
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		s.t.Errorf("settling %s: %s", body, answer.Status)
	}
}

// Five wrong passwords a minute: right ones do not count, and the sixth wrong one is refused.
func TestNginxRefusesTheSixthWrongPassword(t *testing.T) {
	s := newSite(t)
	port := freePort(t)
	nginx(t, snippet(t, "nginx.conf", "listen 80;", "listen "+loopback+":"+port+";", "127.0.0.1:7421", s.address, "127.0.0.1:8080", s.app,
		"            proxy_pass http://"+s.app+";", "            auth_request_set $weir_attempt $upstream_http_x_weir_attempt;\n            proxy_set_header X-Weir-Attempt $weir_attempt;\n            proxy_pass http://"+s.app+";"))
	url := "http://" + loopback + ":" + port
	awaitEdge(t, url)
	try := func(password string) int { return ask(t, goodClient, url+"/at-once/sign-in?password="+password).status }
	for n := range 5 {
		for range 3 {
			if got := try("right"); got != http.StatusOK {
				t.Fatalf("a right password after %d wrong ones: %d", n, got)
			}
		}
		if got := try("wrong"); got != http.StatusUnauthorized {
			t.Fatalf("wrong password %d of 5: %d", n+1, got)
		}
	}
	for _, password := range []string{"wrong", "right"} {
		if got := try(password); got != http.StatusTooManyRequests {
			t.Errorf("a %s password after five wrong ones: %d", password, got)
		}
	}
	// A client cannot name an attempt of its own.
	if got := ask(t, "127.0.0.3", url+"/at-once/sign-in?password=right", "X-Weir-Attempt", strings.Repeat("0", 32)); got.status != http.StatusOK {
		t.Errorf("with an attempt of the client's: %+v", got)
	}
}
