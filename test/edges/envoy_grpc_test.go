package edges

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"weir/pkg/blocklist"
	"weir/test/locked"
	"weir/test/wait"
)

// envoyGRPC runs Envoy with a file by which it asks over gRPC.
func (s *site) envoyGRPC(name string, replace ...string) (string, *locked.Buffer) {
	s.t.Helper()
	_, port, _ := strings.Cut(s.grpc, ":")
	return s.envoyBy(name, append([]string{"address: 127.0.0.1, port_value: 7422", "address: " + loopback + ", port_value: " + port}, replace...)...)
}

const (
	authorizes = "envoy-grpc.yaml"
	limits     = "envoy-ratelimit.yaml"
)

// withKey replaces the comment of the file by a key.
var withKey = []string{"# initial_metadata: [{key: x-api-key, value: the-key}]", "initial_metadata: [{key: x-api-key, value: " + takeKey + "}]"}

func TestEnvoyOverGRPC(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	url, said := s.envoyGRPC(authorizes)
	s.address = s.grpc // that the edge asks
	s.asksAndGoesOn(url, said.String, `"weir":"refused manual"`)
}

func TestEnvoyOverGRPCAsksInlineLimits(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	url, _ := s.envoyGRPC(authorizes)
	awaitEdge(t, url)
	allowsFive(t, goodClient, url+"/at-once")
	if got := ask(t, "127.0.0.3", url+"/at-once"); got.header.Get("Ratelimit") != `"at-once 5/min";r=4` || got.header.Get("X-Weir-Attempt") != "" {
		t.Errorf("%+v", got.header)
	}
}

// An application settles the attempt that it has from the enforcer, whatever the client sends.
func TestEnvoyNamesTheAttempt(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for name, replace := range map[string][]string{authorizes: nil, limits: withKey} {
		url, _ := s.envoyGRPC(name, replace...)
		awaitEdge(t, url)
		from := map[string]string{authorizes: "127.0.0.11", limits: "127.0.0.12"}[name]
		for n := range 12 {
			if got := ask(t, from, url+"/at-once/sign-in?password=right", "X-Weir-Attempt", strings.Repeat("0", 32)); got.status != http.StatusOK {
				t.Errorf("%s: right password %d: %+v", name, n+1, got)
			}
		}
	}
}

func TestEnvoyRateLimits(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	url, said := s.envoyGRPC(limits, withKey...)
	awaitEdge(t, url)
	allowsFive(t, goodClient, url+"/at-once")
	refused := ask(t, goodClient, url+"/at-once")
	if refused.status != http.StatusTooManyRequests || refused.header.Get("X-Weir") != "refused at-once" || !strings.Contains(refused.body, "quota-exceeded") ||
		refused.header.Get("Content-Type") != "application/problem+json" || !strings.Contains(refused.header.Get("Ratelimit-Policy"), `"at-once 5/min";q=5;w=60`) {
		t.Errorf("%+v", refused)
	}
	if got := ask(t, goodClient, url+"/at-once", "X-Forwarded-For", "127.0.0.4"); got.status != http.StatusTooManyRequests {
		t.Errorf("as another client: %+v", got)
	}
	if got := ask(t, goodClient, url+"/other"); got.status != http.StatusOK {
		t.Errorf("another path: %+v", got)
	}
	wait.Until(t, "the refusal is in the log", func() bool { return strings.Contains(said.String(), `"weir":"refused at-once"`) })

	s.order(blocklist.OrderBlock, blockedClient)
	wants(t, "who is blocked", http.StatusTooManyRequests, func() answer { return ask(t, blockedClient, url) })
	s.order(blocklist.OrderAllow, goodClient)
	wants(t, "who is allowed", http.StatusOK, func() answer { return ask(t, goodClient, url+"/at-once") })
	s.stop()
	s.goesOn(url)
	s.hangs(url, s.grpc)
}

// The eleventh of ten a minute, by a descriptor that names the rule.
func TestEnvoyRateLimitsByOneRule(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	url, _ := s.envoyGRPC(limits, append(slices.Clone(withKey), `- request_headers: {header_name: ":path", descriptor_key: path, skip_if_absent: true}`, `- generic_key: {descriptor_key: rule, descriptor_value: ten}`)...)
	awaitEdge(t, url)
	for n := range 11 {
		want := http.StatusOK
		if n == 10 {
			want = http.StatusTooManyRequests
		}
		if got := ask(t, "127.0.0.5", fmt.Sprint(url, "/", n)); got.status != want {
			t.Errorf("request %d: %+v", n+1, got)
		}
	}
}

