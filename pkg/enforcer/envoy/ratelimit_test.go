package envoy

import (
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	descriptor "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"weir/pkg/blocklist"
	"weir/pkg/enforcer"
	"weir/test/locked"
	"weir/test/metric"
)

// shown is a response in words.
func shown(r *ratelimit.RateLimitResponse) string {
	text := r.GetOverallCode().String()
	for _, s := range r.GetStatuses() {
		text += "; " + s.GetCode().String()
		if l := s.GetCurrentLimit(); l != nil {
			text += fmt.Sprintf(" %s: %d of %d %s×%d", l.GetName(), s.GetLimitRemaining(), l.GetRequestsPerUnit(), l.GetUnit(), max(1, l.GetUnitMultiplier().GetValue()))
			if s.GetDurationUntilReset() != nil {
				text += " later"
			}
		}
	}
	return text
}

func headerOf(all []*core.HeaderValue, name string) string {
	for _, h := range all {
		if h.GetKey() == name {
			return h.GetValue()
		}
	}
	return ""
}

func TestLimits(t *testing.T) {
	s := start(t, nil)
	ip := func(last int) *descriptor.RateLimitDescriptor {
		return describe("remote_address", fmt.Sprint("203.0.113.", last))
	}
	for i, want := range []string{
		"OK; OK by-ip 3/min: 2 of 3 MINUTE×1", "OK; OK by-ip 3/min: 1 of 3 MINUTE×1", "OK; OK by-ip 3/min: 0 of 3 MINUTE×1 later",
		"OVER_LIMIT; OVER_LIMIT by-ip 3/min: 0 of 3 MINUTE×1 later",
	} {
		said := s.limits(ip(7))
		if got := shown(said); got != want {
			t.Errorf("request %d: %s, want %s", i+1, got, want)
		}
		refused := said.GetOverallCode() == ratelimit.RateLimitResponse_OVER_LIMIT
		headers := said.GetResponseHeadersToAdd()
		if headerOf(headers, "ratelimit-policy") == "" || (headerOf(headers, "retry-after") != "") != refused || headerOf(headers, "x-weir-attempt") != "" ||
			(headerOf(said.GetRequestHeadersToAdd(), "x-weir-attempt") == "") != refused || strings.Contains(string(said.GetRawBody()), "quota-exceeded") != refused {
			t.Errorf("request %d: %v", i+1, said)
		}
		if refused && headerOf(headers, "x-weir") != "refused by-ip" {
			t.Errorf("%v", headers)
		}
	}

	for _, test := range []struct {
		what string
		all  []*descriptor.RateLimitDescriptor
		want string
	}{
		{"no field of any rule", []*descriptor.RateLimitDescriptor{describe("generic_key", "x")}, "OK; OK"},
		{"a field of our name", []*descriptor.RateLimitDescriptor{describe("ip", "203.0.113.7")}, "OVER_LIMIT; OVER_LIMIT by-ip 3/min: 0 of 3 MINUTE×1 later"},
		{"a custom field", []*descriptor.RateLimitDescriptor{describe("tenant", "a")}, "OK; OK by-tenant 5/10min: 4 of 5 MINUTE×10"},
		{"one of two refuses", []*descriptor.RateLimitDescriptor{describe("tenant", "a"), ip(7)}, "OVER_LIMIT; OK by-tenant 5/10min: 4 of 5 MINUTE×10; OVER_LIMIT by-ip 3/min: 0 of 3 MINUTE×1 later"},
		{"so the other has not counted", []*descriptor.RateLimitDescriptor{describe("tenant", "a")}, "OK; OK by-tenant 5/10min: 3 of 5 MINUTE×10"},
		{"a match", []*descriptor.RateLimitDescriptor{describe("user", "alice", "path", "/login?a=b")}, "OK; OK login 2/min: 1 of 2 MINUTE×1"},
		{"another path", []*descriptor.RateLimitDescriptor{describe("user", "alice", "path", "/")}, "OK; OK"},
		{"how many run", []*descriptor.RateLimitDescriptor{describe("export", "a")}, "OK; OK exports 2 at once: 1 of 2 UNKNOWN×1"},
		{"a rule by its name", []*descriptor.RateLimitDescriptor{describe("rule", "login", "user", "alice")}, "OK; OK login 2/min: 0 of 2 MINUTE×1 later"},
		{"only that rule", []*descriptor.RateLimitDescriptor{describe("rule", "by-tenant", "tenant", "b", "remote_address", "203.0.113.7")}, "OK; OK by-tenant 5/10min: 4 of 5 MINUTE×10"},
		{"a rule whose field the client has left out", []*descriptor.RateLimitDescriptor{describe("rule", "watched", "remote_address", "203.0.113.6"), ip(7)}, "OVER_LIMIT; OK; OVER_LIMIT by-ip 3/min: 0 of 3 MINUTE×1 later"},
		{"a cost that the client has made wrong", []*descriptor.RateLimitDescriptor{describe("rule", "sized", "size", "a"), ip(7)}, "OVER_LIMIT; OK; OVER_LIMIT by-ip 3/min: 0 of 3 MINUTE×1 later"},
		{"one limit for two counts once", []*descriptor.RateLimitDescriptor{ip(8), describe("remote_address", "203.0.113.8", "path", "/x")}, "OK; OK by-ip 3/min: 2 of 3 MINUTE×1; OK by-ip 3/min: 2 of 3 MINUTE×1"},
		{"an allow", []*descriptor.RateLimitDescriptor{describe("remote_address", "192.0.2.1")}, "OK; OK"},
		{"an empty value is no field", []*descriptor.RateLimitDescriptor{describe("tenant", "", "remote_address", "203.0.113.9")}, "OK; OK by-ip 3/min: 2 of 3 MINUTE×1"},
	} {
		if got := shown(s.limits(test.all...)); got != test.want {
			t.Errorf("%s: %s, want %s", test.what, got, test.want)
		}
	}

	for range 3 { // only by-ip refuses
		s.limits(describe("remote_address", "203.0.113.10", "agent", "curl"))
	}
	if said := shown(s.limits(describe("rule", "watched", "remote_address", "203.0.113.10", "agent", "curl"))); said != "OK; OK" {
		t.Errorf("a rule in shadow mode: %s", said)
	}
	if n, _ := metric.Value(t, s.metrics, "weir_inline_attempts_total", "rule", "watched", "answer", "shadow"); n != 3 {
		t.Errorf("in shadow: %v", n)
	}
	if n, _ := metric.Value(t, s.metrics, "weir_enforcer_grpc_calls_total", "service", "ratelimit", "code", "OK"); n < 10 {
		t.Errorf("calls: %v", n)
	}
}

