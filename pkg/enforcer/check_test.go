package enforcer

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/pkg/blocklist"
	"weir/pkg/enforcer/outright"
	"weir/pkg/request"
)

func TestCheck(t *testing.T) {
	shadow := ofIP("203.0.113.9")
	shadow.Mode = blocklist.Shadow
	login := verdict("login", "alice /login", map[string]string{"user": "alice", "path": "/login"})
	login.Limit = "5/10s"
	r := start(t, list(t, ofIP("203.0.113.7"), ofIP("2001:db8::/64"), ofIP("192.0.2.1"), ofIP("127.0.0.1"), ofIP("10.1.1.1"), shadow, login,
		verdict("tenant", "acme", map[string]string{"tenant": "acme"}), verdict("gone", "x", nil),
		verdict("per-user", "dave ", map[string]string{"user": "dave "})), nil)
	for name, test := range map[string]struct {
		headers []string
		status  int
		mark    string
	}{
		"on no list":                     {[]string{"X-Forwarded-For", "203.0.113.8"}, 200, ""},
		"refused":                        {[]string{"X-Forwarded-For", "203.0.113.7"}, 429, "refused per-ip"},
		"the nearest that is no proxy":   {[]string{"X-Forwarded-For", "203.0.113.8, 203.0.113.7, 10.0.0.1"}, 429, "refused per-ip"},
		"what a client says of itself":   {[]string{"X-Forwarded-For", "203.0.113.7, 203.0.113.8"}, 200, ""},
		"in a prefix":                    {[]string{"X-Forwarded-For", "2001:db8::5"}, 429, "refused per-ip"},
		"in shadow":                      {[]string{"X-Forwarded-For", "203.0.113.9"}, 200, "shadow per-ip"},
		"allowed by the rules":           {[]string{"X-Forwarded-For", "192.0.2.1"}, 200, ""},
		"covered":                        {[]string{"X-Forwarded-For", "203.0.113.8", "X-User", "alice", "X-Forwarded-Uri", "/login"}, 429, "refused login"},
		"covered, spelt otherwise":       {[]string{"X-Forwarded-For", "203.0.113.8", "X-User", "alice", "X-Forwarded-Uri", "/x/..//%6cogin?a"}, 429, "refused login"},
		"a user whose space is lost":     {[]string{"X-Forwarded-For", "203.0.113.8", "X-User", "alice ", "X-Forwarded-Uri", "/login"}, 429, "refused login"},
		"a blocked user with a space":    {[]string{"X-Forwarded-For", "203.0.113.8", "X-User", "dave "}, 200, ""},
		"not covered":                    {[]string{"X-Forwarded-For", "203.0.113.8", "X-User", "alice", "X-Forwarded-Uri", "/"}, 200, ""},
		"a header as a field":            {[]string{"X-Forwarded-For", "203.0.113.8", "Tenant", "acme"}, 429, "refused tenant"},
		"a trusted proxy itself":         {nil, 200, ""},
		"a trusted proxy behind another": {[]string{"X-Forwarded-For", "10.1.1.1"}, 429, "refused per-ip"},
		"this machine as a client":       {[]string{"X-Forwarded-For", "127.0.0.1"}, 429, "refused per-ip"},
		"through a translator":           {[]string{"X-Forwarded-For", "64:ff9b::203.0.113.7"}, 429, "refused per-ip"},
		"of 6to4":                        {[]string{"X-Forwarded-For", "2002:cb00:7107::1"}, 429, "refused per-ip"},
		"no address":                     {[]string{"X-Forwarded-For", "unknown"}, 200, ""},
	} {
		got := r.get("/v1/check", append([]string{"X-Forwarded-Method", "GET"}, test.headers...)...)
		if got.status != test.status || got.Header.Get(markField) != test.mark {
			t.Errorf("%s: %d %q, want %d %q", name, got.status, got.Header.Get(markField), test.status, test.mark)
		}
	}
	if n := testutil.ToFloat64(r.Enforcer.metrics.checks.WithLabelValues("per-ip", "refused")); n != 7 {
		t.Errorf("%v refusals of per-ip were counted", n)
	}
	for path, want := range map[string]int{"/v1/check": 429, "/v1/check/nginx": 403, "/v1/check/traefik": 429, "/v1/check/caddy": 429, "/v1/check/envoy/x": 429, "/v1/check/haproxy": 404} {
		if got := r.get(path, "X-Forwarded-For", "203.0.113.7"); got.status != want {
			t.Errorf("%s: %d, want %d", path, got.status, want)
		}
	}
}

