package rule_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"weir/pkg/request"
	"weir/pkg/rule"
	"weir/pkg/window"
)

// foundInline is the judge's decision on a request before it is served: the hits of Inline.
func foundInline(j *rule.Judge, set *rule.Set, r *request.Request) string {
	var found []string
	for _, hit := range j.Inline(r) {
		found = append(found, fmt.Sprintf("%s=%s×%d", set.Rules[hit.Rule].Name, hit.Key, hit.Cost))
	}
	return strings.Join(found, " ")
}

const inlineRules = `
rules:
  - {name: a, key: ip, limits: [1/s], inline: true, match: 'path startsWith "/api/"'}
  - {name: b, key: ip, limits: [1/s]}
  - {name: c, key: [user, path], limits: [1/s], inline: {}, cost: 'len(query) - 5'}
  - {name: d, key: tenant, limits: [1/s], inline: {also: log}, match: 'int(query) > -1'}
allow:
  - {user: [root], rules: [c]}
  - {ip: [10.0.0.0/8]}
  - {ip: [192.0.2.0/24], match: 'path == "/api/free" and status < 400'}
`

func TestInlineHits(t *testing.T) {
	set := mustParse(t, inlineRules)
	judge := set.NewJudge()
	tests := []struct {
		name                    string
		change                  func(*request.Request)
		inline, of, log, reason string
	}{
		{"all", func(*request.Request) {},
			"a=203.0.113.7×1 c=alice /api/orders/17×1 d=t×1", "a=203.0.113.7×1 c=alice /api/orders/17×1 d=t×1",
			"b=203.0.113.7×1 d=t×1 a:inline c:inline", "counted"},
		{"no match", func(r *request.Request) { r.Path = "/x" },
			"c=alice /x×1 d=t×1", "a=203.0.113.7×1 c=alice /x×1 d=t×1", "b=203.0.113.7×1 d=t×1 a:inline c:inline", "match"},
		{"no key", func(r *request.Request) { r.IP = netip.Addr{} },
			"c=alice /api/orders/17×1 d=t×1", "a:key c=alice /api/orders/17×1 d=t×1", "d=t×1 a:inline b:key c:inline", "key"},
		{"no cost", func(r *request.Request) { r.Query = "12345" },
			"a=203.0.113.7×1 d=t×1", "a=203.0.113.7×1 c:cost d=t×1", "b=203.0.113.7×1 d=t×1 a:inline c:inline", "counted"},
		{"a match that fails", func(r *request.Request) { r.Query = "word99" },
			"a=203.0.113.7×1 c=alice /api/orders/17×1", "a=203.0.113.7×1 c=alice /api/orders/17×1 d=t×1", "b=203.0.113.7×1 a:inline c:inline d:expression", "counted"},
		{"one rule allowed", func(r *request.Request) { r.User = "root" },
			"a=203.0.113.7×1 d=t×1", "a=203.0.113.7×1 c:allowed d=t×1", "b=203.0.113.7×1 d=t×1 a:inline c:inline", "counted"},
		{"all allowed", func(r *request.Request) { r.IP = netip.MustParseAddr("10.1.2.3") },
			"", "a:allowed c:allowed d:allowed", "a:inline b:allowed c:inline d:allowed", "allowed"},
		// Before the response, a condition on it allows nothing, although the status 0 is below 400.
		{"allowed by the response", func(r *request.Request) {
			r.IP, r.Path, r.Status = netip.MustParseAddr("192.0.2.1"), "/api/free", 0
		},
			"a=192.0.2.1×1 c=alice /api/free×1 d=t×1", "a=192.0.2.1×1 c=alice /api/free×1 d=t×1", "a:inline b:allowed c:inline d:allowed", "counted"},
	}
	for _, test := range tests {
		r := sample()
		r.Query, r.Fields = "123456", []request.Field{{Name: "tenant", Value: "t"}}
		test.change(r)
		if got := foundInline(judge, set, r); got != test.inline {
			t.Errorf("%s, inline:\n%s\nwant\n%s", test.name, got, test.inline)
		}
		if got := judge.Outcome(0).String(); got != test.reason {
			t.Errorf("%s: the outcome is %s, want %s", test.name, got, test.reason)
		}
		var named []string
		for i, one := range set.Rules {
			if !one.Inline {
				continue
			}
			if hit, reason := judge.HitOf(i, r); reason == rule.Counted {
				named = append(named, fmt.Sprintf("%s=%s×%d", set.Rules[hit.Rule].Name, hit.Key, hit.Cost))
			} else {
				named = append(named, one.Name+":"+reason.String())
			}
		}
		if got := strings.Join(named, " "); got != test.of {
			t.Errorf("%s, by name:\n%s\nwant\n%s", test.name, got, test.of)
		}
		if got := judged(judge, set, r); got != test.log {
			t.Errorf("%s, from the log:\n%s\nwant\n%s", test.name, got, test.log)
		}
	}
	// The match that fails was asked by Inline and by Hits.
	if counts := judge.Counts(3); counts[rule.Failed] != 2 || judge.Counts(0)[rule.Inline] != int64(len(tests)) {
		t.Errorf("%v, %v", counts, judge.Counts(0))
	}
}

