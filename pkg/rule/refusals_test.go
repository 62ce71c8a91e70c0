package rule

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"weir/pkg/request"
)

const refusalRules = `
rules:
  - {name: sign-in, key: ip, limits: [5/min], inline: true, algorithm: token, block: {after: 3, within: 1m, for: 15m, then: [1h]}}
  - {name: tried, key: user, limits: [5/min], inline: true, mode: shadow, block: {after: 1, within: 1m, for: 15m}}
  - {name: plain, key: ip, limits: [5/min], inline: true}
  - {name: per-ip, key: ip, limits: [100/min]}
  - {name: refusals, key: [rule, key], limits: [10/min], match: 'verdict == "refused"'}
  - {name: of-sign-in, key: ip, limits: [10/min], match: 'rule == "sign-in" and fields.limit == "5/min"'}
allow: [{ip: 192.0.2.0/24}]
`

func parsedRules(t *testing.T, text string) *Set {
	t.Helper()
	set, _, err := Parse("rules.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func shownHits(set *Set, hits []Hit) string {
	all := ""
	for _, h := range hits {
		all += fmt.Sprintf(" %s=%s/%d", set.Rules[h.Rule].Name, h.Key, h.Cost)
	}
	return strings.TrimSpace(all)
}

func attemptOf(rule, key, verdict, ip string) *request.Request {
	return &request.Request{IP: netip.MustParseAddr(ip), Path: "/", Bytes: -1, Take: &request.Take{Rule: rule, Key: key, Verdict: verdict, Cost: 7},
		Fields: []request.Field{{Name: "rule", Value: rule}, {Name: "key", Value: key}, {Name: "verdict", Value: verdict}, {Name: "limit", Value: "5/min"}}}
}

func TestRefusalsOfInlineRules(t *testing.T) {
	set := parsedRules(t, refusalRules)
	j := set.NewJudge()
	for _, test := range []struct{ rule, key, verdict, ip, want string }{
		{"sign-in", "203.0.113.7", "refused", "203.0.113.7", "sign-in=203.0.113.7/1"},
		{"sign-in", "203.0.113.7", "admitted", "203.0.113.7", ""},
		{"sign-in", "203.0.113.7", "other", "203.0.113.7", ""},
		{"sign-in", "203.0.113.7", "paused", "203.0.113.7", ""},
		{"sign-in", "203.0.113.7", "shadow", "203.0.113.7", ""}, // an enforcer in shadow mode refuses no one
		{"sign-in", "192.0.2.1", "refused", "192.0.2.1", ""},    // allowed since
		{"sign-in", "203.0.113.0/24", "refused", "203.0.113.7", ""},
		{"sign-in", "alice", "refused", "203.0.113.7", ""}, // the rule had another key then
		{"tried", "alice", "shadow", "203.0.113.7", "tried=alice/2"},
		{"tried", " alice ", "shadow", "203.0.113.7", "tried= alice /2"},
		{"plain", "203.0.113.7", "refused", "203.0.113.7", ""},
		{"per-ip", "203.0.113.7", "refused", "203.0.113.7", ""},
		{"gone", "203.0.113.7", "refused", "203.0.113.7", ""},
	} {
		if got := shownHits(set, j.Refusals(attemptOf(test.rule, test.key, test.verdict, test.ip))); got != test.want {
			t.Errorf("%+v: %q", test, got)
		}
	}
	logged := attemptOf("sign-in", "203.0.113.7", "refused", "203.0.113.7")
	logged.Take = nil
	if got := j.Refusals(logged); len(got) > 0 {
		t.Errorf("a request of a log is a refusal: %v", got)
	}
}

// A rule counts attempts only if its match is about them, and then no requests of logs.
func TestRulesOfAttempts(t *testing.T) {
	set := parsedRules(t, refusalRules)
	j := set.NewJudge()
	one := attemptOf("sign-in", "203.0.113.7", "refused", "203.0.113.7")
	if got := shownHits(set, j.Hits(one)); got != "refusals=sign-in 203.0.113.7/1 of-sign-in=203.0.113.7/1" {
		t.Errorf("an attempt: %s", got)
	}
	one.Take = nil // a client wrote the fields
	if got := shownHits(set, j.Hits(one)); got != "per-ip=203.0.113.7/1" {
		t.Errorf("a log: %s", got)
	}
	for _, asked := range set.Asks() {
		if asked.Field == "verdict" || asked.Field == "rule" {
			t.Errorf("logs are asked for %+v", asked)
		}
	}
}

func TestASetAsItIsCounted(t *testing.T) {
	set := parsedRules(t, refusalRules)
	counted := set.Counted()
	if !set.CountsRefusals() || counted.Fingerprint() != set.Fingerprint() || set.Rules[0].CountsLog() {
		t.Fatal("the set itself has changed")
	}
	r := counted.Rules[0]
	if !r.CountsLog() || r.Inline || len(r.Limits) != 1 || r.Limits[0].Hits != 2 || r.Limits[0].Per != time.Minute || r.Limits[0].Text != "3 refused in 1m" || r.Block.For != 15*time.Minute {
		t.Errorf("%+v", r)
	}
	if _, err := r.Policy(time.Minute, 0); err != nil {
		t.Error(err)
	}
	if counted.Rules[1].Limits[0].Hits != 1 || counted.Rules[1].Mode != Shadow || counted.Rules[2].CountsLog() {
		t.Errorf("%+v", counted.Rules[1:3])
	}
	if shadowed := set.Shadowed(); shadowed.Counted().Rules[0].Mode != Shadow {
		t.Error("a set in shadow mode has blocks")
	}
	other := strings.Replace(refusalRules, "after: 3", "after: 4", 1)
	if parsedRules(t, other).Fingerprint() == set.Fingerprint() {
		t.Error("after is not in the fingerprint")
	}
	if plain := parsedRules(t, "rules: [{name: a, key: ip, limits: [1/s], inline: true}]"); plain.Counted() != plain || plain.CountsRefusals() {
		t.Error("a set without refusals")
	}
}

func TestFaultsOfAfter(t *testing.T) {
	for block, want := range map[string]string{
		"inline: true, block: {after: 3, for: 15m}":                 "the block names no time within which 3 attempts are refused",
		"inline: true, block: {within: 1m}":                         "an inline rule has no block",
		"inline: true, block: {after: 0, within: 1m}":               "a block after 0 refused attempts is not possible",
		"inline: true, block: {after: 3, within: 1m, until: clear}": "until: clear and after do not go together",
		"inline: {also: log}, block: {after: 3, within: 1m}":        "after and inline: {also: log} do not go together",
		"block: {after: 3, within: 1m}":                             "after counts refused attempts, and only inline rules have these",
		"block: {within: 1m}":                                       "within is the time of after, which is not there",
		`inline: true, match: 'verdict == "refused"'`:               "reads verdict, which is not known before the response",
	} {
		_, _, err := Parse("rules.yaml", []byte("rules: [{name: a, key: ip, limits: [5/min], "+block+"}]"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", block, err)
		}
	}
}