func TestARefusalSaysHowLongAndWhy(t *testing.T) {
	r := start(t, list(t, ofIP("203.0.113.7")), nil)
	got := r.checks("203.0.113.7")
	seconds := got.Header.Get("Retry-After")
	if seconds != "600" && seconds != "599" {
		t.Errorf("Retry-After: %s", seconds)
	}
	for name, want := range map[string]string{
		"RateLimit-Policy": `"per-ip 10/min";q=10;w=60, "per-ip 100/hour";q=100;w=3600`, "RateLimit": `"per-ip 10/min";r=0;t=` + seconds,
		"X-RateLimit-Limit": "10", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": seconds, "Content-Type": "application/problem+json",
	} {
		if is := got.Header.Get(name); is != want {
			t.Errorf("%s: %s, want %s", name, is, want)
		}
	}
	var body struct {
		Type, Title string
		Status      int
		Violated    []string `json:"violated-policies"`
	}
	got.read(t, &body)
	if !strings.HasSuffix(body.Type, "#abnormal-usage-detected") || body.Status != 429 || len(body.Violated) != 1 || body.Violated[0] != "per-ip 10/min" {
		t.Errorf("%+v", body)
	}
}

func TestWhichLimitHeaders(t *testing.T) {
	for of, want := range map[LimitHeaders]string{BothLimitHeaders: "draft legacy", DraftLimitHeaders: "draft ", LegacyLimitHeaders: " legacy", NoLimitHeaders: " "} {
		r := start(t, list(t, ofIP("203.0.113.7")), func(c *Config) { c.LimitHeaders = of })
		got := r.checks("203.0.113.7")
		is := " "
		if got.Header.Get("RateLimit") != "" && got.Header.Get("RateLimit-Policy") != "" {
			is = "draft "
		}
		if got.Header.Get("X-RateLimit-Limit") != "" {
			is += "legacy"
		}
		if is != want || got.Header.Get("Retry-After") == "" {
			t.Errorf("%d: %q, want %q", of, is, want)
		}
		r.stop()
	}
}

// A limit that the rule no longer has is shown as the entry has it; a manual entry has none.
func TestLimitsThatTheRulesDoNotHave(t *testing.T) {
	old := ofIP("203.0.113.7")
	old.Limit = "7/500ms"
	r := start(t, list(t, old), nil)
	if got := r.checks("203.0.113.7").Header; got.Get("RateLimit") == "" || got.Get("RateLimit-Policy") != `"per-ip 7/500ms";q=7` {
		t.Errorf("%v", got)
	}
	if err := r.config.Set.Order(&blocklist.Order{ID: "1", Kind: blocklist.OrderBlock, Scope: "ip", Value: "203.0.113.0/24", From: 1, Until: blocklist.Never, By: "b", Why: "w"}, 1); err != nil {
		t.Fatal(err)
	}
	if got := r.checks("203.0.113.8").Header; got.Get(markField) != "refused manual" || got.Get("Retry-After") != "31536000" || got.Get("RateLimit") != "" {
		t.Errorf("%v", got)
	}
}

func TestWithoutAList(t *testing.T) {
	for _, test := range []struct {
		deny   bool
		path   string
		status int
		mark   string
	}{
		{false, "/v1/check", 200, "without list"}, {true, "/v1/check", 503, "refused without list"}, {true, "/v1/check/nginx", 403, "refused without list"},
		{true, "/v1/check/envoy/", 429, "refused without list"}, {true, "/v1/check/traefik", 503, "refused without list"},
	} {
		r := start(t, blocklist.NewSet(blocklist.Limits{}), func(c *Config) { c.DenyWithoutList = test.deny })
		got := r.get(test.path, "X-Forwarded-For", "203.0.113.7")
		if got.status != test.status || got.Header.Get(markField) != test.mark {
			t.Errorf("%+v: %d %q", test, got.status, got.Header.Get(markField))
		}
		r.stop()
	}
}

