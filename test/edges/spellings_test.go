package edges

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

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
	log := nginx(t, snippet(t, "nginx.conf", "listen 80;", "listen "+address+";", "127.0.0.1:7421", s.address, "127.0.0.1:8080", s.app, "location / {", "location ~ ^/(signin)?$ {"))
	text := func() string {
		text, _ := os.ReadFile(log)
		return string(text)
	}
	s.countsSpellings(address, text, "weir", "GET /signin HTTP/1.1", "GET /signin%0a HTTP/1.1", "GET  /signin HTTP/1.1", "GET    /signin  HTTP/1.1", "GET /signin  HTTP/1.1",
		"GET a://h/signin HTTP/1.1", "GET http://h/signin HTTP/1.1", "GET http://h/%2e//signin HTTP/1.1")
}

// For rules a # ends the path. nginx passes it on, and an application that cleans paths, as chi's CleanPath does, would
// resolve the dots behind it. So the shipped file refuses it.
func TestHashesHideNoPathNginx(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	served := make(chan string, 100)
	app := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { served <- path.Clean(r.URL.Path) }))
	t.Cleanup(app.Close)
	address := loopback + ":" + freePort(t)
	nginx(t, snippet(t, "nginx.conf", "listen 80;", "listen "+address+";", "127.0.0.1:7421", s.address, "127.0.0.1:8080", app.Listener.Addr().String()))
	awaitEdge(t, "http://"+address)
	<-served
	for _, sent := range []string{"/signin", "/signin?a#b", "/#/../signin", "/x#/../signin", "/signin#x"} {
		if got := raw(t, goodClient, address, "GET "+sent+" HTTP/1.1"); !strings.Contains(got, " 200 ") {
			continue
		}
		got := <-served
		bare, _, _ := strings.Cut(sent, "?")
		if counts, _ := (request.PathForm{}).Normal(bare, false, nil); counts != got {
			t.Errorf("%s reached the application as %s, and counts as %s", sent, got, counts)
		}
	}
}

// A URL in the request line has a host of its own. With the line of docs/edges.md, the application gets the one that nginx
// asks about.
func TestOneHostNginx(t *testing.T) {
	t.Parallel()
	docs, err := os.ReadFile("../../docs/edges.md")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile("`(proxy_set_header Host [^`]+)`, and for PHP").FindStringSubmatch(string(docs))
	if line == nil {
		t.Fatal("docs/edges.md has no line for nginx")
	}
	s := newSite(t)
	served := make(chan string, 100)
	app := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { served <- r.Host }))
	t.Cleanup(app.Close)
	address := loopback + ":" + freePort(t)
	nginx(t, snippet(t, "nginx.conf", "listen 80;", "listen "+address+";", "127.0.0.1:7421", s.address,
		"proxy_pass http://127.0.0.1:8080;", line[1]+" proxy_pass "+app.URL+";"))
	awaitEdge(t, "http://"+address)
	<-served
	s.order(blocklist.OrderBlock, "host:shop.example")
	wait.Until(t, "the host of the URL is refused", func() bool {
		return strings.Contains(raw(t, goodClient, address, "GET http://shop.example/ HTTP/1.1"), " 429 ")
	})
	for len(served) > 0 {
		<-served
	}
	if got := raw(t, goodClient, address, "GET http://other.example/ HTTP/1.1\nHost: shop.example"); !strings.Contains(got, " 200 ") {
		t.Fatal(got)
	}
	if got := <-served; got != "other.example" {
		t.Errorf("nginx asked about other.example, and the application got %s", got)
	}
}

func TestSpellingsCaddy(t *testing.T) {
	s := newSite(t)
	url, said := s.caddy()
	s.countsSpellings(strings.TrimPrefix(url, "http://"), said.String, "caddy", "GET /signin HTTP/1.1", "GET http:/signin HTTP/1.1", "GET a+b:/signin HTTP/1.1",
		"GET http:///signin HTTP/1.1", "GET a://h/signin HTTP/1.1", "GET /#/../signin HTTP/1.1", "GET http://h/#/../signin HTTP/1.1")
}

// Caddy compares paths in lower case, and two letters beyond ASCII have one of ASCII as theirs.
func TestSpellingsOfCaseCaddy(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	url, _ := s.caddy("\treverse_proxy ", "\trespond /key/signin here\n\treverse_proxy ")
	awaitEdge(t, url)
	for _, path := range []string{"/key/signin", "/KEY/SignIn", "/key/s%C4%B0gn%c4%b0n", "/%E2%84%AAey/signin"} {
		if got := ask(t, goodClient, url+path); got.body != "here" {
			t.Errorf("%s is answered %+v", path, got)
		}
		if got, _ := (request.PathForm{Lower: true}).Normal(path, false, nil); got != "/key/signin" {
			t.Errorf("%s counts as %s", path, got)
		}
	}
}

func TestSpellingsTraefik(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	url, said := s.traefik()
	s.countsSpellings(strings.TrimPrefix(url, "http://"), said.String, "traefik-json", "GET /signin HTTP/1.1", "GET http:/signin HTTP/1.1", "GET a+b:/signin HTTP/1.1",
		"GET http:///signin HTTP/1.1", "GET a://h/signin HTTP/1.1")
}