// A client leaves out the header that the key of the named rule needs. The other descriptors refuse it all the same.
func TestEnvoyRateLimitsWithoutAHeader(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const actions = "                        - actions:\n"
	url, _ := s.envoyGRPC(limits, append(slices.Clone(withKey), actions, `                        - actions:
                            - remote_address: {}
                            - request_headers: {header_name: x-claim, descriptor_key: claim, skip_if_absent: true}
                            - generic_key: {descriptor_key: rule, descriptor_value: claimed}
`+actions)...)
	awaitEdge(t, url)
	s.order(blocklist.OrderBlock, blockedClient)
	wants(t, "who is blocked", http.StatusTooManyRequests, func() answer { return ask(t, blockedClient, url, "X-Claim", "alice") })
	if got := ask(t, blockedClient, url); got.status != http.StatusTooManyRequests {
		t.Errorf("who is blocked: %+v", got)
	}
	allowsFive(t, goodClient, url+"/at-once", "X-Claim", "alice")
	for _, header := range []string{"X-Claim", "X-Other"} {
		if got := ask(t, goodClient, url+"/at-once", header, "alice"); got.status != http.StatusTooManyRequests {
			t.Errorf("with %s: %+v", header, got)
		}
	}
}

// Without an enforcer no request passes where Envoy's configuration says so.
func TestEnvoyOverGRPCClosed(t *testing.T) {
	s := newSite(t)
	for name, test := range map[string]struct {
		replace []string
		status  int
	}{
		authorizes: {[]string{"failure_mode_allow: true", "failure_mode_allow: false"}, http.StatusForbidden},
		limits:     {append(slices.Clone(withKey), "failure_mode_deny: false", "failure_mode_deny: true"), http.StatusInternalServerError},
	} {
		url, _ := s.envoyGRPC(name, test.replace...)
		awaitEdge(t, url)
		s.stop()
		wants(t, name+": without an enforcer", test.status, func() answer { return ask(t, goodClient, url) })
		s.start()
	}
}

// With tracing, Envoy passes a client's tracestate on with its check. A long one does not let a blocked client pass.
func TestEnvoyWithTracing(t *testing.T) {
	s := newSite(t)
	s.order(blocklist.OrderBlock, blockedClient)
	tracing := []string{
		"                stat_prefix: web\n", `                stat_prefix: web
                tracing:
                  provider:
                    name: envoy.tracers.opentelemetry
                    typed_config:
                      "@type": type.googleapis.com/envoy.config.trace.v3.OpenTelemetryConfig
                      http_service: {http_uri: {uri: "http://127.0.0.1/v1/traces", cluster: app, timeout: 1s}}
`}
	overHTTP, _ := s.envoy(tracing...)
	overGRPC, _ := s.envoyGRPC(authorizes, tracing...)
	byLimits, _ := s.envoyGRPC(limits, slices.Concat(withKey, tracing)...)
	for name, url := range map[string]string{"envoy.yaml": overHTTP, authorizes: overGRPC, limits: byLimits} {
		awaitEdge(t, url)
		for _, entries := range []int{1, 100, 140, 220} {
			var state []string
			for n := range entries {
				state = append(state, fmt.Sprintf("k%d=%s", n, strings.Repeat("x", 250)))
			}
			wants(t, fmt.Sprintf("%s: a tracestate of %d entries", name, entries), http.StatusTooManyRequests, func() answer {
				return ask(t, blockedClient, url, "Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "Tracestate", strings.Join(state, ","))
			})
		}
	}
}

// A blocked client cannot pass by a request that the enforcer could not read.
func TestEnvoyOverGRPCAsksAboutOddRequests(t *testing.T) {
	s := newSite(t)
	s.order(blocklist.OrderBlock, blockedClient)
	withAgent := append(slices.Clone(withKey), `{header_name: ":method", descriptor_key: method,`, "{header_name: user-agent, descriptor_key: agent,")
	for name, replace := range map[string][]string{authorizes: nil, limits: withAgent} {
		url, _ := s.envoyGRPC(name, replace...)
		awaitEdge(t, url)
		var odd []string
		for _, bytes := range []int{20 << 10, 50 << 10, 58 << 10, 200 << 10} {
			long := strings.Repeat("a", bytes)
			odd = append(odd, "GET /x HTTP/1.1\nUser-Agent: "+long, "GET /x?"+long+" HTTP/1.1", "GET /"+long+" HTTP/1.1", "GET /x HTTP/1.1\nX-Forwarded-For: "+long,
				"GET /"+long[:bytes/2]+" HTTP/1.1\nUser-Agent: "+long[:bytes/2])
		}
		for _, c := range []string{"\xff", "\xc3\x28", "\x80", "%00", "%ff", "\\", "\"", "é"} {
			odd = append(odd, "GET /"+c+" HTTP/1.1", "GET /x HTTP/1.1\nUser-Agent: "+c, "GET /x HTTP/1.1\nX-Forwarded-For: "+c, "GE"+c+" / HTTP/1.1", "GET / HTTP/1.1\nHost: "+c)
		}
		for _, text := range odd {
			var got string
			refused := false
			for try := 0; try < 5 && !refused; try++ { // a busy machine may take longer than Envoy waits
				got = raw(t, blockedClient, strings.TrimPrefix(url, "http://"), text)
				refused = strings.Contains(got, " 429 ") || strings.Contains(got, " 431 ") || strings.Contains(got, " 400 ")
			}
			if !refused {
				t.Errorf("%s: %.40q of %d bytes: %q", name, text, len(text), got)
			}
		}
	}
}