// Manual entries are active even without a list.
func TestOrdersWithoutAList(t *testing.T) {
	r := start(t, blocklist.NewSet(blocklist.Limits{}), func(c *Config) { c.Keys, c.DenyWithoutList = keysFile(t), true })
	r.order("POST", "/v1/blocks", `{"target":"203.0.113.7","why":"w"}`)
	r.order("POST", "/v1/allows", `{"target":"203.0.113.8","why":"w"}`)
	for ip, want := range map[string]int{"203.0.113.7": 429, "203.0.113.8": 200, "203.0.113.9": 503} {
		if got := r.checks(ip); got.status != want {
			t.Errorf("%s: %d, want %d", ip, got.status, want)
		}
	}
}

func TestInShadowNothingIsRefused(t *testing.T) {
	r := start(t, list(t, ofIP("203.0.113.7")), func(c *Config) { c.Ruling.Shadow = true })
	if got := r.checks("203.0.113.7"); got.status != 200 || got.Header.Get(markField) != "shadow per-ip" {
		t.Errorf("%d %v", got.status, got.Header)
	}
}

func TestAnEdgeThatIsNotTrustedIsNotBelieved(t *testing.T) {
	e, err := Open(Config{Set: list(t, ofIP("203.0.113.7")), Ruling: usualRuling(t), Refusal: 429, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	for edge, want := range map[string]bool{"10.0.0.1:1": true, "198.51.100.1:1": false, "[::1]:1": true, "@": true, "": true} {
		a := newAsking(e.ruling.Load())
		q := asked(t, "GET /v1/check HTTP/1.1\nHost: h\nX-Forwarded-For: 203.0.113.7")
		q.RemoteAddr = edge
		a.read(q, e.plain.readers[0].read, time.Now())
		if got := a.request.IP == netip.MustParseAddr("203.0.113.7"); got != want {
			t.Errorf("%s: the client is %s", edge, a.request.IP)
		}
	}
}

// A client on the machine of a trusted edge has the edge's address, and nothing is wrong with that.
func TestAClientAtATrustedEdgeIsNoError(t *testing.T) {
	for edge, wrong := range map[string]bool{"10.0.0.1": false, "127.0.0.1": false, "198.51.100.1": true} {
		var heard strings.Builder
		e, err := Open(Config{Set: list(t), Ruling: usualRuling(t), Refusal: 429, Logger: slog.New(slog.NewTextHandler(&heard, nil))})
		if err != nil {
			t.Fatal(err)
		}
		q := asked(t, "GET /v1/check HTTP/1.1\nHost: h\nX-Forwarded-For: "+edge)
		q.RemoteAddr = edge + ":1"
		e.check(httptest.NewRecorder(), q)
		if got := strings.Contains(heard.String(), "is no trusted proxy"); got != wrong {
			t.Errorf("%s: %s", edge, heard.String())
		}
	}
}

func TestRulesAreTakenWhileItRuns(t *testing.T) {
	r := start(t, list(t, ofIP("203.0.113.7")), nil)
	next := usualRuling(t)
	next.Rules = parsed(t, "rules: [{name: other, key: ip, limits: [1/min]}]")
	next.Client = request.NewClient(nil)
	if err := r.Rule(next); err != nil {
		t.Fatal(err)
	}
	if got := r.checks("203.0.113.7"); got.status != http.StatusOK {
		t.Errorf("%d by a rule that is gone", got.status)
	}
}

// A rule's block of this machine or of a trusted proxy refuses checks, but no list for firewalls contains it.
func TestNoFirewallCutsOffAProxyOrThisMachine(t *testing.T) {
	r := start(t, list(t, ofIP("203.0.113.7"), ofIP("127.0.0.1"), ofIP("10.1.1.1"), ofIP("::/64"), ofIP("64:ff9b::/64")), nil)
	var given []string
	for someone := range outright.All(r.config.Set, r.Rules(), time.Now().UnixMilli()) {
		given = append(given, someone.Prefix.String())
	}
	if !slices.Equal(given, []string{"203.0.113.7/32"}) {
		t.Error(given)
	}
	for _, client := range []string{"203.0.113.7", "127.0.0.1", "10.1.1.1", "::1"} {
		if got := r.checks(client); got.status != http.StatusTooManyRequests {
			t.Errorf("%s: %d", client, got.status)
		}
	}
}