func TestCosts(t *testing.T) {
	s := start(t, nil)
	one := func(addend, own int64) *ratelimit.RateLimitRequest {
		d := describe("rule", "tokens", "model", "large")
		if own >= 0 {
			d.HitsAddend = wrapperspb.UInt64(uint64(own))
		}
		return &ratelimit.RateLimitRequest{Descriptors: []*descriptor.RateLimitDescriptor{d}, HitsAddend: uint32(addend)}
	}
	for _, test := range []struct{ addend, own, left int64 }{{0, -1, 999}, {9, -1, 990}, {9, 90, 900}, {9, 0, 900}, {900, -1, 0}} {
		said, err := s.limit(one(test.addend, test.own))
		if err != nil || int64(said.GetStatuses()[0].GetLimitRemaining()) != test.left || said.GetOverallCode() != ratelimit.RateLimitResponse_OK {
			t.Errorf("%+v: %v, %v", test, said, err)
		}
	}
	said, err := s.limit(one(0, math.MaxInt64))
	if err != nil || said.GetOverallCode() != ratelimit.RateLimitResponse_OVER_LIMIT || headerOf(said.GetResponseHeadersToAdd(), "retry-after") != "" {
		t.Errorf("more than ever: %v, %v", said, err)
	}
}

// A client on the list is over the limit, and nothing is counted.
func TestTheListIsAskedFirst(t *testing.T) {
	s := start(t, nil)
	s.order(blocklist.OrderBlock, "203.0.113.66")
	said := s.limits(describe("tenant", "a"), describe("rule", "login"), describe("remote_address", "203.0.113.66"))
	if got := shown(said); got != "OVER_LIMIT; OK; OK; OVER_LIMIT" {
		t.Errorf("%s", got)
	}
	if headers := said.GetResponseHeadersToAdd(); headerOf(headers, "x-weir") != "refused manual" || headerOf(headers, "retry-after") == "" || headerOf(headers, "content-type") == "" {
		t.Errorf("%v", headers)
	}
	if got := shown(s.limits(describe("tenant", "a"))); got != "OK; OK by-tenant 5/10min: 4 of 5 MINUTE×10" {
		t.Errorf("%s", got)
	}
}