// A judge of the same rules, none of them inline, finds the same hits.
func TestInlineModel(t *testing.T) {
	const rules = `
  - {name: a, key: ip, limits: [1/s], INLINE, match: 'path startsWith "/a"'}
  - {name: b, key: ip, limits: [1/s], match: 'path != "/b"'}
  - {name: c, key: [user, path], limits: [1/s], cost: 'len(agent) / 2', INLINE}
  - {name: d, key: tenant, limits: [1/s], INLINE, match: 'int(query) > 2'}
  - {name: e, key: [ip/24, host], limits: [1/s], INLINE, match: 'not (method == "GET" and path == "/b")', cost: 'int(query)'}
`
	const allows = `
allow:
  - {user: [root], rules: [c, d]}
  - {ip: [10.0.0.0/8]}
  - {match: 'path == "/b" and int(query) == 3', rules: e}
`
	texts := map[string]string{"inline": "inline: true", "twin": "inline: false"}
	sets := map[string]*rule.Set{}
	for name, with := range texts {
		sets[name] = mustParse(t, "rules:"+strings.ReplaceAll(rules, "INLINE", with)+allows)
	}
	// The second twin has no match, as an application that names the rule.
	var named strings.Builder
	for line := range strings.Lines("rules:" + strings.ReplaceAll(rules, "INLINE", "inline: false")) {
		if before, rest, ok := strings.Cut(line, ", match: '"); ok {
			_, after, _ := strings.Cut(rest, "'")
			line = before + after
		}
		named.WriteString(line)
	}
	byName := mustParse(t, named.String()+allows)

	judge, twin, twinByName := sets["inline"].NewJudge(), sets["twin"].NewJudge(), byName.NewJudge()
	words := func(all ...string) func(int) string { return func(n int) string { return all[n%len(all)] } }
	paths, users, queries, ips := words("/a", "/b", "/c", ""), words("", "alice", "root"), words("", "1", "3", "x", "77"), words("10.0.0.1", "192.0.2.1", "::1")
	compared := 0
	for n := range 4 * 3 * 5 * 3 * 2 {
		r := &request.Request{Path: paths(n), User: users(n / 4), Query: queries(n / 12), IP: netip.MustParseAddr(ips(n / 60)), Host: "h", Method: "GET", Bytes: -1}
		if n >= 180 {
			r.Method, r.Agent, r.Fields = "POST", "agent", []request.Field{{Name: "tenant", Value: "t"}}
		}
		want := slices.DeleteFunc(slices.Clone(twin.Hits(r)), func(h rule.Hit) bool { return h.Rule == 1 })
		if got := judge.Inline(r); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%+v: %v, want %v", r, got, want)
		}
		compared += len(want)
		wantNamed := twinByName.Hits(r)
		for i := range sets["inline"].Rules {
			if i == 1 {
				continue
			}
			hit, reason := judge.HitOf(i, r)
			if reason != twinByName.Outcome(i) {
				t.Fatalf("%+v: rule %d: %s, want %s", r, i, reason, twinByName.Outcome(i))
			}
			if at := slices.IndexFunc(wantNamed, func(h rule.Hit) bool { return h.Rule == i }); at >= 0 && fmt.Sprint(hit) != fmt.Sprint(wantNamed[at]) {
				t.Fatalf("%+v: rule %d: %v, want %v", r, i, hit, wantNamed[at])
			}
		}
		// From the log only the rule that is not inline counts.
		for _, hit := range judge.Hits(r) {
			if hit.Rule != 1 {
				t.Fatalf("%+v: the log counts %v", r, hit)
			}
		}
	}
	if compared < 200 {
		t.Errorf("only %d hits were compared", compared)
	}
}

