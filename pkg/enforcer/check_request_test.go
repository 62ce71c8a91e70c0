package enforcer

import (
	"bufio"
	"net/http"
	"strings"
	"testing"

	"weir/pkg/request"
)

// asked is a request as an edge sends it, read from its bytes.
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
	plain := &dialect{refusal: 429, read: readEither}
	for name, test := range map[string]struct{ sent, method, host, path, query string }{
		"nginx":                  {"GET /v1/check/nginx HTTP/1.0\nHost: shop.example\nX-Original-URI: /login?a=b?c\nX-Original-Method: POST", "POST", "shop.example", "/login", "a=b?c"},
		"nginx, spoofed":         {"GET /v1/check/nginx HTTP/1.0\nHost: h\nX-Original-URI: /login\nX-Original-Method: POST\nX-Forwarded-Uri: /other\nX-Forwarded-Method: GET\nX-Forwarded-Host: x", "POST", "h", "/login", ""},
		"ingress-nginx":          {"GET /v1/check/nginx HTTP/1.1\nHost: enforcer\nX-Original-URL: https://shop.example/a//b?x\nX-Original-Method: PUT", "PUT", "shop.example", "/a//b", "x"},
		"a URL without a path":   {"GET /v1/check/nginx HTTP/1.1\nHost: enforcer\nX-Original-URL: https://shop.example?x", "", "shop.example", "", "x"},
		"a URL within the query": {"GET /v1/check/nginx HTTP/1.1\nHost: h\nX-Original-URI: /go?to=http://x/y", "", "h", "/go", "to=http://x/y"},
		"nginx that says little": {"GET /v1/check/nginx HTTP/1.0\nHost: h", "", "h", "", ""},
		"traefik":                {"GET /v1/check/traefik HTTP/1.1\nHost: enforcer:7421\nX-Forwarded-Method: DELETE\nX-Forwarded-Uri: /x?y\nX-Forwarded-Host: shop.example\nX-Original-URI: /spoofed", "DELETE", "shop.example", "/x", "y"},
		"caddy":                  {"GET /v1/check/caddy HTTP/1.1\nHost: shop.example\nX-Forwarded-Method: GET\nX-Forwarded-Uri: /", "GET", "shop.example", "/", ""},
		"envoy":                  {"POST /v1/check/envoy/login?next=%2F HTTP/1.1\nHost: shop.example\nX-Forwarded-Uri: /spoofed", "POST", "shop.example", "/login", "next=%2F"},
		"envoy, dots":            {"GET /v1/check/envoy//a/../b HTTP/1.1\nHost: shop.example", "GET", "shop.example", "//a/../b", ""},
		"envoy, no path":         {"GET /v1/check/envoy HTTP/1.1\nHost: shop.example", "GET", "shop.example", "", ""},
		"either, forwarded":      {"GET /v1/check HTTP/1.1\nHost: h\nX-Forwarded-Method: GET\nX-Forwarded-Uri: /f", "GET", "h", "/f", ""},
		"either, original":       {"GET /v1/check HTTP/1.1\nHost: h\nX-Original-Method: GET\nX-Original-URI: /o\nX-Forwarded-Host: shop.example", "GET", "shop.example", "/o", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := asked(t, test.sent)
			if !asksCheck(r.URL.Path) {
				t.Fatal("it is no check")
			}
			var q request.Request
			dialectOf(r.URL.Path, plain).read(&q, r)
			if q.Method != test.method || q.Host != test.host || q.Path != test.path || q.Query != test.query {
				t.Errorf("%q %q %q %q", q.Method, q.Host, q.Path, q.Query)
			}
		})
	}
}

func TestWhatIsNoCheck(t *testing.T) {
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
