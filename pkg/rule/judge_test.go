package rule_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"weir/pkg/request"
	"weir/pkg/rule"
)

// judged is a judge's result for a request: its hits, or the reasons why there are none.
func judged(j *rule.Judge, set *rule.Set, r *request.Request) string {
	var said []string
	for _, hit := range j.Hits(r) {
		said = append(said, fmt.Sprintf("%s=%s×%d", set.Rules[hit.Rule].Name, hit.Key, hit.Cost))
	}
	for i, rule := range set.Rules {
		if reason := j.Outcome(i); reason.String() != "counted" {
			said = append(said, rule.Name+":"+reason.String())
		}
	}
	return strings.Join(said, " ")
}

func TestHitsAndReasons(t *testing.T) {
	const rules = `
rules:
  - {name: a, key: ip, limits: [1/s], match: 'path startsWith "/api/"'}
  - {name: b, key: [user, path], limits: [1/s], count: served}
  - {name: c, key: user, limits: [1/s], cost: 'bytes / 1024'}
  - {name: d, key: ip, limits: [1/s], match: 'split(path, "/")[int(fields.n)] == "api"'}
allow:
  - {user: [root], rules: [b]}
  - {ip: [10.0.0.0/8]}
`
	set := mustParse(t, rules)
	judge := set.NewJudge()
	tests := []struct {
		name   string
		change func(*request.Request)
		want   string
	}{
		{"all", func(*request.Request) {}, "a=203.0.113.7×1 b=alice /api/orders/17×1 c=alice×120 d=203.0.113.7×1"},
		{"no match", func(r *request.Request) { r.Path = "/x" }, "b=alice /x×1 c=alice×120 a:match d:match"},
		{"no key", func(r *request.Request) { r.User = "" }, "a=203.0.113.7×1 d=203.0.113.7×1 b:key c:key"},
		{"no address", func(r *request.Request) { r.IP = netip.Addr{} }, "b=alice /api/orders/17×1 c=alice×120 a:key d:key"},
		{"refused", func(r *request.Request) { r.Status = 429 }, "a=203.0.113.7×1 c=alice×120 d=203.0.113.7×1 b:refused"},
		{"served, says our mark", func(r *request.Request) {
			r.Status = 429
			r.Fields = append(r.Fields, request.Field{Name: "weir", Value: "ok"})
		}, "a=203.0.113.7×1 b=alice /api/orders/17×1 c=alice×120 d=203.0.113.7×1"},
		{"refused by something else", func(r *request.Request) {
			r.Status = 429
			r.Fields = append(r.Fields, request.Field{Name: "weir", Value: "lease 019e3c2f7d3a5b1c9a4e0d6f8b2c7e15"})
		}, "a=203.0.113.7×1 c=alice×120 d=203.0.113.7×1 b:refused"},
		{"refused, says our mark", func(r *request.Request) {
			r.Fields = append(r.Fields, request.Field{Name: "weir", Value: "refused per-ip"})
		}, "a=203.0.113.7×1 c=alice×120 d=203.0.113.7×1 b:refused"},
		{"no cost", func(r *request.Request) { r.Bytes = 1023 }, "a=203.0.113.7×1 b=alice /api/orders/17×1 d=203.0.113.7×1 c:cost"},
		{"unknown cost", func(r *request.Request) { r.Bytes = -1 }, "a=203.0.113.7×1 b=alice /api/orders/17×1 d=203.0.113.7×1 c:cost"},
		{"too high a cost", func(r *request.Request) { r.Bytes = 1 << 60 }, "a=203.0.113.7×1 b=alice /api/orders/17×1 c=alice×1000000000 d=203.0.113.7×1"},
		{"an expression that fails", func(r *request.Request) { r.Fields = nil }, "a=203.0.113.7×1 b=alice /api/orders/17×1 c=alice×120 d:expression"},
		{"one rule allowed", func(r *request.Request) { r.User = "root" }, "a=203.0.113.7×1 c=root×120 d=203.0.113.7×1 b:allowed"},
		{"all allowed", func(r *request.Request) { r.IP = netip.MustParseAddr("::ffff:10.1.2.3") }, "a:allowed b:allowed c:allowed d:allowed"},
		{"allowed comes before match", func(r *request.Request) { r.IP, r.Path = netip.MustParseAddr("10.1.2.3"), "/x" }, "a:allowed b:allowed c:allowed d:allowed"},
		{"refused comes before key", func(r *request.Request) { r.Status, r.User = 429, "" }, "a=203.0.113.7×1 d=203.0.113.7×1 b:refused c:key"},
		{"key comes before cost", func(r *request.Request) { r.Bytes, r.User = 0, "" }, "a=203.0.113.7×1 d=203.0.113.7×1 b:key c:key"},
	}
	for _, test := range tests {
		r := sample()
		r.Fields = []request.Field{{Name: "n", Value: "1"}}
		test.change(r)
		if got := judged(judge, set, r); got != test.want {
			t.Errorf("%s:\n%s\nwant\n%s", test.name, got, test.want)
		}
	}
	counts := judge.Counts(1)
	if counts[rule.Counted] != 8 || counts[rule.NoKey] != 2 || counts[rule.Refused] != 4 || counts[rule.Allowed] != 3 {
		t.Errorf("%v", counts)
	}
}

