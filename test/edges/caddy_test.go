package edges

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/kafka/kafkatest"
	"weir/pkg/blocklist"
	"weir/test/locked"
	"weir/test/wait"
)

// caddy runs with the file of deployments/edge, with further replacements, and returns its URL and its output.
func (s *site) caddy(replace ...string) (string, *locked.Buffer) {
	t := s.t
	t.Helper()
	port, gone := freePort(t), freePort(t)
	text := snippet(t, "Caddyfile", append([]string{":80 {", ":" + port + " {", "127.0.0.1:7421", s.address, "127.0.0.1:8080", s.app,
		"\tservers {\n", "\tadmin off\n\tauto_https off\n\tdefault_bind " + loopback + "\n\tservers {\n"}, replace...)...)
	text = replaced(t, text, "127.0.0.1:7429", loopback+":"+gone, "bind 127.0.0.1", "bind "+loopback)
	said := run(t, program(t, "caddy", "caddy"), "run", "--adapter", "caddyfile", "--config", write(t, filepath.Join(t.TempDir(), "Caddyfile"), text))
	return "http://" + loopback + ":" + port, said
}

func TestCaddy(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	url, said := s.caddy()
	s.asksAndGoesOn(url, said.String, `"X-Weir":["refused manual"]`)
}

// A check has a Host of Caddy's own: Caddy 2.8 cannot send one such as xn--99999999é, and took the enforcer for down.
func TestCaddyChecksWithItsOwnHost(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	hosts := make(chan string, 100)
	asked := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { hosts <- r.Host }))
	t.Cleanup(asked.Close)
	enforcer := s.address
	s.address = asked.Listener.Addr().String()
	url, _ := s.caddy("protocols h1 h2\n", "protocols h1 h2c\n")
	awaitEdge(t, url)
	sendHTTP2(t, goodClient, strings.TrimPrefix(url, "http://"), "", ":method", "GET", ":scheme", "http", ":authority", "xn--99999999é", ":path", "/")
	for range len(hosts) {
		if host := <-hosts; host != s.address {
			t.Errorf("a check has the host %s", host)
		}
	}

	// Blocks refuse before and after such a request.
	s.address = enforcer
	url, _ = s.caddy("protocols h1 h2\n", "protocols h1 h2c\n")
	awaitEdge(t, url)
	s.order(blocklist.OrderBlock, blockedClient)
	refused := func() answer { return ask(t, blockedClient, url) }
	wants(t, "who is blocked", http.StatusTooManyRequests, refused)
	sendHTTP2(t, goodClient, strings.TrimPrefix(url, "http://"), "", ":method", "GET", ":scheme", "http", ":authority", "xn--99999999é", ":path", "/")
	if got := refused(); got.status != http.StatusTooManyRequests {
		t.Errorf("who is blocked, after it: %+v", got)
	}
}

// A check that fails lets no one pass. Newer Caddys cannot send a declared trailer such as "a b". A check of
// its own path has the body of the client, which may be broken.
func TestCaddyWithChecksThatFail(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	url, _ := s.caddy()
	awaitEdge(t, url)
	s.order(blocklist.OrderBlock, blockedClient)
	refused := func() answer { return ask(t, blockedClient, url) }
	wants(t, "who is blocked", http.StatusTooManyRequests, refused)
	for _, text := range []string{
		"POST / HTTP/1.1\r\nHost: h\r\nTrailer: a b\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"GET /v1/check/caddy HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nno chunk\r\n",
	} {
		for range 3 {
			begin(t, goodClient, strings.TrimPrefix(url, "http://"), text)
			for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); {
				if got := refused(); got.status != http.StatusTooManyRequests {
					t.Fatalf("who is blocked, after %q: %+v", text, got)
				}
			}
		}
	}
}

