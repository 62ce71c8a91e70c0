package enforcer

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"weir/pkg/blocklist"
	"weir/pkg/request"
)

// numbered is what the test reads of an answer.
type numbered struct {
	Checks, Refused int64
	LastMinute      bothNumbers                         `json:"last_minute"`
	PerSecond       struct{ Checks, Refused []float64 } `json:"per_second"`
	Rules           map[string]struct {
		Refused      int64
		BlockedNow   int64  `json:"blocked_now"`
		BlockedToday *int64 `json:"blocked_today"`
	}
	Entries []struct {
		ID, Rule, Key string
		Refused       int64
		LastMinute    int64     `json:"last_minute"`
		Last          time.Time `json:"last_refused"`
	}
}

func (r *running) numbered(path string) (n numbered) {
	r.t.Helper()
	got := r.get("/v1/numbers" + path)
	if got.status != http.StatusOK {
		r.t.Fatalf("%d %s", got.status, got.body)
	}
	got.read(r.t, &n)
	return n
}

// All ways to ask are counted in one place: checks over HTTP, of other protocols, descriptors, attempts, and bouncers.
func TestChecksAreCounted(t *testing.T) {
	blocked := ofIP("203.0.113.66")
	r := start(t, list(t, blocked, ofIP("203.0.113.67"), shadowed("203.0.113.68")), func(c *Config) {
		c.Ruling.Rules = parsed(t, strings.Replace(inlineRules, `'int(field("tokens"))'`, "1", 1))
	})
	before := r.numbered("")
	if before.Checks != 0 || before.Refused != 0 || len(before.PerSecond.Checks) != 60 || len(before.PerSecond.Refused) != 60 || len(before.Rules) != 6 || before.Entries != nil {
		t.Errorf("before the first check: %+v", before)
	}

	for range 3 {
		r.checks("203.0.113.66")
	}
	r.checks("203.0.113.1")
	r.checks("203.0.113.68")
	forwarded := func(string) string { return "" }
	r.CheckFor(httptest.NewRecorder(), &EdgeRequest{Edge: "127.0.0.1:1", Sender: netip.MustParseAddr("203.0.113.66"), Method: "GET", Host: "a", Target: "/", Header: forwarded})
	parts := []Part{{Fields: []request.Field{{Name: "ip", Value: "203.0.113.66"}}}}
	if err := r.Limit(httptest.NewRecorder(), parts, make([]PartAnswer, 1)); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		r.ask(r.client, http.MethodPost, "/v1/take", `{"rule": "quota", "fields": {"user": "alice"}}`) // 3 are admitted
	}
	for range 3 {
		r.get("/v1/check/nginx", "X-Original-Uri", "/login", "X-Forwarded-For", "203.0.113.2") // 2 are admitted
	}
	r.Asked("per-ip", blocked.ID)
	r.Asked("", "")
	r.Asked("gone", "its id")

	n := r.numbered("?entries=10")
	if n.Checks != 18 || n.Refused != 3+1+1+2+1+2 {
		t.Errorf("%d checks, %d refused", n.Checks, n.Refused)
	}
	if n.LastMinute.Checks > 18 || n.LastMinute.Checks < 9 {
		t.Errorf("in the last minute: %+v", n.LastMinute)
	}
	for rule, want := range map[string]int64{"per-ip": 6, "quota": 2, "sign-in": 1, "tried": 0, "manual": 0} {
		if got := n.Rules[rule].Refused; got != want {
			t.Errorf("%d refused by %s, not %d", got, rule, want)
		}
	}
	if n.Rules["per-ip"].BlockedNow != 2 || n.Rules["per-ip"].BlockedToday != nil {
		t.Errorf("%+v", n.Rules["per-ip"])
	}
	if len(n.Entries) != 1 || n.Entries[0].ID != blocked.ID || n.Entries[0].Key != "203.0.113.66" || n.Entries[0].Rule != "per-ip" || n.Entries[0].Refused != 6 ||
		n.Entries[0].LastMinute < 3 || time.Since(n.Entries[0].Last) > time.Minute {
		t.Errorf("%+v", n.Entries)
	}
	if all := r.numbered("?entries=10&rule=quota"); len(all.Entries) != 0 {
		t.Errorf("entries of another rule: %+v", all.Entries)
	}
	if got := r.get("/v1/find?key=203.0.113.66"); !strings.Contains(got.body, `"why":"","refused":6,"last_refused":"20`) {
		t.Errorf("%s", got.body)
	}
	if got := r.get("/v1/find?key=203.0.113.67"); strings.Contains(got.body, "refused") {
		t.Errorf("%s", got.body)
	}
	for _, query := range []string{"?entries=0", "?entries=16385", "?entries=x", "?n=1"} {
		if got := r.get("/v1/numbers" + query); got.status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", query, got.status, got.body)
		}
	}
}

func shadowed(ip string) *blocklist.Entry {
	e := ofIP(ip)
	e.Mode = blocklist.Shadow
	return e
}

// Refusals without a list are counted, and belong to no rule.
func TestRefusalsWithoutAListAreCounted(t *testing.T) {
	r := start(t, blocklist.NewSet(blocklist.Limits{}), func(c *Config) { c.DenyWithoutList = true })
	r.checks("203.0.113.66")
	if n := r.numbered(""); n.Checks != 1 || n.Refused != 1 || n.Rules["per-ip"].Refused != 0 {
		t.Errorf("%+v", n)
	}
}

// A refusal by hand belongs to manual, and an enforcer in shadow mode refuses nothing.
func TestRefusalsByHandAreCounted(t *testing.T) {
	r := start(t, list(t), nil)
	order := &blocklist.Order{ID: "by hand", Kind: blocklist.OrderBlock, Scope: "ip", Value: "203.0.113.0/24", From: 1, Until: blocklist.Never, By: "bob", Why: "w"}
	if err := r.config.Set.Order(order, 1); err != nil {
		t.Fatal(err)
	}
	r.checks("203.0.113.66")
	n := r.numbered("?entries=5")
	if n.Refused != 1 || n.Rules["manual"].Refused != 1 || n.Rules["manual"].BlockedNow != 1 || len(n.Entries) != 1 || n.Entries[0].ID != "by hand" || n.Entries[0].Key != "203.0.113.0/24" {
		t.Errorf("%+v", n)
	}

	ruling := usualRuling(t)
	ruling.Shadow = true
	if err := r.Rule(ruling); err != nil {
		t.Fatal(err)
	}
	r.checks("203.0.113.66")
	if n := r.numbered(""); n.Checks != 2 || n.Refused != 1 || n.Rules["manual"].Refused != 1 {
		t.Errorf("in shadow: %+v", n)
	}
}
