package edges

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/pkg/blocklist"
	"weir/test/wait"
)

const (
	shopClient = "127.0.0.67" // refused by the rule shop, at one host and one path
	shopHost   = "shop.example"
	freeHost   = "free.example"
)

// claims are the headers with which a client may claim that its request is another one: those that some edge sends with
// its checks, and those that commonly name a client or a user.
var claims = []string{
	"X-Original-URI", "/", "X-Original-URL", "http://" + freeHost + "/", "X-Original-Host", freeHost, "X-Original-Method", "OPTIONS",
	"X-Forwarded-Uri", "/", "X-Forwarded-Host", freeHost, "X-Forwarded-Method", "OPTIONS", "X-Forwarded-Proto", "ftp", "X-Forwarded-Port", "1",
	"X-Forwarded-Prefix", "/other", "X-Forwarded-Server", freeHost, "X-Forwarded-Path", "/", "X-Forwarded-User", "vip",
	"X-Forwarded-For", goodClient, "Forwarded", "for=" + goodClient + ";host=" + freeHost, "X-Real-Ip", goodClient, "X-Client-Ip", goodClient,
	"True-Client-Ip", goodClient, "Cf-Connecting-Ip", goodClient, "X-Cluster-Client-Ip", goodClient, "Fastly-Client-Ip", goodClient,
	"X-Envoy-External-Address", goodClient, "X-Envoy-Original-Path", "/", "X-Envoy-Original-Host", freeHost, "X-Envoy-Internal", "true",
	"X-Envoy-Decorator-Operation", "other", "X-Rewrite-Url", "/", "X-Http-Method-Override", "OPTIONS", "X-User", "vip", "X-Tenant", "vip",
	"X-Weir", "allowed",
}

// claimed are ways to send them: each header alone, all at once, each twice, and all of them named in Connection, which
// makes proxies remove headers.
func claimed() (ways map[string][]string) {
	ways = map[string][]string{"none": nil, "all": claims}
	var names []string
	for pair := range slices.Chunk(claims, 2) {
		ways[pair[0]] = pair
		names = append(names, pair[0])
	}
	ways["named in Connection"] = []string{"Connection", strings.Join(names, ", ")}
	ways["all, and named in Connection"] = append([]string{"Connection", strings.Join(names, ", ")}, claims...)
	return ways
}

// claimsChangeNothing sends requests, with and without the headers, that are refused by the address, by a rule for one
// host and one path, or by host, path and method, and some that are not refused.
func (s *site) claimsChangeNothing(url string) {
	t := s.t
	t.Helper()
	awaitEdge(t, url)
	s.judged("shop", shopClient+" "+shopHost, nil)
	refuses := func(a answer) bool { // Envoy refuses requests that name its own headers in Connection
		return a.status == http.StatusBadRequest && a.header.Get("Server") == "envoy"
	}
	s.order(blocklist.OrderBlock, blockedClient)
	s.order(blocklist.OrderBlock, "host:closed.example")
	s.order(blocklist.OrderBlock, "path:/closed")
	s.order(blocklist.OrderBlock, "method:DELETE")
	s.order(blocklist.OrderAllow, "host:"+freeHost)
	s.order(blocklist.OrderAllow, "user:vip")
	s.order(blocklist.OrderAllow, "tenant:vip")
	for what, headers := range claimed() {
		for _, asked := range []struct {
			from, method, host, path string
			status                   int
		}{
			{blockedClient, "GET", "", "/", http.StatusTooManyRequests},
			{shopClient, "GET", shopHost, "/secret?a=b", http.StatusTooManyRequests},
			{shopClient, "GET", shopHost, "/", http.StatusOK},
			{goodClient, "GET", "closed.example", "/", http.StatusTooManyRequests},
			{goodClient, "GET", "", "/closed", http.StatusTooManyRequests},
			{goodClient, "DELETE", "", "/", http.StatusTooManyRequests},
			{goodClient, "GET", shopHost, "/secret", http.StatusOK},
			{blockedClient, "GET", freeHost, "/", http.StatusOK},
		} {
			is := func() answer { return sendTo(t, asked.from, asked.method, url+asked.path, asked.host, headers...) }
			if strings.Contains(what, "Connection") && refuses(is()) {
				continue
			}
			wants(t, what+": "+asked.from+" "+asked.method+" "+asked.host+asked.path, asked.status, is)
		}
	}
}