func TestWithoutAListLimitsAreDenied(t *testing.T) {
	s := start(t, func(of *enforcer.Config, _ *Config) {
		of.Set, of.DenyWithoutList = blocklist.NewSet(blocklist.Limits{}), true
	})
	said := s.limits(describe("tenant", "a"))
	if said.GetOverallCode() != ratelimit.RateLimitResponse_OVER_LIMIT || headerOf(said.GetResponseHeadersToAdd(), "x-weir") != "refused without list" {
		t.Errorf("%v", said)
	}
}

func TestWrongDescriptors(t *testing.T) {
	logged := &locked.Buffer{}
	s := start(t, func(_ *enforcer.Config, c *Config) { c.Logger = slog.New(slog.NewTextHandler(logged, nil)) })
	over := describe("tenant", "a")
	over.Limit = &descriptor.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 5}
	negative := describe("tenant", "a")
	negative.IsNegativeHits = true
	for _, test := range []struct {
		all  []*descriptor.RateLimitDescriptor
		says string
	}{
		{nil, "there is no descriptor"},
		{make([]*descriptor.RateLimitDescriptor, 17), "17 descriptors are too many"},
		{[]*descriptor.RateLimitDescriptor{over}, "descriptor 1: it has a limit of its own"},
		{[]*descriptor.RateLimitDescriptor{negative}, "is_negative_hits"},
		{[]*descriptor.RateLimitDescriptor{describe(make([]string, 66)...)}, "too many entries"},
		{[]*descriptor.RateLimitDescriptor{describe("", "a")}, "without a key"},
		{[]*descriptor.RateLimitDescriptor{describe("tenant", "a", "tenant", "b")}, "the field tenant is there twice"},
		{[]*descriptor.RateLimitDescriptor{describe("ip", "203.0.113.7", "remote_address", "203.0.113.8")}, "the field ip is there twice"},
		{[]*descriptor.RateLimitDescriptor{describe("rule", "a", "rule", "b")}, "two rules"},
		{[]*descriptor.RateLimitDescriptor{describe("rule", "")}, "without a name"},
		{[]*descriptor.RateLimitDescriptor{describe("tenant", "a"), describe("rule", "logn")}, `descriptor 2: there is no rule "logn"`},
		{[]*descriptor.RateLimitDescriptor{describe("rule", "per-ip")}, "is not inline"},
		{[]*descriptor.RateLimitDescriptor{describe("remote_address", "10.0.0.0/8")}, "the field ip is no address"},
		{[]*descriptor.RateLimitDescriptor{describe("status", "401")}, "after the response"},
	} {
		_, err := s.limit(&ratelimit.RateLimitRequest{Descriptors: test.all})
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%q: %v", test.says, err)
		}
	}
	if !strings.Contains(logged.String(), "a request with a mistake: there is no descriptor") {
		t.Errorf("the log: %s", logged)
	}
	// Nothing of a request with a mistake is counted.
	if got := shown(s.limits(describe("tenant", "a"))); got != "OK; OK by-tenant 5/10min: 4 of 5 MINUTE×10" {
		t.Errorf("%s", got)
	}
}
