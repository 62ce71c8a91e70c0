package enforcer

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"weir/pkg/blocklist"
	"weir/pkg/request"
)

// asked returns a request as an edge sends it, read from its bytes.
func asked(t testing.TB, text string) *http.Request {
	t.Helper()
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(strings.ReplaceAll(text, "\n", "\r\n") + "\r\n\r\n")))
	if err != nil {
		t.Fatal(err)
	}
	r.RemoteAddr = "127.0.0.1:4711"
	return r
}

func TestTheOriginalRequestIsFound(t *testing.T) {
	plain := anyEdge(429)
	for name, test := range map[string]struct{ sent, method, host, path, query string }{
		"nginx":                   {"GET /v1/check/nginx HTTP/1.0\nHost: shop.example\nX-Original-URI: /login?a=b?c\nX-Original-Method: POST", "POST", "shop.example", "/login", "a=b?c"},
		"nginx, spoofed":          {"GET /v1/check/nginx HTTP/1.0\nHost: h\nX-Original-URI: /login\nX-Original-Method: POST\nX-Forwarded-Uri: /other\nX-Forwarded-Method: GET\nX-Forwarded-Host: x", "POST", "h", "/login", ""},
		"nginx, another host":     {"GET /v1/check/nginx HTTP/1.0\nHost: h\nX-Original-URI: /login\nX-Original-Host: other", "", "h", "/login", ""},
		"nginx, a complete URL":   {"GET /v1/check/nginx HTTP/1.0\nHost: h\nX-Original-URI: http://other/login", "", "h", "/login", ""},
		"ingress-nginx, its own":  {"GET /v1/check/ingress-nginx HTTP/1.1\nHost: h\nX-Original-URL: https://shop.example/a\nX-Original-URI: /spoofed\nX-Original-Method: PUT", "PUT", "shop.example", "/a", ""},
		"traefik, a complete URL": {"GET /v1/check/traefik HTTP/1.1\nHost: h\nX-Forwarded-Uri: http://other/x\nX-Forwarded-Host: shop.example", "", "shop.example", "/x", ""},
		"ingress-nginx":           {"GET /v1/check/nginx HTTP/1.1\nHost: enforcer\nX-Original-URL: https://shop.example/a//b?x\nX-Original-Method: PUT", "PUT", "shop.example", "/a//b", "x"},
		"a URL without a path":    {"GET /v1/check/nginx HTTP/1.1\nHost: enforcer\nX-Original-URL: https://shop.example?x", "", "shop.example", "/", "x"},
		"nginx, only a query":     {"GET /v1/check/nginx HTTP/1.1\nHost: h\nX-Original-URI: ?x", "", "h", "/", "x"},
		"a URL within the query":  {"GET /v1/check/nginx HTTP/1.1\nHost: h\nX-Original-URI: /go?to=http://x/y", "", "h", "/go", "to=http://x/y"},
		"nginx that says little":  {"GET /v1/check/nginx HTTP/1.0\nHost: h", "", "h", "", ""},
		"traefik":                 {"GET /v1/check/traefik HTTP/1.1\nHost: enforcer:7421\nX-Forwarded-Method: DELETE\nX-Forwarded-Uri: /x?y\nX-Forwarded-Host: shop.example\nX-Original-URI: /spoofed", "DELETE", "shop.example", "/x", "y"},
		"caddy":                   {"GET /v1/check/caddy HTTP/1.1\nHost: shop.example\nX-Forwarded-Method: GET\nX-Forwarded-Uri: /", "GET", "shop.example", "/", ""},
		"caddy, as sent":          {"GET /v1/check/caddy HTTP/1.1\nHost: h\nX-Forwarded-Uri: /a?b#c", "", "h", "/a", "b#c"},
		"caddy, a number sign":    {"GET /v1/check/caddy HTTP/1.1\nHost: h\nX-Forwarded-Uri: /#/../a?b", "", "h", "/%23/../a", "b"},
		"caddy, a complete URL":   {"GET /v1/check/caddy HTTP/1.1\nHost: h\nX-Forwarded-Uri: http://other/a?b", "", "h", "/a", "b"},
		"caddy, without a host":   {"GET /v1/check/caddy HTTP/1.1\nHost: h\nX-Forwarded-Uri: a+b:/c://d/e?f", "", "h", "/c://d/e", "f"},
		"caddy, CONNECT":          {"GET /v1/check/caddy HTTP/1.1\nHost: h\nX-Forwarded-Method: CONNECT\nX-Forwarded-Uri: other:443", "CONNECT", "h", "/", ""},
		"envoy":                   {"POST /v1/check/envoy/login?next=%2F HTTP/1.1\nHost: shop.example\nX-Forwarded-Uri: /spoofed", "POST", "shop.example", "/login", "next=%2F"},
		"envoy, dots":             {"GET /v1/check/envoy//a/../b HTTP/1.1\nHost: shop.example", "GET", "shop.example", "//a/../b", ""},
		"envoy, no path":          {"GET /v1/check/envoy HTTP/1.1\nHost: shop.example", "GET", "shop.example", "", ""},
		"either, forwarded":       {"GET /v1/check HTTP/1.1\nHost: h\nX-Forwarded-Method: GET\nX-Forwarded-Uri: /f", "GET", "h", "/f", ""},
		"either, original":        {"GET /v1/check HTTP/1.1\nHost: h\nX-Original-Method: GET\nX-Original-URI: /o\nX-Forwarded-Host: other", "GET", "h", "/o", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := asked(t, test.sent)
			if !asksCheck(r.URL.Path) {
				t.Fatal("it is no check")
			}
			var q request.Request
			read, _ := dialectOf(r.URL.Path, plain).readerOf(0, r)
			read(&q, r)
			if q.Method != test.method || q.Host != test.host || q.Path != test.path || q.Query != test.query {
				t.Errorf("%q %q %q %q", q.Method, q.Host, q.Path, q.Query)
			}
		})
	}
}