// hostsAreOne requests one host in each way in which a request can name it: whatever the edge serves, it asks about.
func (s *site) hostsAreOne(url string) {
	t := s.t
	t.Helper()
	for _, lines := range []string{
		"GET /secret HTTP/1.1\nHost: SHOP.Example", "GET /secret HTTP/1.1\nHost: shop.example:80", "GET /secret HTTP/1.1\nHost: shop.example.",
		"GET http://shop.example/secret HTTP/1.1\nHost: " + freeHost, "GET http://SHOP.example:80/secret HTTP/1.1\nHost: " + freeHost,
	} {
		wait.Until(t, strings.ReplaceAll(lines, "\n", " ")+" is not served", func() bool {
			status := raw(t, shopClient, strings.TrimPrefix(url, "http://"), lines)
			return strings.HasPrefix(status, "HTTP/1.1 4")
		})
	}
}

// judged adds an entry of a rule to the list, with the fields of its key.
func (s *site) judged(rule, key string, fields map[string]string) {
	s.t.Helper()
	now := time.Now().UnixMilli()
	entry := &blocklist.Entry{ID: blocklist.ID(rule, key, now, 1), Rule: rule, Key: key, Fields: fields, From: now - 1000, Until: now + 3_600_000, Decided: now, Limit: "10/min", Count: 11, Level: 1, By: "weir"}
	value, err := entry.Append(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	filling := s.set.Fill()
	if err := filling.Apply(now, blocklist.Change{Key: blocklist.RecordKey(rule, key), Value: value}); err != nil {
		s.t.Fatal(err)
	}
	filling.Swap(blocklist.State{Version: blocklist.Version{List: blocklist.ListID{Name: "test", Epoch: 1}, Offset: 1}, Whole: true, AsOf: now}, now)
}

func TestNginxAsksWhatItSetsItself(t *testing.T) {
	s := newSite(t)
	port := freePort(t)
	nginx(t, snippet(t, "nginx.conf", "listen 80;", "listen "+loopback+":"+port+";", "127.0.0.1:7421", s.address, "127.0.0.1:8080", s.app))
	s.claimsChangeNothing("http://" + loopback + ":" + port)
	s.hostsAreOne("http://" + loopback + ":" + port)
}

// ingress-nginx sends a complete URL, and every header of the client. The host is the one of the header Host, which it passes on to the
// application too, also when the request line has another.
func TestIngressNginxAsksWhatItSetsItself(t *testing.T) {
	s := newSite(t)
	port := freePort(t)
	nginx(t, snippet(t, "nginx.conf", "listen 80;", "listen "+loopback+":"+port+";", "127.0.0.1:7421", s.address, "127.0.0.1:8080", s.app,
		"/v1/check/nginx", "/v1/check/ingress-nginx", "proxy_pass_request_headers off;", `proxy_set_header X-User ""; proxy_set_header X-Tenant "";`,
		"X-Original-URI $request_uri;", "X-Original-URL $scheme://$http_host$request_uri;", "proxy_set_header Host $weir_host;", "proxy_set_header Host enforcer;"))
	s.claimsChangeNothing("http://" + loopback + ":" + port)
	for _, host := range []string{"h?x", "h?", "h#x", "h?http://h", `h\`, "h;x", "u@h"} {
		if status := raw(t, goodClient, loopback+":"+port, "GET /closed HTTP/1.1\nHost: "+host); !strings.HasPrefix(status, "HTTP/1.1 4") {
			t.Errorf("the host %s hides the path: %s", host, status)
		}
	}
}

// HAProxy does not ask: it looks up the address that connects.
func TestHAProxyLooksUpTheClient(t *testing.T) {
	s := newSite(t)
	folder := t.TempDir()
	addresses := write(t, filepath.Join(folder, "weir.map"), blockedClient+" per-ip\n")
	port := freePort(t)
	text := snippet(t, "haproxy.cfg", "bind :80", "bind "+loopback+":"+port, "127.0.0.1:8080", s.app, "/run/haproxy/admin.sock", filepath.Join(folder, "admin.sock"),
		"/etc/haproxy/weir.map", addresses, "/dev/log len 65000 local0", "stdout len 65000 format raw local0")
	run(t, program(t, "haproxy", "haproxy"), "-db", "-f", write(t, filepath.Join(folder, "haproxy.cfg"), text))
	url := "http://" + loopback + ":" + port
	awaitEdge(t, url)
	for what, headers := range claimed() {
		wants(t, what+", who is blocked", http.StatusTooManyRequests, func() answer { return ask(t, blockedClient, url, headers...) })
		wants(t, what+", who is not", http.StatusOK, func() answer { return ask(t, goodClient, url, headers...) })
	}
}

// The compose file's nginx has a file of its own.
func TestComposesNginxAsksWhatItSetsItself(t *testing.T) {
	s := newSite(t)
	port := freePort(t)
	text, err := os.ReadFile("../../deployments/compose/nginx.conf")
	if err != nil {
		t.Fatal(err)
	}
	servers := replaced(t, string(text), "listen 8080;", "listen "+loopback+":"+port+";", "enforcer:7421", s.address, "site:80", s.app,
		"/var/log/nginx/weir.log", filepath.Join(t.TempDir(), "weir.log"))
	nginx(t, "worker_processes auto;\nerror_log /var/log/nginx/error.log warn;\npid /run/nginx.pid;\nevents {}\nhttp {\n"+servers+"}\n")
	s.claimsChangeNothing("http://" + loopback + ":" + port)
	s.hostsAreOne("http://" + loopback + ":" + port)
}

func TestCaddyAsksWhatItSetsItself(t *testing.T) {
	s := newSite(t)
	url, _ := s.caddy("header_up -X-User\n", "header_up -X-User\n\t\theader_up -X-Tenant\n") // a line for each of enforcer.fields
	s.claimsChangeNothing(url)
	s.hostsAreOne(url)
}

func TestTraefikAsksWhatItSetsItself(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	url, _ := s.traefik()
	s.claimsChangeNothing(url)
	s.hostsAreOne(url)
}

func TestEnvoyAsksWhatItSetsItself(t *testing.T) {
	s := newSite(t)
	url, _ := s.envoy()
	s.claimsChangeNothing(url)
	s.hostsAreOne(url)
}

// A user in front of the host hides it from no check: some applications leave the user out.
func TestHostsWithAUser(t *testing.T) {
	s := newSite(t)
	caddy, _ := s.caddy("protocols h1 h2\n", "protocols h1 h2c\n")
	envoy, _ := s.envoyGRPC(authorizes)
	awaitEdge(t, caddy)
	awaitEdge(t, envoy)
	s.judged("shop", shopClient+" "+shopHost, nil)
	for _, host := range []string{shopHost, "u@" + shopHost, "u:p@" + shopHost + ":80"} {
		wait.Until(t, host+" is not served by Caddy", func() bool {
			return sendHTTP2(t, shopClient, strings.TrimPrefix(caddy, "http://"), "", ":method", "GET", ":scheme", "http", ":authority", host, ":path", "/secret") == "429"
		})
		wait.Until(t, host+" is not served by Envoy", func() bool {
			return strings.Contains(raw(t, shopClient, strings.TrimPrefix(envoy, "http://"), "GET /secret HTTP/1.1\nHost: "+host), " 429 ")
		})
	}
}
