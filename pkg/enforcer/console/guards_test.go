package console_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"weir/pkg/blocklist"
	"weir/pkg/rule"
)

// The pages show what a guard holds back. Only a person who may order gets the form that confirms it.
func TestGuardsAreShown(t *testing.T) {
	guarded := ofIP("203.0.113.77")
	guarded.Mode, guarded.Guarded, guarded.ByShare = blocklist.Shadow, true, true
	s := newStand(t, true, ofIP("203.0.113.1"), guarded).withRules("x").start()
	s.login("ann's")
	for _, page := range []string{"/console/", "/console/rules"} {
		_, body, _ := s.get(page)
		for _, want := range []string{"per-ip: 1 guarded.", "They would be blocked", "they are beyond its most_share.", `value="confirm"`} {
			if !strings.Contains(body, want) {
				t.Errorf("%s has no %q: %s", page, want, body)
			}
		}
	}
	if _, body, _ := s.get("/console/"); !strings.Contains(body, ">Guarded<") {
		t.Errorf("the entry's state is not Guarded: %s", body)
	}

	confirm := url.Values{"token": {s.token()}, "action": {"confirm"}, "rule": {"per-ip"}, "why": {"an attack"}, "for": {"1h"}}
	if _, body, _ := s.post("/console/act", confirm); !strings.Contains(body, ">Confirm the guard</button>") || !strings.Contains(body, "1 key that its guard holds back") {
		t.Errorf("the preview: %s", body)
	}

	now := time.Now().UnixMilli()
	if err := s.set.Order(&blocklist.Order{ID: "c", Kind: blocklist.OrderConfirm, Rule: "per-ip", From: now, Until: now + 600_000, By: "ann", Why: "an attack"}, now); err != nil {
		t.Fatal(err)
	}
	_, body, _ := s.get("/console/")
	for _, want := range []string{"They are refused", `value="endconfirm"`} {
		if !strings.Contains(body, want) {
			t.Errorf("there is no %q: %s", want, body)
		}
	}
	if strings.Contains(body, ">Guarded<") {
		t.Errorf("a confirmed entry's state is Guarded: %s", body)
	}
}

func TestNoGuardIsShownWhereNothingIsHeldBack(t *testing.T) {
	s := newStand(t, false, ofIP("203.0.113.1")).start()
	if _, body, _ := s.get("/console/"); strings.Contains(body, "guarded") {
		t.Errorf("%s", body)
	}
}

// The page of the rules has what follows an offence, and the guard.
func TestARuleWithAGuardIsShown(t *testing.T) {
	s := newStand(t, true).withRules("x")
	set, _, err := rule.Parse("rules.yaml", []byte("rules: [{name: per-ip, key: ip, limits: [3/min], block: {for: 10m, then: [1h, 1d]}, guard: {most_new: 50/min, most_share: 2%}}]"))
	if err != nil {
		t.Fatal(err)
	}
	s.config.Rules = func() *rule.Set { return set }
	s.start()
	s.login("ann's")
	if _, body, _ := s.get("/console/rules"); !strings.Contains(body, "for 10m, then 1h, then 1d; guard 50 new blocks/min, 2% of the keys of a minute") {
		t.Error(body)
	}
	if _, body, _ := s.get("/console/parts"); !strings.Contains(body, ">another problem<") {
		t.Error(body)
	}
}