func TestCostsAreIntegers(t *testing.T) {
	tests := map[string]int64{
		"1": 1, "7": 7, "2.9": 2, "bytes / 1024": 120, "bytes": 123456, "max(1, bytes / 1e9)": 1, "ceil(bytes / 1024)": 121,
		"bytes / 0": 1_000_000_000, "0 / status - 1": 0, "(bytes - bytes) / (bytes - bytes)": 0, "-bytes": 0, "status == 404 ? 5 : 1": 5,
		"bytes ** 9": 1_000_000_000, `len(path)`: 14, "bytes % (status - 404)": 0,
	}
	for cost, want := range tests {
		set := mustParse(t, "rules: [{name: a, key: ip, limits: [1/s], cost: '"+cost+"'}]")
		var got int64
		for _, hit := range set.NewJudge().Hits(sample()) {
			got = hit.Cost
		}
		if got != want {
			t.Errorf("%s costs %d, want %d", cost, got, want)
		}
	}
}

func TestMatches(t *testing.T) {
	tests := map[string]bool{
		`ip == "203.0.113.7"`:                                  true,
		`inNetwork(ip, "203.0.113.0/24", "10.0.0.0/8")`:        true,
		`inNetwork(ip, "203.0.112.0/24")`:                      false,
		`inNetwork(fields.peer, "2001:db8::/32")`:              true,
		`host endsWith "example.com:443"`:                      false,
		`ip in ["203.0.113.7", ""]`:                            true,
		`inNetwork(fields.none, "::/0")`:                       false,
		`status in [404, 405] and method not in ["POST"]`:      true,
		`status in 400..403`:                                   false,
		`fields.peer startsWith "2001:" and fields.none == ""`: true,
		`fields["peer"] contains "db8"`:                        true,
		`path matches "^/api/[a-z]+/[0-9]+$"`:                  true,
		`lower(agent) contains "mozilla" and len(user) > 3`:    true,
		`any(split(path, "/"), # == "orders")`:                 true,
		`let p = split(path, "/"); len(p) == 4`:                true,
		`host == "shop.example.com"`:                           true,
		`query == "page=2" and referrer endsWith "/"`:          true,
		`not (bytes < 1000) && !(user == "bob")`:               true,
	}
	for match, want := range tests {
		set := mustParse(t, "rules:\n  - name: a\n    key: ip\n    limits: [1/s]\n    match: |\n      "+match+"\n")
		r := sample()
		r.Fields = []request.Field{{Name: "peer", Value: "2001:db8::1"}}
		if got := len(set.NewJudge().Hits(r)) == 1; got != want {
			t.Errorf("%s is %v", match, got)
		}
	}
}

func TestAllows(t *testing.T) {
	at := time.Date(2027, 2, 28, 23, 59, 59, 999e6, time.UTC)
	tests := []struct {
		allow string
		want  bool
	}{
		{`{user: alice}`, true},
		{`{user: Alice}`, false},
		{`{user: [bob, alice]}`, true},
		{`{ip: 203.0.113.7}`, true},
		{`{ip: [203.0.113.8, "2001:db8::/32"]}`, false},
		{`{ip: 203.0.113.0/24, user: bob}`, false},
		{`{ip: 203.0.113.0/24, user: alice, host: SHOP.example.com., match: 'status == 404'}`, true},
		{`{ip: 203.0.113.0/24, match: 'status == 405'}`, false},
		{`{host: [other.example.com, "shop.example.com:80"]}`, true},
		{`{host: example.com}`, false},
		{`{match: 'path startsWith "/api/"'}`, true},
		{`{match: 'int(user) == 5'}`, false},
		{`{user: alice, until: 2027-03-01}`, true},
		{`{user: alice, until: 2027-02-28}`, false},
		{`{user: alice, until: 2027-03-01T01:00:00+01:00}`, true},
		{`{user: alice, until: 2027-02-28T23:59:59.999Z}`, false},
		{`{user: alice, rules: [a]}`, true},
		{`{user: alice, rules: b}`, false},
	}
	for _, test := range tests {
		set := mustParse(t, "rules: [{name: a, key: ip, limits: [1/s]}, {name: b, key: ip, limits: [1/s]}]\nallow: [{user: nobody}, "+test.allow+"]\n")
		r := sample()
		r.UnixMilli = at.UnixMilli()
		judge := set.NewJudge()
		judge.Hits(r)
		if got := judge.Outcome(0) == rule.Allowed; got != test.want || judge.Allowed(0, r) != test.want {
			t.Errorf("%s is %v", test.allow, got)
		}
	}
}