// Caddy refuses large headers itself: the enforcer refuses a check with them, or is late.
func TestCaddyWithLargeHeaders(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	url, _ := s.caddy()
	awaitEdge(t, url)
	for _, client := range []string{goodClient, blockedClient} {
		if got := ask(t, client, url, "Cookie", strings.Repeat("c", 70<<10)); got.status != http.StatusRequestHeaderFieldsTooLarge || got.header.Get("X-Weir") != "" {
			t.Errorf("%s: %+v", client, got)
		}
	}
}

// A check has the path that the client sent, as the log has it, also if the site changes the path before it asks.
func TestCaddyAsksForThePathThatWasSent(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	url, said := s.caddy("\treverse_proxy ", "\turi strip_prefix /app\n\trewrite /old/* /new\n\tmethod /old/* PUT\n\treverse_proxy ")
	awaitEdge(t, url)
	s.order(blocklist.OrderBlock, "path:/app/signin")
	s.order(blocklist.OrderBlock, "path:/old/x")
	s.order(blocklist.OrderBlock, "method:PUT")
	for _, path := range []string{"/app/signin", "/app/%73ignin?a=b", "//app/signin", "/old/x"} {
		wants(t, path, http.StatusTooManyRequests, func() answer { return ask(t, goodClient, url+path) })
	}
	for _, path := range []string{"/signin", "/app/other", "/old/y"} {
		wants(t, path, http.StatusOK, func() answer { return ask(t, goodClient, url+path) })
	}
	wait.Until(t, "the log has the path", func() bool { return strings.Contains(said.String(), `"uri":"/app/%73ignin?a=b"`) })
}

// Caddy serves other spellings of a site's host, and writes them to no log of the site. So the file for Debian has one log
// for all sites, also next to logs of their own.
func TestCaddyLogsEverySpellingOfAHost(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	port, folder := freePort(t), t.TempDir()
	log := filepath.Join(folder, "access.log")
	text := snippet(t, "../debian/caddy/weir.caddy", "127.0.0.1:7421", s.address, "127.0.0.1:7429", loopback+":"+freePort(t), "bind 127.0.0.1", "bind "+loopback,
		"/var/log/caddy/access.log", log, "\tservers {\n", "\tadmin off\n\tauto_https off\n\thttp_port "+port+"\n\tdefault_bind "+loopback+"\n\tservers {\n")
	text += "http://shop.example, http://*.shops.example {\n\timport weir\n\treverse_proxy " + s.app + "\n}\n" +
		"http://blog.example {\n\timport weir\n\tlog {\n\t\toutput file " + filepath.Join(folder, "blog.log") + "\n\t}\n\treverse_proxy " + s.app + "\n}\n" +
		"http:// {\n\timport weir\n\trespond other\n}\n"
	run(t, program(t, "caddy", "caddy"), "run", "--adapter", "caddyfile", "--config", write(t, filepath.Join(folder, "Caddyfile"), text))
	url := "http://" + loopback + ":" + port
	awaitEdge(t, url)
	for number, host := range []string{"shop.example", "SHOP.example", "Shop.Example:80", "[shop.example]", "shop.example:", "a.shops.example", "A.SHOPS.example", "blog.example", "bloG.example"} {
		path := "/" + strconv.Itoa(number)
		if got := sendTo(t, goodClient, http.MethodGet, url+path, host); got.status != http.StatusOK || got.body == "other" {
			t.Errorf("%s: %+v", host, got)
		}
		wait.Until(t, "the log has "+host, func() bool {
			said, _ := os.ReadFile(log)
			return strings.Count(string(said), `"uri":"`+path+`"`) == 1
		})
	}
}

// Caddy asks Weir before a password or an auth service of a path is asked for, if these are in a handle.
func TestCaddyAsksBeforeAPassword(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	serve := "\treverse_proxy " + s.app + "\n}\n"
	url, _ := s.caddy("\treverse_proxy ", "handle /password/* {\nbasicauth {\nalice "+hashOfSecret+"\n}\n"+serve+
		"handle /service/* {\nforward_auth "+s.app+" {\nuri /forbidden\n}\n"+serve+"\treverse_proxy ")
	awaitEdge(t, url)
	s.order(blocklist.OrderBlock, blockedClient)
	for path, want := range map[string]int{"/password/x": http.StatusUnauthorized, "/service/x": http.StatusForbidden, "/": http.StatusOK} {
		wants(t, "who is blocked, "+path, http.StatusTooManyRequests, func() answer { return ask(t, blockedClient, url+path) })
		wants(t, "who is not, "+path, want, func() answer { return ask(t, goodClient, url+path) })
	}
}

