package edges

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/pkg/blocklist"
	"weir/pkg/request"
	"weir/test/locked"
	"weir/test/wait"
)

// The ways in which a load balancer names the client: in a header of its own, or behind that of the client.
const (
	addsHeader = "option forwardfor"
	appends    = `http-request set-header X-Forwarded-For "%[req.fhdr(X-Forwarded-For,-1)], %[src]"`
)

// oddForwarded are headers of a client that end within a quote, a bracket or an entry.
var oddForwarded = []string{`"`, `"x`, `\"`, `"\`, "9.9.9.9, \"", "'", "[", "[::1", "(", ";", ",", ",,", "unknown", "9.9.9.9:", "9.9.9.9 ", "%", "\xff", "for=\"", strings.Repeat("9.9.9.9, ", 40)}

// balancer runs a HAProxy that names the client, and returns its URL. Like other load balancers, it passes on what a
// client names in Connection.
func balancer(t *testing.T, edge, names string) string {
	t.Helper()
	address := loopback + ":" + freePort(t)
	run(t, program(t, "haproxy", "haproxy"), "-f", write(t, filepath.Join(t.TempDir(), "haproxy.cfg"), `
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
frontend web
    bind `+address+`
    `+names+`
    default_backend edge
backend edge
    server edge `+strings.TrimPrefix(edge, "http://")+` source `+balancerAddress+`
`))
	return "http://" + address
}

// balancedEdges are the edges with the lines for a load balancer in deployments/edge.
var balancedEdges = []struct {
	name, format string
	start        func(*site) (url string, log func() string)
}{
	{"nginx", "weir", func(s *site) (string, func() string) {
		port := freePort(s.t)
		file := nginx(s.t, snippet(s.t, "nginx.conf", "listen 80;", "listen "+loopback+":"+port+";", "127.0.0.1:7421", s.address, "127.0.0.1:8080", s.app,
			"# set_real_ip_from 192.0.2.10;", "set_real_ip_from "+balancerAddress+";", "# real_ip_header", "real_ip_header", "# real_ip_recursive", "real_ip_recursive"))
		return "http://" + loopback + ":" + port, func() string {
			text, _ := os.ReadFile(file)
			return string(text)
		}
	}},
	{"caddy", "caddy", func(s *site) (string, func() string) {
		url, said := s.caddy("# header_up X-Forwarded-For", "header_up X-Forwarded-For")
		return url, said.String
	}},
	{"traefik", "traefik-json", func(s *site) (string, func() string) {
		url, said := s.traefikWith([]string{"# forwardedHeaders: {trustedIPs: [192.0.2.10/32]}", "forwardedHeaders: {trustedIPs: [" + balancerAddress + "/32]}"},
			"      middlewares: [weir]\n", "", "# middlewares: [balanced, weir]", "middlewares: [balanced, weir]", "# trustForwardHeader", "trustForwardHeader")
		return url, said.String
	}},
	{"envoy", "envoy-json", func(s *site) (string, func() string) {
		url, said := s.envoy("# xff_num_trusted_hops", "xff_num_trusted_hops")
		return url, said.String
	}},
}

// Behind a load balancer, with the lines for it in deployments/edge, the log and the check of a request have the client
// that the load balancer names, whatever the client sends.
func TestBehindALoadBalancer(t *testing.T) {
	for _, edge := range balancedEdges {
		t.Run(edge.name, func(t *testing.T) {
			s := newSite(t)
			url, log := edge.start(s)
			appending := balancer(t, url, appends)
			url = balancer(t, url, addsHeader)
			awaitEdge(t, url)
			s.order(blocklist.OrderBlock, blockedClient)
			for what, headers := range claimed() {
				for from, status := range map[string]int{blockedClient: http.StatusTooManyRequests, goodClient: http.StatusOK} {
					if what == "none" || from == blockedClient {
						s.isTakenFor(url, what, from, status, headers...)
					}
				}
			}
			for _, header := range []string{"X-Forwarded-For", "X-Real-Ip", "Forwarded", "X-Client-Ip"} {
				s.isTakenFor(url, header+" of another", goodClient, http.StatusOK, header, blockedClient, "Connection", header)
			}
			for _, value := range oddForwarded {
				s.isTakenFor(appending, "behind "+value, blockedClient, http.StatusTooManyRequests, "X-Forwarded-For", value)
			}
			logged(t, edge.format, log)
		})
	}
}

// Clients can get the load balancer itself blocked: what nginx and Envoy refuse at once, they log as the load balancer's. With
// the line of docs/edges.md its health checks are answered all the same, and clients behind it are still refused.
func TestHealthChecksOfALoadBalancer(t *testing.T) {
	const line = "- {ip: 192.0.2.10, note: load balancer}"
	page, err := os.ReadFile("../../docs/edges.md")
	if err != nil {
		t.Fatal(err)
	}
	allow := ""
	if strings.Contains(string(page), "`"+line+"`") {
		allow = "allow:\n  " + strings.Replace(line, "192.0.2.10", balancerAddress, 1)
	}
	for _, edge := range balancedEdges {
		t.Run(edge.name, func(t *testing.T) {
			s := newSite(t)
			url, _ := edge.start(s)
			balanced := balancer(t, url, addsHeader)
			awaitEdge(t, url)
			s.stop()
			s.rules += allow
			s.start()
			s.order(blocklist.OrderBlock, blockedClient)
			s.judged("per-ip", balancerAddress, map[string]string{"ip": balancerAddress})
			wait.Until(t, "the client is refused", func() bool { return ask(t, blockedClient, balanced).status == http.StatusTooManyRequests })
			if got := ask(t, balancerAddress, url+"/health"); got.status != http.StatusOK {
				t.Errorf("a health check: %+v", got)
			}
		})
	}
}

// Apache's mod_remoteip logs the client that the load balancer names, with the lines in docs/collecting.md.
func TestApacheBehindALoadBalancer(t *testing.T) {
	s := newSite(t)
	lines := []string{"RemoteIPHeader X-Forwarded-For", "RemoteIPInternalProxy 192.0.2.10"}
	page, err := os.ReadFile("../../docs/collecting.md")
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range lines {
		if !strings.Contains(string(page), "`"+line+"`") {
			t.Errorf("docs/collecting.md has no line %s", line)
		}
		lines[i] = strings.Replace(line, "192.0.2.10", balancerAddress, 1)
	}

	address, log := s.apache(`%a %l %u %t "%r" %>s %b`, lines...)
	appending := balancer(t, "http://"+address, appends)
	url := balancer(t, "http://"+address, addsHeader)
	wait.Until(t, "Apache answers", func() bool { return ask(t, goodClient, url+"/ready").status == http.StatusOK })
	for _, value := range oddForwarded {
		ask(t, goodClient, appending+"/from/"+goodClient, "X-Forwarded-For", value)
	}
	for _, headers := range claimed() {
		for _, from := range []string{goodClient, blockedClient} {
			ask(t, from, url+"/from/"+from, headers...)
		}
	}
	logged(t, "common", log)
}

// Nor does Apache read a port there, as docs/edges.md warns.
func TestApacheBehindABalancerThatWritesPorts(t *testing.T) {
	s := newSite(t)
	address, log := s.apache(`%a %l %u %t "%r" %>s %b`, "RemoteIPHeader X-Forwarded-For", "RemoteIPInternalProxy "+balancerAddress)
	wait.Until(t, "Apache answers", func() bool { return ask(t, goodClient, "http://"+address+"/ready").status == http.StatusOK })
	for path, test := range map[string]struct{ header, logged string }{
		"/plain4": {"203.0.113.7", "203.0.113.7"}, "/port4": {"203.0.113.7:4711", balancerAddress},
		"/plain6": {"2001:db8::7", "2001:db8::7"}, "/port6": {"[2001:db8::7]:4711", balancerAddress},
	} {
		ask(t, balancerAddress, "http://"+address+path, "X-Forwarded-For", test.header)
		wait.Until(t, path+" is in the log as of "+test.logged, func() bool {
			return slices.ContainsFunc(strings.Split(log(), "\n"), func(line string) bool {
				return strings.HasPrefix(line, test.logged+" ") && strings.Contains(line, "GET "+path+" ")
			})
		})
	}
}

// isTakenFor sends requests with headers to paths that name their client, until one has the status.
func (s *site) isTakenFor(url, what, from string, status int, headers ...string) {
	s.t.Helper()
	is := func() answer { return ask(s.t, from, url+"/from/"+from, headers...) }
	// Envoy refuses requests that name its own headers in Connection.
	if got := is(); got.status == http.StatusBadRequest && got.header.Get("Server") == "envoy" {
		return
	}
	wants(s.t, what+": "+from, status, is)
}

// The same for requests at random.
func TestRandomRequestsBehindALoadBalancer(t *testing.T) {
	for _, edge := range balancedEdges {
		t.Run(edge.name, func(t *testing.T) {
			t.Parallel()
			s, r := newRandomRequests(t)
			url, log := edge.start(s)
			url = balancer(t, url, appends)
			awaitEdge(t, url)
			s.order(blocklist.OrderBlock, blockedClient)
			wants(t, "who is blocked", http.StatusTooManyRequests, func() answer { return ask(t, blockedClient, url) })
			r.http1, r.client = strings.TrimPrefix(url, "http://"), request.NewClient(trusted)
			r.http2 = r.http1
			r.neverReach("a blocked client", blockedClient, isAny)
			r.areLogged(log, must(request.NewDecoder("none", edge.format, request.Options{})))
		})
	}
}

// logged checks that each line of a log has the client that its path names.
func logged(t *testing.T, format string, log func() string) {
	t.Helper()
	parser, err := request.NewParser(format, request.Options{})
	if err != nil {
		t.Fatal(err)
	}
	client := request.NewClient(trusted)
	seen := map[string]int{}
	wait.Until(t, "both clients are in the log", func() bool {
		clear(seen)
		for line := range strings.Lines(log()) {
			var r request.Request
			if parser.Parse(strings.TrimSuffix(line, "\n"), &r) != nil || !strings.HasPrefix(r.Path, "/from/") {
				continue
			}
			client.Resolve(&r)
			if name := strings.TrimPrefix(r.Path, "/from/"); r.IP.String() != name {
				t.Errorf("%s is counted as %s: %s", name, r.IP, line)
			}
			seen[r.IP.String()]++
		}
		return seen[goodClient] > 4 && seen[blockedClient] > len(claims)/2
	})
}

// An Envoy behind a load balancer believes everyone who names a client. With the line of the files, no one else connects.
func TestEnvoyBehindALoadBalancerTakesNoOneElse(t *testing.T) {
	t.Parallel()
	lines := []string{"# xff_num_trusted_hops", "xff_num_trusted_hops", "# filter_chain_match", "filter_chain_match", "192.0.2.10", balancerAddress}
	for name, start := range map[string]func(*site) (string, *locked.Buffer){
		"envoy.yaml": func(s *site) (string, *locked.Buffer) { return s.envoy(lines...) },
		authorizes:   func(s *site) (string, *locked.Buffer) { return s.envoyGRPC(authorizes, lines...) },
		limits:       func(s *site) (string, *locked.Buffer) { return s.envoyGRPC(limits, slices.Concat(withKey, lines)...) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			url, log := start(s)
			balanced := balancer(t, url, addsHeader)
			awaitEdge(t, balanced)
			s.order(blocklist.OrderBlock, blockedClient)
			wants(t, "who is blocked", http.StatusTooManyRequests, func() answer { return ask(t, blockedClient, balanced) })
			for _, from := range []string{goodClient, blockedClient} {
				if got := ask(t, from, url, "X-Forwarded-For", "9.9.9.9"); got.status != 0 {
					t.Errorf("%s is answered directly: %+v", from, got)
				}
			}
			if strings.Contains(log.String(), "9.9.9.9") {
				t.Errorf("the log has another client:\n%s", log)
			}
		})
	}
}

// An edge takes the client of the PROXY protocol from its load balancer alone, with the lines in docs/edges.md.
func TestProxyProtocol(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/edges.md")
	if err != nil {
		t.Fatal(err)
	}
	line := func(text string) string {
		if !strings.Contains(string(page), text) {
			t.Errorf("docs/edges.md has no line %s", text)
		}
		return strings.ReplaceAll(text, "192.0.2.10", balancerAddress)
	}
	filter := "envoy.filters.listener.proxy_protocol"
	for name, start := range map[string]func(*site) (string, func() string){
		"nginx": func(s *site) (string, func() string) {
			port := freePort(s.t)
			log := nginx(s.t, snippet(s.t, "nginx.conf", line("listen 80"), "listen "+loopback+":"+port+" proxy_protocol", "127.0.0.1:7421", s.address, "127.0.0.1:8080", s.app,
				"# set_real_ip_from 192.0.2.10;", line("set_real_ip_from 192.0.2.10;"), "# real_ip_header X-Forwarded-For;", line("real_ip_header proxy_protocol;")))
			return loopback + ":" + port, contentOf(s.t, log)
		},
		"Traefik": func(s *site) (string, func() string) {
			return running(s.traefikWith([]string{"# forwardedHeaders: {trustedIPs: [192.0.2.10/32]}", line("proxyProtocol: {trustedIPs: [192.0.2.10/32]}")}))
		},
		"HAProxy": func(s *site) (string, func() string) {
			url, said, _ := s.haproxy(write(s.t, filepath.Join(s.t.TempDir(), "weir.map"), blockedClient+" manual\n"), write(s.t, filepath.Join(s.t.TempDir(), "weir-users.map"), ""),
				"    log global\n    log-format", "    "+line("tcp-request connection expect-proxy layer4 if { src 192.0.2.10 }")+"\n    log global\n    log-format")
			return running(url, said)
		},
		"Envoy": func(s *site) (string, func() string) {
			return running(s.envoy("      filter_chains:", "      listener_filters: [{name: "+line(filter)+", typed_config: {\"@type\": type.googleapis.com/envoy.extensions.filters.listener.proxy_protocol.v3.ProxyProtocol}}]\n      filter_chains:",
				"# filter_chain_match", "filter_chain_match", "192.0.2.10", balancerAddress))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			address, _ := start(s)
			wait.Until(t, "it listens", func() bool {
				c, err := net.Dial("tcp", address)
				return err == nil && c.Close() == nil
			})
			s.order(blocklist.OrderBlock, blockedClient)
			get := func(from, named string) string {
				c := begin(t, from, address, "PROXY TCP4 "+named+" 127.0.0.1 1 2\r\nGET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
				defer c.Close()
				text, _ := io.ReadAll(c)
				status, _, _ := strings.Cut(string(text), "\r\n")
				return status
			}
			wait.Until(t, "who is not blocked", func() bool { return strings.Contains(get(balancerAddress, goodClient), " 200 ") })
			wait.Until(t, "who is blocked", func() bool { return strings.Contains(get(balancerAddress, blockedClient), " 429 ") })
			if got := get(blockedClient, goodClient); strings.Contains(got, " 200 ") {
				t.Errorf("who is blocked passes as another: %s", got)
			}
			if got := get(goodClient, blockedClient); strings.Contains(got, " 429 ") {
				t.Errorf("who is not blocked is taken for who is: %s", got)
			}
		})
	}
}
