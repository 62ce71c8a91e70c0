package envoy

import (
	"strings"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"weir/pkg/blocklist"
	"weir/pkg/enforcer"
	"weir/test/metric"
)

// checkOf is a check about a request that an address sent, with headers.
func checkOf(sender, path string, headers ...string) *auth.CheckRequest {
	sent := &auth.AttributeContext_HttpRequest{Method: "GET", Host: "shop.example", Path: path, Headers: map[string]string{}}
	for i := 0; i < len(headers); i += 2 {
		sent.Headers[headers[i]] = headers[i+1]
	}
	a := &auth.AttributeContext{Request: &auth.AttributeContext_Request{Http: sent}}
	if sender != "" {
		a.Source = &auth.AttributeContext_Peer{Address: &core.Address{Address: &core.Address_SocketAddress{SocketAddress: &core.SocketAddress{Address: sender}}}}
	}
	return &auth.CheckRequest{Attributes: a}
}

func (s *site) check(asked *auth.CheckRequest) *auth.CheckResponse {
	s.t.Helper()
	said, err := auth.NewAuthorizationClient(s.conn).Check(s.t.Context(), asked)
	if err != nil {
		s.t.Fatal(err)
	}
	return said
}

// headersOf returns the header that a response sets, as lines.
func headersOf(all []*core.HeaderValueOption) string {
	text := ""
	for _, h := range all {
		text += h.GetHeader().GetKey() + ": " + h.GetHeader().GetValue() + "\n"
	}
	return text
}

func TestChecks(t *testing.T) {
	s := start(t, nil)
	s.order(blocklist.OrderBlock, "203.0.113.66")
	s.order(blocklist.OrderBlock, "user:mallory")
	s.order(blocklist.OrderBlock, "path:/sealed")
	for _, test := range []struct {
		what    string
		asked   *auth.CheckRequest
		refused bool
	}{
		{"nobody special", checkOf("203.0.113.7", "/"), false},
		{"a blocked client", checkOf("203.0.113.66", "/"), true},
		{"in the form of IPv6", checkOf("::ffff:203.0.113.66", "/"), true},
		{"as another one", checkOf("203.0.113.66", "/", "x-forwarded-for", "203.0.113.8"), true},
		{"as another one of a proxy", checkOf("203.0.113.66", "/", "x-forwarded-for", "203.0.113.8, 10.0.0.1"), true},
		{"who claims to be blocked", checkOf("203.0.113.9", "/", "x-forwarded-for", "203.0.113.66", "x-real-ip", "203.0.113.66", "forwarded", "for=203.0.113.66"), false},
		{"behind a balancer", checkOf("10.0.0.1", "/", "x-forwarded-for", "203.0.113.8, 203.0.113.66"), true},
		{"behind a balancer, as blocked", checkOf("10.0.0.1", "/", "x-forwarded-for", "203.0.113.66, 203.0.113.10"), false},
		{"over a unix socket", checkOf("", "/", "x-forwarded-for", "203.0.113.66"), true},
		{"a blocked user", checkOf("203.0.113.11", "/", "x-user", "mallory"), true},
		{"a blocked path", checkOf("203.0.113.12", "//x/../%73ealed?a=b"), true},
		{"a path of checks", checkOf("203.0.113.13", "/v1/check/envoy/sealed"), false},
	} {
		said := s.check(test.asked)
		if got := said.GetStatus().GetCode() != int32(codes.OK); got != test.refused {
			t.Errorf("%s: %v", test.what, said)
		}
		if test.refused && (said.GetDeniedResponse().GetStatus().GetCode() != 429 || !strings.Contains(said.GetDeniedResponse().GetBody(), "abnormal-usage") ||
			!strings.Contains(headersOf(said.GetDeniedResponse().GetHeaders()), "retry-after: 6")) {
			t.Errorf("%s: %v", test.what, said)
		}
	}

	raw := checkOf("203.0.113.14", "/!")
	raw.Attributes.Request.Http.HeaderMap = &core.HeaderMap{Headers: []*core.HeaderValue{{Key: ":path", RawValue: []byte("/sealed")}, {Key: "x-user", RawValue: []byte("bob")}}}
	if said := s.check(raw); said.GetDeniedResponse() == nil {
		t.Errorf("raw headers: %v", said)
	}
	if _, err := auth.NewAuthorizationClient(s.conn).Check(t.Context(), &auth.CheckRequest{}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("no request: %v", err)
	}
	if n, _ := metric.Value(t, s.metrics, "weir_enforcer_checks_total", "answer", "refused", "rule", "manual"); n != 9 {
		t.Errorf("refused: %v", n)
	}
}

// Limits are those that a check over HTTP asks, and a client sends no header of ours to the application.
func TestChecksAskInlineLimits(t *testing.T) {
	s := start(t, nil)
	for n := range 4 {
		said := s.check(checkOf("203.0.113.7", "/"))
		ok, denied := said.GetOkResponse(), said.GetDeniedResponse()
		switch {
		case n < 3 && (ok == nil || !strings.Contains(headersOf(ok.GetResponseHeadersToAdd()), `ratelimit: "by-ip 3/min";r=`) || !strings.HasPrefix(headersOf(ok.GetHeaders()), "x-weir-attempt: ") ||
			strings.Join(ok.GetHeadersToRemove(), " ") != "x-weir"):
			t.Errorf("request %d: %v", n+1, said)
		case n == 3 && (denied == nil || !strings.Contains(headersOf(denied.GetHeaders()), "x-weir: refused by-ip")):
			t.Errorf("request %d: %v", n+1, said)
		}
	}
	for range 4 { // one request, asked about again
		if said := s.check(checkOf("203.0.113.8", "/", "x-weir-request", "one")); said.GetOkResponse() == nil {
			t.Errorf("%v", said)
		}
	}
	s.order(blocklist.OrderAllow, "192.0.2.1")
	if said := s.check(checkOf("192.0.2.1", "/")); headersOf(said.GetOkResponse().GetHeaders()) != "x-weir: allowed\n" || strings.Join(said.GetOkResponse().GetHeadersToRemove(), " ") != "x-weir-attempt" {
		t.Errorf("%v", said)
	}
}

func TestWithoutAListChecksAreDenied(t *testing.T) {
	s := start(t, func(of *enforcer.Config, _ *Config) {
		of.Set, of.DenyWithoutList = blocklist.NewSet(blocklist.Limits{}), true
	})
	if said := s.check(checkOf("203.0.113.7", "/")); said.GetDeniedResponse().GetStatus().GetCode() != 503 {
		t.Errorf("%v", said)
	}
}