func TestInlineAllocatesNothing(t *testing.T) {
	set := mustParse(t, `
rules:
  - {name: a, key: ip, limits: [1/s], inline: true, match: 'path startsWith "/api/"'}
  - {name: b, key: [user, path, host], limits: [1/s], inline: true, cost: 'max(1, len(query))'}
  - {name: c, key: ip, limits: [1/s]}
allow:
  - {ip: 10.0.0.0/8}
  - {match: 'agent startsWith "kube-probe/" and status == 200'}
`)
	judge, r := set.NewJudge(), sample()
	r.Path = "/api/" + strings.Repeat("é", 300)
	if hits := judge.Inline(r); len(hits) != 2 {
		t.Fatalf("%v", hits)
	}
	if n := testing.AllocsPerRun(200, func() { judge.Inline(r) }); n > 0 {
		t.Errorf("Inline: %v allocations", n)
	}
	if n := testing.AllocsPerRun(200, func() { judge.HitOf(1, r) }); n > 0 {
		t.Errorf("HitOf: %v allocations", n)
	}
}

func TestInlineChangesTheFingerprint(t *testing.T) {
	seen := map[string]string{}
	for _, words := range []string{"", ", inline: true", ", inline: {also: log}"} {
		got := mustParse(t, "rules: [{name: a, key: ip, limits: [1/s]"+words+"}]").Fingerprint()
		if other, twice := seen[got]; twice {
			t.Errorf("%q has the fingerprint of %q", words, other)
		}
		seen[got] = words
	}
	for _, words := range []string{", inline: false", ", inline: {}", ", inline: {also: log}"} {
		if _, known := seen[mustParse(t, "rules: [{name: a, key: ip, limits: [1/s]"+words+"}]").Fingerprint()]; !known {
			t.Errorf("%q has another fingerprint than the same in other words", words)
		}
	}
	// Algorithms that are only tried decide nothing, and so parts with and without them have the same rules.
	if _, known := seen[mustParse(t, "rules: [{name: a, key: ip, limits: [1/s], inline: true, try: [token, fixed]}]").Fingerprint()]; !known {
		t.Error("try changes the fingerprint")
	}
	// As it would be without inline rules.
	if got, want := mustParse(t, fingerprinted).Fingerprint(), "f724a9afc83cf1e3"; got != want {
		t.Errorf("a set without inline rules has the fingerprint %s, not %s", got, want)
	}
}

func TestInlinePolicy(t *testing.T) {
	for _, words := range []string{"inline: true", "inline: true, algorithm: token, cost: 'len(query)'",
		"inline: {also: log}, block: {until: clear, then: [1h]}", "inline: true, remember: exact, limits: [6000/hour]"} {
		text := "rules: [{name: a, key: ip, " + words
		if !strings.Contains(words, "limits") {
			text += ", limits: [2/s]"
		}
		policy, err := mustParse(t, text+"}]").Rules[0].InlinePolicy()
		if err != nil {
			t.Fatalf("%s: %v", words, err)
		}
		// An attempt may cost more than 1, also where the rule has no cost of its own.
		var state window.State
		if got := policy.Hit(&state, 1_700_000_000_000, 2).Event; got != window.Counted {
			t.Errorf("%s: two hits at once: %v", words, got)
		}
		// It is one attempt, not several requests that are judged one by one.
		if got := policy.Hit(&state, 1_700_000_100_000, 9000); got.Event != window.Broke || got.Count < 9000 {
			t.Errorf("%s: 9000 hits at once: %+v", words, got)
		}
	}
}

// In shadow mode, and with further addresses that are spared, the rules are inline as before.
func TestCopiesOfASetStayInline(t *testing.T) {
	set := mustParse(t, inlineRules)
	r := sample()
	for name, other := range map[string]*rule.Set{"shadowed": set.Shadowed(), "sparing": set.Sparing(nil)} {
		if got, want := foundInline(other.NewJudge(), other, r), foundInline(set.NewJudge(), set, r); got != want || got == "" {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// A collector reads nothing for inline rules, and asks for none of their fields.
func TestInlineRulesReadNothing(t *testing.T) {
	const text = "rules: [{name: a, key: tenant, limits: [1/s], inline: true, match: 'agent != \"\"'}, {name: b, key: user, limits: [1/s], inline: {also: log}}]"
	if got := fmt.Sprint(mustParse(t, text).Reads()); got != "[user]" {
		t.Errorf("%s is read", got)
	}
	if got := fmt.Sprint(mustParse(t, text).Asks()); got != "[{user [b]}]" {
		t.Errorf("%s is asked", got)
	}
}