// In the early data of HTTP/3 a client can send requests with the address of someone else. So the file has Caddy serve
// sites with HTTPS over TCP only.
func TestCaddyServesNoHTTP3(t *testing.T) {
	s := newSite(t)
	pair, err := kafkatest.NewCertificates(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for protocols, answers := range map[string]bool{"protocols h1 h2\n": false, "\n": true} {
		port := freePort(t)
		text := snippet(t, "Caddyfile", "protocols h1 h2\n", protocols, ":80 {", "https://localhost:"+port+" {\n\tbind "+loopback+"\n\ttls "+pair.Client+" "+pair.ClientKey,
			"127.0.0.1:7421", s.address, "127.0.0.1:7429", loopback+":"+freePort(t), "bind 127.0.0.1", "bind "+loopback, "\tservers {\n", "\tadmin off\n\tauto_https off\n\tservers {\n")
		run(t, program(t, "caddy", "caddy"), "run", "--adapter", "caddyfile", "--config", write(t, filepath.Join(t.TempDir(), "Caddyfile"), text))
		wait.Until(t, "it listens over TCP", func() bool {
			connection, err := net.Dial("tcp", loopback+":"+port)
			if err != nil {
				return false
			}
			return connection.Close() == nil
		})
		if answers {
			wait.Until(t, "it answers over QUIC", func() bool { return servesQUIC(t, loopback+":"+port) })
		} else if servesQUIC(t, loopback+":"+port) {
			t.Errorf("it answers over QUIC, with\n%s", text)
		}
	}
}

// servesQUIC reports whether a server answers a QUIC packet of a version that does not exist, with the versions that do.
func servesQUIC(t *testing.T, address string) bool {
	t.Helper()
	connection, err := net.Dial("udp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	packet := make([]byte, 1200)
	copy(packet, "\xc0\x1a\x2a\x3a\x4a\x08weirweir\x08testtest")
	for range 5 {
		if _, err := connection.Write(packet); err != nil {
			return false
		}
		_ = connection.SetReadDeadline(time.Now().Add(time.Second))
		switch _, err := connection.Read(make([]byte, 1500)); {
		case err == nil:
			return true
		case errors.Is(err, syscall.ECONNREFUSED):
			return false
		}
	}
	return false
}

// Without the second server to ask, no request passes without an enforcer.
func TestCaddyClosed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	url, _ := s.caddy("127.0.0.1:7429 {\n\t\turi", "{\n\t\turi")
	awaitEdge(t, url)
	s.stop()
	// It depends on whether Caddy has noticed already.
	if refused := ask(t, goodClient, url); refused.status != http.StatusBadGateway && refused.status != http.StatusServiceUnavailable {
		t.Errorf("without an enforcer: %+v", refused)
	}
}

// While the application is down, Caddy writes an error for each request next to its line of the access log. In a container
// both go to one place. Each request counts once.
func TestCaddysErrorsAreNoRequests(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.app = loopback + ":" + freePort(t)
	url, said := s.caddy()
	wait.Until(t, "Caddy answers", func() bool { return ask(t, goodClient, url).status == http.StatusBadGateway })
	const client = "127.0.0.78"
	for range 5 {
		ask(t, client, url)
	}
	const counts = `match: 'status == 502', key: ip`
	wait.Until(t, "all are in the log", func() bool { return strings.Count(said.String(), client) >= 10 })
	if got := hitsIn(t, counts, "caddy", said.String()); got[client] != 5 {
		t.Errorf("5 requests count as %d", got[client])
	}
}
