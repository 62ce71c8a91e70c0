package enforcer

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"weir/pkg/blocklist"
	"weir/pkg/rule"
)

func orderOf(target string) string { return `{"target":"` + target + `","for":"1h","why":"w"}` }

// An order may name any field that checks look up, and a check finds the order; other fields are refused with a list of
// the possible ones.
func TestOrdersAreForFieldsThatChecksAskBy(t *testing.T) {
	r := start(t, list(t), func(c *Config) {
		c.Keys, c.Ruling.Fields = keysFile(t), map[string]string{"user": "X-User", "jwt.sub": "X-Subject"}
	})
	for target, header := range map[string][]string{
		"203.0.113.7": {"X-Forwarded-For", "203.0.113.7"}, "user:alice": {"X-User", "alice"}, "host:shop.example": {"X-Forwarded-Host", "shop.example"},
		"path:/admin": {"X-Forwarded-Uri", "/admin"}, "method:TRACE": {"X-Forwarded-Method", "TRACE"}, "agent:scraper": {"User-Agent", "scraper"},
		"tenant:acme": {"Tenant", "acme"}, "jwt.sub:17": {"X-Subject", "17"},
	} {
		if got := r.order("POST", "/v1/blocks", orderOf(target)); got.status != http.StatusCreated || strings.Contains(got.body, "checks here") {
			t.Errorf("%s: %d %s", target, got.status, got.body)
		}
		if check := r.checks("203.0.113.8", header...); check.Header.Get(markField) != "refused manual" {
			t.Errorf("%s: %d", target, check.status)
		}
	}
	for _, path := range []string{"/v1/blocks", "/v1/allows"} {
		for _, target := range []string{"nosuch:x", "query:a=b", "fe80::zz"} {
			got := r.order("POST", path, orderOf(target))
			if name, _, _ := strings.Cut(target, ":"); got.status != http.StatusBadRequest ||
				!strings.Contains(got.body, "checks here look up ip, user, host, path, method, agent, jwt.sub, tenant, and not "+name+": ") ||
				!strings.Contains(got.body, "enforcer.fields, as {"+name+": X-Header}") {
				t.Errorf("%s %s: %d %s", path, target, got.status, got.body)
			}
		}
	}
}

// Without rules and fields, orders may name the fields that every request has, and users. The answer notes that checks
// do not know users. For other fields it returns a remedy.
func TestOrdersWithoutRules(t *testing.T) {
	r := start(t, list(t), func(c *Config) {
		c.Keys, c.Ruling.Rules, c.Ruling.Fields = keysFile(t), &rule.Set{}, nil
	})
	for target, note := range map[string]string{"203.0.113.7": "", "11.0.0.0/8": "", "host:shop.example": "", "user:alice": "enforcer.fields, as {user: X-User}"} {
		var said orderAnswer
		got := r.order("POST", "/v1/blocks", orderOf(target))
		got.read(t, &said)
		if got.status != http.StatusCreated || strings.Contains(got.body, "checks here") != (note != "") || !strings.Contains(said.Note, note) {
			t.Errorf("%s: %d %s", target, got.status, got.body)
		}
	}
	if got := r.order("POST", "/v1/blocks", orderOf("tenant:acme")); got.status != http.StatusBadRequest || !strings.Contains(got.body, "enforcer.fields, as {tenant: X-Header}") {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// A field that checks do not know does not prevent an unblock: the answer notes it.
func TestUnblockingByAFieldThatChecksDoNotKnow(t *testing.T) {
	r := keyed(t, list(t, verdict("sub", "17", map[string]string{"jwt.sub": "17"})))
	var said orderAnswer
	got := r.order("DELETE", "/v1/blocks?why=w&allow=4h&key="+url.QueryEscape("jwt.sub:17"), "")
	got.read(t, &said)
	if got.status != http.StatusOK || len(said.Lifted) != 1 || said.Allowed == nil || !strings.Contains(said.Note, "not jwt.sub: ") {
		t.Errorf("%d %s", got.status, got.body)
	}
	old := &blocklist.Order{ID: "old", Kind: blocklist.OrderAllow, Scope: "gone", Value: "x", Until: blocklist.Never, By: "b", Why: "w"}
	if err := r.config.Set.Order(old, 1); err != nil {
		t.Fatal(err)
	}
	if got := r.order("DELETE", "/v1/allows?why=w&target=gone:x", ""); got.status != http.StatusOK {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// A pause of an unknown rule is refused with a list of the known ones.
func TestAPauseNamesTheRulesThereAre(t *testing.T) {
	r := keyed(t, list(t))
	none := start(t, list(t), func(c *Config) { c.Keys, c.Ruling.Rules = keysFile(t), &rule.Set{} })
	for _, test := range []struct {
		at         *running
		rule, want string
	}{{r, "per-up", "did you mean per-ip?"}, {r, "nonsense", "the rules are per-ip, login, tenant"}, {none, "per-ip", "and no other rule"}} {
		if got := test.at.order("POST", "/v1/pause", `{"rule":"`+test.rule+`","for":"1h","why":"w"}`); got.status != http.StatusBadRequest || !strings.Contains(got.body, test.want) {
			t.Errorf("%s: %d %s", test.rule, got.status, got.body)
		}
	}
}