// With a path in proxy_pass, nginx decodes what an application like Tomcat takes for parameters. Behind the line of
// docs/rules.md the application has the path that rules see.
func TestParametersBehindNginx(t *testing.T) {
	t.Parallel()
	docs, err := os.ReadFile("../../docs/rules.md")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile("```nginx\n(if .*)\n```").FindStringSubmatch(string(docs))
	if line == nil {
		t.Fatal("docs/rules.md has no line for nginx")
	}
	s := newSite(t)
	served := make(chan string, 100)
	app := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { served <- r.RequestURI }))
	t.Cleanup(app.Close)
	address := loopback + ":" + freePort(t)
	nginx(t, snippet(t, "nginx.conf", "listen 80;", "listen "+address+";", "127.0.0.1:7421", s.address,
		"proxy_pass http://127.0.0.1:8080;", line[1]+" proxy_pass http://"+app.Listener.Addr().String()+"/;"))
	awaitEdge(t, "http://"+address)
	<-served
	tomcat, passed := request.PathForm{DropParams: true}, 0
	for _, path := range []string{"/signin", "/signin;a", "/x;a/../signin", "/x/..;/signin", "/%73ignin;%20", "/signin%3Ba", "/signin%3ba=b", "/x;a=%2F..%2Fsignin", "/x/..%3B/signin", "/x;a%2f..%2fsignin;b"} {
		if got := raw(t, goodClient, address, "GET "+path+" HTTP/1.1"); !strings.Contains(got, " 200 ") {
			continue
		}
		passed++
		got := <-served
		if got, _ := tomcat.Normal(got, false, nil); got != "/signin" {
			t.Fatalf("%s reached the application as %s", path, got)
		}
		if counts, _ := tomcat.Normal(path, false, nil); counts != "/signin" {
			t.Errorf("%s reached the application as %s, and counts as %s", path, got, counts)
		}
	}
	if passed < 5 {
		t.Errorf("%d passed", passed)
	}
}

// Over HTTP/2, Caddy accepts hosts that are none, and passes on what Go's client makes of them. A check has the host
// that the application gets.
func TestSpellingsOfHostsCaddy(t *testing.T) {
	s := newSite(t)
	served := make(chan string, 100)
	app := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { served <- r.Host }))
	t.Cleanup(app.Close)
	url, _ := s.caddy("protocols h1 h2\n", "protocols h1 h2c\n", s.app, app.Listener.Addr().String())
	address := strings.TrimPrefix(url, "http://")
	wait.Until(t, "it listens", func() bool {
		c, err := net.Dial("tcp", address)
		return err == nil && c.Close() == nil
	})

	spellings := []string{"shop.example", "Shop.Example:80", "shop.example/x", "shop.example x", "\uff53hop.example", "shop\u3002example", "shop.example\uff0fx",
		"s" + strings.Repeat("\u00ad", 600) + "hop.example", "\uff53hop.example:" + strings.Repeat("0", 1000) + "80", "shop.example:80:80"}
	passed := spellings[:0]
	for _, host := range spellings {
		if status := askHTTP2(t, goodClient, address, host); status == "200" {
			// Servers of sites, such as nginx, ignore all after the first colon.
			if name, _, _ := strings.Cut(strings.ToLower(<-served), ":"); name == "shop.example" {
				passed = append(passed, host)
			}
		}
	}
	if len(passed) < 5 {
		t.Fatalf("as shop.example, the application got only %q", passed)
	}
	t.Logf("as shop.example, the application got %.40q", passed)

	s.order(blocklist.OrderBlock, "host:shop.example")
	for _, host := range passed {
		if status := askHTTP2(t, goodClient, address, host); status != "429" {
			t.Errorf("%q: %s", host, status)
		}
	}
}

// askHTTP2 sends a request for a host without TLS, and returns the status.
func askHTTP2(t *testing.T, from, address, host string) (status string) {
	t.Helper()
	return sendHTTP2(t, from, address, "", ":method", "GET", ":scheme", "http", ":authority", host, ":path", "/")
}

// sendHTTP2 sends a request with names and values of headers without TLS, and returns the status.
func sendHTTP2(t *testing.T, from, address, body string, headers ...string) (status string) {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 10 * time.Second}
	c, err := dialer.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))

	var head bytes.Buffer
	fields := hpack.NewEncoder(&head)
	for pair := range slices.Chunk(headers, 2) {
		_ = fields.WriteField(hpack.HeaderField{Name: pair[0], Value: pair[1]})
	}
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	framer := http2.NewFramer(c, c)
	if err := errors.Join(framer.WriteSettings(), framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head.Bytes(), EndHeaders: true}),
		framer.WriteData(1, true, []byte(body))); err != nil {
		t.Fatal(err)
	}

	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	for {
		switch frame, err := framer.ReadFrame(); frame := frame.(type) {
		case nil:
			t.Fatal(err)
		case *http2.MetaHeadersFrame:
			return frame.PseudoValue("status")
		case *http2.RSTStreamFrame:
			return frame.ErrCode.String()
		}
	}
}