func TestPrefixFilesAllow(t *testing.T) {
	set, _, err := rule.Load("testdata/example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	judge := set.NewJudge()
	for ip, want := range map[string]bool{"192.0.2.10": true, "192.0.2.11": false, "192.0.2.100": true, "2001:db8:ffff:1::1": true, "10.9.9.9": true} {
		r := sample()
		r.IP = netip.MustParseAddr(ip)
		if got := judge.Allowed(0, r); got != want {
			t.Errorf("%s: %v", ip, got)
		}
	}
}

func TestCovers(t *testing.T) {
	const rules = `
rules:
  - {name: all, key: ip, limits: [1/s], match: 'path == "/x"'}
  - {name: match, key: ip, limits: [1/s], match: 'path startsWith "/api/" and status >= 400', block: {covers: match}}
  - {name: not, key: ip, limits: [1/s], match: 'not (status == 200 or path == "/api/orders/17")', block: {covers: match}}
  - {name: response, key: ip, limits: [1/s], match: 'status == 404', block: {covers: match}}
  - {name: either, key: ip, limits: [1/s], match: 'bytes > 5 or path == "/x"', block: {covers: match}}
`
	judge := mustParse(t, rules).NewJudge()
	tests := []struct {
		path string
		want [5]bool
	}{
		{"/api/orders/17", [5]bool{true, true, false, true, true}},
		{"/api/", [5]bool{true, true, true, true, true}},
		{"/other", [5]bool{true, false, true, true, true}},
	}
	for _, test := range tests {
		r := &request.Request{Path: test.path, Bytes: -1}
		for i, want := range test.want {
			if got := judge.Covers(i, r); got != want {
				t.Errorf("rule %d covers %s: %v", i, test.path, got)
			}
		}
	}
}

// TestLongRequestsAreCovered: patterns take milliseconds for a text of 60 KB, so checks do not ask them about one.
func TestLongRequestsAreCovered(t *testing.T) {
	judge := mustParse(t, `
rules:
  - {name: a, key: ip, limits: [1/s], match: 'path matches "(?i)(log[io]n|auth)" and method == "POST"', block: {covers: match}}
`).NewJudge()
	long := strings.Repeat("/.php/;", 600)
	for name, r := range map[string]*request.Request{
		"path": {Path: long[:1025]}, "query": {Query: long}, "host": {Host: long[:1025]}, "agent": {Agent: long}, "referrer": {Referrer: long},
	} {
		if !judge.Covers(0, r) {
			t.Errorf("a long %s is looked at", name)
		}
	}
	if judge.Covers(0, &request.Request{Path: long[:1024], Query: long[:4096], Method: "POST"}) {
		t.Error("a request of usual length is covered, although it does not match")
	}
}

func TestJudgingAllocatesNothing(t *testing.T) {
	for name, text := range map[string]string{"one": oneRule, "five": fiveRules} {
		judge, r := mustParse(t, text).NewJudge(), sample()
		r.Path = "/api/" + strings.Repeat("é", 300)
		judge.Hits(r)
		if n := testing.AllocsPerRun(200, func() { judge.Hits(r) }); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// The keys of all rules stand in one buffer: a later one must not overwrite or change another.
func TestKeysOfOneRequestAreApart(t *testing.T) {
	var text strings.Builder
	text.WriteString("rules:\n")
	for i := range 40 {
		fmt.Fprintf(&text, "  - {name: r%d, key: [path, user], limits: [1/s]}\n", i)
	}
	judge, r := mustParse(t, text.String()).NewJudge(), sample()
	r.Path = "/" + strings.Repeat("x", 200)
	for _, hit := range judge.Hits(r) {
		if want := r.Path + " alice"; string(hit.Key) != want {
			t.Fatalf("rule %d: %s", hit.Rule, hit.Key)
		}
		_ = append(hit.Key, "overwritten"...)
	}
}