func TestRequestsThatAreNoCheck(t *testing.T) {
	for _, path := range []string{"", "/", "/v1/checks", "/v1/chec", "/v1/blocklist"} {
		if asksCheck(path) {
			t.Errorf("%s is taken for a check", path)
		}
	}
	for _, path := range []string{"/v1/check/", "/v1/check/haproxy", "/v1/check/nginx/login"} {
		if dialectOf(path, nil) != nil {
			t.Errorf("%s is taken for an edge's", path)
		}
	}
}

// A request with headers of two kinds is refused when either reading is: the edge did not set one of them.
func TestHeadersOfTwoKindsRefuseByEither(t *testing.T) {
	r := start(t, list(t), nil)
	now := time.Now().UnixMilli()
	for i, o := range []blocklist.Order{{Kind: blocklist.OrderBlock, Scope: "path", Value: "/closed"}, {Kind: blocklist.OrderBlock, Scope: "host", Value: "closed.example"},
		{Kind: blocklist.OrderAllow, Scope: "path", Value: "/free"}} {
		o.ID, o.From, o.Until, o.By, o.Why = fmt.Sprint(i), now, blocklist.Never, "test", "test"
		if err := r.config.Set.Order(&o, now); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		path    string
		headers []string
		status  int
	}{
		{"/v1/check", []string{"X-Original-URI", "/closed", "X-Forwarded-Uri", "/"}, 429},
		{"/v1/check", []string{"X-Original-URI", "/closed", "X-Forwarded-Uri", "/free"}, 429},
		{"/v1/check", []string{"X-Original-URI", "/", "X-Forwarded-Uri", "/closed"}, 429},
		{"/v1/check", []string{"X-Original-URI", "/closed", "X-Forwarded-Method", "GET"}, 429},
		{"/v1/check", []string{"X-Original-URI", "/", "X-Original-URL", "/", "X-Forwarded-Uri", "/closed"}, 429},
		{"/v1/check", []string{"X-Original-URI", "/", "X-Forwarded-Uri", "/free"}, 200},
		{"/v1/check/nginx", []string{"X-Original-URI", "/closed", "X-Original-URL", "https://h/"}, 403},
		{"/v1/check/nginx", []string{"X-Original-URI", "/", "X-Original-URL", "https://closed.example/"}, 403},
		{"/v1/check/nginx", []string{"X-Original-URI", "/", "X-Forwarded-Uri", "/closed"}, 200},
		{"/v1/check/ingress-nginx", []string{"X-Original-URI", "/closed", "X-Original-URL", "https://h/"}, 200},
		{"/v1/check/ingress-nginx", []string{"X-Original-URL", "https://h?x/closed"}, 403},
		{"/v1/check/ingress-nginx", []string{"X-Original-URL", "https://h?/closed?y"}, 403},
		{"/v1/check/ingress-nginx", []string{"X-Original-URL", "https://closed.example?x/"}, 403},
		{"/v1/check/ingress-nginx", []string{"X-Original-URL", "https://h?x/"}, 200},
		{"/v1/check/ingress-nginx", []string{"X-Original-URL", "https://h/?x=/closed"}, 200},
		{"/v1/check/nginx", []string{"X-Original-URL", "https://h?x/closed"}, 403},
		{"/v1/check", []string{"X-Original-URL", "https://h?x/closed"}, 429},
		{"/v1/check/traefik", []string{"X-Forwarded-Uri", "/closed", "X-Original-URI", "/free"}, 429},
		{"/v1/check/envoy/closed", []string{"X-Forwarded-Uri", "/free", "X-Original-URI", "/free", "X-Envoy-Original-Path", "/free"}, 429},
	} {
		if got := r.get(test.path, append(test.headers, "X-Forwarded-For", "203.0.113.7")...); got.status != test.status {
			t.Errorf("%s %v: %d, want %d", test.path, test.headers, got.status, test.status)
		}
	}
}

// The text that Caddy sends for a user that it does not know is no user. Other edges send names as they are, over HTTP/2
// with the spaces around them, and some a dash for none.
func TestPlaceholdersOfCaddyAreNoUser(t *testing.T) {
	for _, c := range [][3]string{
		{"/v1/check/caddy", "alice", "alice"}, {"/v1/check/caddy", "{http.auth.user.id}", ""},
		{"/v1/check/caddy", "{http.request.tls.client.subject}", ""}, {"/v1/check/caddy", "{http.a} b", "{http.a} b"},
		{"/v1/check/nginx", "{http.auth.user.id}", "{http.auth.user.id}"}, {"/v1/check/envoy/v1/check/caddy", "{http.a}", "{http.a}"},
		{"/v1/check/nginx", " alice\t", "alice"}, {"/v1/check/nginx", "-", ""}, {"/v1/check/nginx", "- a", "- a"},
	} {
		r := httptest.NewRequest(http.MethodGet, c[0], nil)
		r.Header.Set("X-User", c[1])
		if got := named(r, "X-User"); got != c[2] {
			t.Errorf("%s: %q is %q", c[0], c[1], got)
		}
	}
}
