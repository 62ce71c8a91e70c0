package enforcer

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"weir/pkg/blocklist"
)

// Guarded entries pass, until a person with the right to order confirms their rule, and pass again when that ends.
func TestConfirmAGuardedRule(t *testing.T) {
	guarded := ofIP("203.0.113.7")
	guarded.Mode, guarded.Guarded, guarded.ByShare = blocklist.Shadow, true, true
	r := keyed(t, list(t, guarded, ofIP("203.0.113.9")))
	status := func() int { return r.checks("203.0.113.7").status }
	if got := r.ask(r.client, "POST", "/v1/guard", `{"rule":"per-ip","why":"x"}`, "X-Api-Key", "read"); got.status != http.StatusForbidden {
		t.Errorf("%d %s", got.status, got.body)
	}
	var answer struct {
		Rules []struct {
			Rule      string
			Guarded   int
			Confirmed *shown
		}
	}
	lists := func(confirmed bool) {
		t.Helper()
		answer.Rules = nil
		r.get("/v1/guard", "X-Api-Key", "read").read(t, &answer)
		if len(answer.Rules) != 1 || answer.Rules[0].Rule != "per-ip" || answer.Rules[0].Guarded != 1 || (answer.Rules[0].Confirmed != nil) != confirmed {
			t.Errorf("%+v", answer)
		}
	}
	lists(false)
	if got := r.ask(r.client, "GET", "/v1/guard", "", "X-Api-Key", "read"); !strings.Contains(got.body, `"guarded_by_share":1`) {
		t.Error(got.body)
	}
	if got := r.Status(); got.Guarded["per-ip"] != 1 || got.ByShare["per-ip"] != 1 {
		t.Errorf("the status has %v", got)
	}

	for _, test := range []struct {
		method, path, body string
		want, check        int
	}{
		{"POST", "/v1/guard", `{"why":"an attack"}`, 400, 200},
		{"POST", "/v1/guard", `{"rule":"*","why":"an attack"}`, 400, 200},
		{"POST", "/v1/guard", `{"rule":"nonsense","why":"an attack"}`, 400, 200},
		{"POST", "/v1/guard", `{"rule":"per-ip"}`, 400, 200},
		{"POST", "/v1/guard", `{"rule":"per-ip","target":"203.0.113.7","why":"x"}`, 400, 200},
		{"DELETE", "/v1/guard?rule=per-ip&why=x", "", 404, 200},
		{"DELETE", "/v1/guard?why=x", "", 400, 200},
		{"POST", "/v1/guard", `{"rule":"per-ip","why":"an attack"}`, 201, 429},
		{"POST", "/v1/guard", `{"rule":"per-ip","for":"2h","why":"an attack"}`, 201, 429},
		{"DELETE", "/v1/guard?rule=per-ip&why=customers", "", 200, 200},
		{"POST", "/v1/guard", `{"rule":"per-ip","why":"an attack"}`, 201, 429},
	} {
		got := r.order(test.method, test.path, test.body)
		if check := status(); got.status != test.want || check != test.check {
			t.Errorf("%+v: %d, %d: %s", test, got.status, check, got.body)
		}
	}
	lists(true)
	confirmed := answer.Rules[0].Confirmed
	if left := time.Until(confirmed.Until); left < 50*time.Minute || left > 61*time.Minute || confirmed.Why != "an attack" || confirmed.By == "" {
		t.Errorf("without an end it lasts %s: %+v", left, confirmed)
	}
	if got := r.Status().Guarded; len(got) != 0 {
		t.Errorf("the status of a confirmed rule has %v", got)
	}
}

// A rule in shadow mode refuses no one, so a confirmation of it would promise what does not happen.
func TestAShadowRuleIsNotConfirmed(t *testing.T) {
	r := start(t, list(t), func(c *Config) {
		c.Ruling.Rules = parsed(t, "rules: [{name: tried, key: ip, limits: [1/min], mode: shadow, guard: {most_new: 5/min}}]")
	})
	if got := r.ask(r.overSocket(), "POST", "/v1/guard", `{"rule":"tried","why":"x"}`); got.status != http.StatusConflict || !strings.Contains(got.body, "shadow mode") {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// A rule without a guard has nothing that a confirmation would have enforced.
func TestARuleWithoutAGuardIsNotConfirmed(t *testing.T) {
	r := start(t, list(t), func(c *Config) {
		c.Ruling.Rules = parsed(t, "rules: [{name: plain, key: ip, limits: [1/min]}, {name: guarded, key: ip, limits: [1/min], guard: {most_new: 5/min}}]")
	})
	if got := r.ask(r.overSocket(), "POST", "/v1/guard", `{"rule":"plain","why":"x"}`); got.status != http.StatusConflict || !strings.Contains(got.body, "has no guard") {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := r.ask(r.overSocket(), "POST", "/v1/guard", `{"rule":"guarded","why":"x"}`); got.status != http.StatusCreated {
		t.Errorf("before anything is held back: %d %s", got.status, got.body)
	}

	held := verdict("plain", "203.0.113.7", map[string]string{"ip": "203.0.113.7"})
	held.Mode, held.Guarded = blocklist.Shadow, true
	r = start(t, list(t, held), func(c *Config) {
		c.Ruling.Rules = parsed(t, "rules: [{name: plain, key: ip, limits: [1/min]}]")
	})
	if got := r.ask(r.overSocket(), "POST", "/v1/guard", `{"rule":"plain","why":"x"}`); got.status != http.StatusCreated {
		t.Errorf("what was held back before the guard was taken away: %d %s", got.status, got.body)
	}
}
