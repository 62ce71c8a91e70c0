package rule_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"weir/pkg/geoip"
	"weir/pkg/request"
	"weir/pkg/rule"
	"weir/pkg/window"
)

const groupRules = `
rules:
  - {name: per-ip, key: ip, limits: [10/min]}
  - {name: logins, key: ip, limits: [5/min], mode: shadow}
  - {name: per-user, key: user, limits: [10/min]}
  - {name: per-net, key: ip/24+56, limits: [100/min]}
  - {name: sprays, on: blocked, key: ip/24+48, distinct: ip, limits: [5/10min], mode: enforce}
  - {name: sprays-shadow, on: blocked, key: ip/20+32, distinct: ip, limits: [5/10min], match: 'rule != "logins" or inNetwork(ip, "198.51.100.0/24")'}
allow:
  - {ip: 192.0.2.77, note: a partner}
  - {ip: 198.51.100.9, rules: [sprays], until: 2026-01-01}
`

func TestBlocksAreHitsOfGroupRules(t *testing.T) {
	set := mustParse(t, groupRules)
	j := set.NewJudge()
	for _, test := range []struct {
		rule, key string
		shadow    bool
		want      string
	}{
		{"per-ip", "203.0.113.7", false, "sprays 203.0.113.0/24 203.0.113.7, sprays-shadow 203.0.112.0/20 203.0.113.7"},
		{"per-ip", "203.0.113.7", true, "sprays-shadow 203.0.112.0/20 203.0.113.7"},
		{"per-ip", "2001:db8:1:2::/64", false, "sprays 2001:db8:1::/48 2001:db8:1:2::/64, sprays-shadow 2001:db8::/32 2001:db8:1:2::/64"},
		{"logins", "203.0.113.7", true, ""},
		{"logins", "198.51.100.7", true, "sprays-shadow 198.51.96.0/20 198.51.100.7"},
		{"per-ip", "192.0.2.1", false, ""},
		{"per-ip", "198.51.100.7", false, "sprays 198.51.100.0/24 198.51.100.7, sprays-shadow 198.51.96.0/20 198.51.100.7"},
		{"per-user", "alice", false, ""},
		{"per-net", "203.0.113.0/24", false, ""},
		{"per-net", "2001:db8:1::/56", false, ""},
		{"sprays", "203.0.113.0/24", false, ""},
	} {
		of, _ := set.Rule(test.rule)
		var got []string
		for _, h := range j.Blocks(&rule.BlockOf{Rule: of, Key: test.key, ID: "6dbd0922c11bbcc6e81f3a90", From: 1_780_000_000_000, Shadow: test.shadow}) {
			got = append(got, fmt.Sprintf("%s %s %s", set.Rules[h.Rule].Name, h.Key, rule.MemberText(h.Value)))
			if h.ID != 0x6dbd0922c11bbcc6>>3 {
				t.Errorf("the id is %x", h.ID)
			}
		}
		if got := strings.Join(got, ", "); got != test.want {
			t.Errorf("%s %s: %q, want %q", test.rule, test.key, got, test.want)
		}
	}
	// In 2025 the allow entry was still there.
	of, _ := set.Rule("per-ip")
	if hits := j.Blocks(&rule.BlockOf{Rule: of, Key: "198.51.100.7", ID: "00", From: 1_760_000_000_000}); len(hits) != 1 {
		t.Errorf("with an allowed address: %+v", hits)
	}
}

// A network is left alone if an allow entry names an address in it, wherever it does.
func TestNetworksWithAnAllowedAddress(t *testing.T) {
	for _, test := range []struct {
		entry   string
		allowed bool
	}{
		{"{ip: 203.0.113.9}", true},
		{"{ip: 203.0.113.9, host: a.example}", true},
		{"{ip: 203.0.114.9}", false},
		{`{match: 'inNetwork(ip, "198.51.100.0/24", "203.0.113.128/25")'}`, true},
		{`{match: 'path == "/health" and (agent == "probe" or ip == "203.0.113.9")'}`, true},
		{`{match: '"203.0.113.9" == ip'}`, true},
		{`{match: 'ip in ["203.0.113.9", "192.0.2.1"]', user: mon}`, true},
		{`{match: 'not not inNetwork(ip, "203.0.0.0/16")'}`, true},
		{`{match: 'inNetwork(ip, "203.0.114.0/24")'}`, false},
		{`{match: 'path == "/health" and not inNetwork(ip, "203.0.113.128/25")'}`, false},
		{`{match: 'path == "/health" and ip != "203.0.113.9"'}`, false},
		{`{match: 'path == "/health"'}`, false},
	} {
		set := mustParse(t, "rules: [{name: per-ip, key: ip, limits: [10/min]}, {name: sprays, on: blocked, key: ip/24+48, distinct: ip, limits: [5/10min]}]\nallow:\n  - "+test.entry)
		hits := set.NewJudge().Blocks(&rule.BlockOf{Rule: set.Rules[0], Key: "203.0.113.7", ID: "00", From: 1_780_000_000_000})
		if allowed := len(hits) == 0; allowed != test.allowed {
			t.Errorf("with %s, the network is allowed: %t", test.entry, allowed)
		}
	}
}

// The autonomous system of an address is that of the databases, in the key and in the match, and never a field of a log. One
// with an allowed address is left alone.
func TestBlocksCountByAutonomousSystem(t *testing.T) {
	set := mustParse(t, `rules:
  - {name: per-ip, key: ip, limits: [10/min]}
  - {name: both, key: [user, ip], limits: [10/min]}
  - {name: providers, on: blocked, key: asn, distinct: ip, limits: [5/10min], match: 'asn not in [64502] and country != "NL"'}
allow:
  - {ip: [192.0.2.64/28, "2001:db8:5::7"], note: partners}
  - {ip: 203.0.113.9, until: 2026-01-01}
  - {ip: 203.0.113.8, rules: [per-ip]}
  - {match: 'as_name == "A"', note: no address}
`)
	located := set.Located(geoip.Join(database(t, entries{"203.0.113.0/24": {ASN: 64500, Name: "A"}, "198.51.100.0/24": {ASN: 64500}, "198.18.0.0/24": {ASN: 64501}, "198.18.1.0/24": {ASN: 64502},
		"198.18.2.0/24": {ASN: 64503, Country: "NL"}, "192.0.2.0/26": {ASN: 64504}, "192.0.2.64/26": {ASN: 64505}, "198.18.5.0/24": {ASN: 64505}, "2001:db8::/48": {ASN: 64501}, "2001:db8:5::/48": {ASN: 64506}})))
	j := located.NewJudge()
	for _, test := range []struct {
		rule, key string
		year      int64 // since 2025
		want      string
	}{
		{"per-ip", "203.0.113.7", 1, "64500"},
		{"per-ip", "203.0.113.7", 0, ""},
		{"per-ip", "198.51.100.7", 1, "64500"},
		{"per-ip", "198.51.100.7", 0, ""}, // another prefix of the same system has the allowed address
		{"both", "alice 203.0.113.7", 1, "64500"},
		{"per-ip", "198.18.0.7", 1, "64501"},
		{"per-ip", "2001:db8:0:7::/64", 1, "64501"},
		{"per-ip", "2001:db8:5:7::/64", 1, ""},
		{"per-ip", "198.18.1.7", 1, ""},
		{"per-ip", "198.18.2.7", 1, ""},
		{"per-ip", "192.0.2.1", 1, "64504"},
		{"per-ip", "192.0.2.99", 1, ""},
		{"per-ip", "198.18.5.1", 1, ""},
		{"per-ip", "100.64.0.1", 1, ""},
	} {
		of, _ := set.Rule(test.rule)
		got := ""
		for _, h := range j.Blocks(&rule.BlockOf{Rule: of, Key: test.key, ID: "6dbd0922c11bbcc6e81f3a90", From: 1_750_000_000_000 + test.year*31_536_000_000, Shadow: true}) {
			got += string(h.Key)
		}
		if got != test.want {
			t.Errorf("%s in %d: %q, want %q", test.key, 2025+test.year, got, test.want)
		}
	}

	watching := located.NewJudge()
	watching.WatchNetworks()
	logged := []request.Field{{Name: "asn", Value: "7"}}
	for ip, want := range map[string]string{"203.0.113.7": "64500", "100.64.0.1": ""} {
		got := ""
		for _, h := range watching.Hits(&request.Request{IP: netip.MustParseAddr(ip), UnixMilli: 1_790_000_000_000, Fields: logged}) {
			if h.Rule == 2 && rule.MemberText(h.Value) == ip {
				got = string(h.Key)
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", ip, got, want)
		}
	}
	without := mustParse(t, "rules: [{name: per-ip, key: ip, limits: [1/s]}, {name: providers, on: blocked, key: asn, distinct: ip, limits: [5/10min]}]")
	if hits := without.NewJudge().Blocks(&rule.BlockOf{Rule: without.Rules[0], Key: "203.0.113.7", ID: "00"}); len(hits) != 0 {
		t.Errorf("without a database: %+v", hits)
	}
	if set.Unlocated() == nil || without.Unlocated() != nil || without.Located(located.Databases()).Fingerprint() == without.Fingerprint() {
		t.Error("the database is no part of the rules")
	}
}

// A rule above another one gets what that passes on, and no block itself. Its match and its networks are those of the address.
func TestRulesAboveOthers(t *testing.T) {
	set := mustParse(t, `rules:
  - {name: per-ip, key: ip, limits: [10/min]}
  - {name: sprays, on: blocked, key: ip/24+48, distinct: ip, limits: [5/10min]}
  - {name: wide, on: blocked, above: sprays, key: ip/16+32, distinct: ip, limits: [9/10min], match: 'not inNetwork(ip, "198.18.0.0/16")'}
  - {name: providers, on: blocked, above: wide, key: asn, distinct: ip, limits: [20/10min]}
  - {name: others, on: blocked, above: sprays, key: ip/20+40, distinct: ip, limits: [9/10min]}
allow: [{ip: 192.0.2.7, until: 2026-01-01}]`)
	set = set.Located(geoip.Join(database(t, entries{"203.0.113.0/24": {ASN: 64500}, "2001:db8::/32": {ASN: 64501}})))
	j := set.NewJudge()
	said := func(hits []rule.GroupHit) string {
		var all []string
		for _, h := range hits {
			all = append(all, fmt.Sprintf("%s %s %s %x", set.Rules[h.Rule].Name, h.Key, rule.MemberText(h.Value), h.ID))
		}
		return strings.Join(all, ", ")
	}
	const now = 1_780_000_000_000
	if got := said(j.Blocks(&rule.BlockOf{Rule: set.Rules[0], Key: "203.0.113.7", ID: "0000000000000008", From: now, Shadow: true})); got != "sprays 203.0.113.0/24 203.0.113.7 1" {
		t.Error(got)
	}
	if got := j.Blocks(&rule.BlockOf{Rule: set.Rules[0], Key: "203.0.113.7", ID: "ffffffffffffffff", From: now, Shadow: true}); got[0].ID >= window.MemberEnd-1 {
		t.Errorf("the id is %x", got[0].ID)
	}
	for _, test := range []struct {
		below int
		value uint64
		at    int64
		want  string
	}{
		{1, 0xcb007107, now, "wide 203.0.0.0/16 203.0.113.7 2000000000000001, others 203.0.112.0/20 203.0.113.7 2000000000000001"},
		{2, 0xcb007107, now, "providers 64500 203.0.113.7 2000000000000001"},
		{2, 0x20010db800010002, now, "providers 64501 2001:db8:1:2::/64 2000000000000001"},
		{1, 0x20010db800010002, now, "wide 2001:db8::/32 2001:db8:1:2::/64 2000000000000001, others 2001:db8::/40 2001:db8:1:2::/64 2000000000000001"},
		{1, 0xc6120001, now, "others 198.18.0.0/20 198.18.0.1 2000000000000001"},
		{1, 0xc0000201, now, "wide 192.0.0.0/16 192.0.2.1 2000000000000001, others 192.0.0.0/20 192.0.2.1 2000000000000001"},
		{1, 0xc0000201, 1_760_000_000_000, ""}, // an address is allowed
		{2, 0xc0000201, now, ""},               // no database knows it
		{3, 0xcb007107, now, ""},
		{0, 0xcb007107, now, ""},
	} {
		if got := said(j.Above(set.Rules[test.below], window.MemberBlock{At: test.at, Value: test.value, ID: window.MemberEnd | 1})); got != test.want {
			t.Errorf("%s passes on %x: %q, want %q", set.Rules[test.below].Name, test.value, got, test.want)
		}
	}

	without := mustParse(t, "rules: [{name: per-ip, key: ip, limits: [10/min]}, {name: sprays, on: blocked, key: ip/24+48, distinct: ip, limits: [5/10min]}, {name: wide, on: blocked, key: ip/16+32, distinct: ip, limits: [9/10min]}]")
	with := mustParse(t, "rules: [{name: per-ip, key: ip, limits: [10/min]}, {name: sprays, on: blocked, key: ip/24+48, distinct: ip, limits: [5/10min]}, {name: wide, on: blocked, above: sprays, key: ip/16+32, distinct: ip, limits: [9/10min]}]")
	if with.Fingerprint() == without.Fingerprint() || with.Rules[2].ValuesOf() == without.Rules[2].ValuesOf() || with.Rules[1].ValuesOf() != without.Rules[1].ValuesOf() {
		t.Error("a rule above another one counts what another one does")
	}
	if !with.Rules[1].PassesOn() || with.Rules[2].PassesOn() || without.Rules[1].PassesOn() {
		t.Error("the wrong rules pass on")
	}
}

func TestGroupRules(t *testing.T) {
	set := mustParse(t, "rules: [{name: per-ip, key: ip, limits: [10/min]}, {name: sprays, on: blocked, key: ip/24+48, distinct: ip, limits: [5/10min, 1/s]}]")
	r := set.Rules[1]
	if r.Mode != rule.Shadow || r.CountsLog() || !r.CountsBlocks() || !set.CountsBlocks() || r.Evidence != 0 {
		t.Errorf("%+v", r)
	}
	if got := r.Limits[0].Text + "; " + r.Limits[1].Text; got != "5 blocked addresses within 10 minutes; 1 blocked address within a second" {
		t.Error(got)
	}
	counted := set.Counted()
	if !counted.Rules[1].CountsLog() || counted.Fingerprint() != set.Fingerprint() {
		t.Error("aggregators do not count it")
	}
	if policy, err := counted.Rules[1].Policy(0, 0); err != nil || !policy.CountsMembers() {
		t.Error(err)
	}
	without := mustParse(t, "rules: [{name: per-ip, key: ip, limits: [10/min]}, {name: sprays, key: ip/24+48, distinct: user, limits: [5/10min, 1/s], mode: shadow}]")
	if r.ValuesOf() == without.Rules[1].ValuesOf() || set.Fingerprint() == without.Fingerprint() {
		t.Error("blocks are counted as requests are")
	}
	from := &request.Request{IP: netip.MustParseAddr("203.0.113.7")}
	if hits := set.NewJudge().Hits(from); len(hits) != 1 {
		t.Errorf("a request is %d hits", len(hits))
	}
	watching := set.NewJudge()
	watching.WatchNetworks()
	hits := watching.Hits(from)
	if len(hits) != 2 || string(hits[1].Key) != "203.0.113.0/24" || rule.MemberText(hits[1].Value) != "203.0.113.7" {
		t.Errorf("%+v", hits)
	}
}

func TestWrongGroupRules(t *testing.T) {
	for _, test := range []struct{ words, want string }{
		{"on: refused, key: ip/24+48, distinct: ip", `"refused" is no thing to count`},
		{"on: blocked, key: ip/24+48", "counts blocks, and does not say of what"},
		{"on: blocked, key: ip/24+48, distinct: user", "counts addresses"},
		{"on: blocked, key: user, distinct: ip", "is a network"},
		{"on: blocked, key: [ip/24+48, host], distinct: ip", "is a network"},
		{"on: blocked, key: [asn, host], distinct: ip", "is a network"},
		{"on: blocked, key: ip/16+32, distinct: ip, above: c", "there is no rule c with on: blocked"},
		{"on: blocked, key: ip/16+32, distinct: ip, above: a", "there is no rule a with on: blocked"},
		{"on: blocked, key: ip/24+48, distinct: ip, above: b", "the networks of b, ip/24+48, are not narrower than ip/24+48"},
		{"on: blocked, key: ip/16+48, distinct: ip, above: sprays, mode: enforce", "the rule sprays refuses no one"},
		{"on: blocked, key: ip/20+56, distinct: ip, above: sprays", "are not narrower than ip/20+56"},
		{"on: blocked, key: ip/16+32, distinct: ip, above: sprays, match: rule == \"a\"", "the match of a rule with above reads rule"},
		{"on: blocked, key: ip/16+32, distinct: ip, above: ''", "above names no rule"},
		{"key: ip, above: sprays", "only a rule with on: blocked is above another one"},
		{"on: blocked, key: as_name, distinct: ip", "write the network to block, such as ip/24+48 or asn"},
		{"on: blocked, key: asn, distinct: ip, match: 'fields.asn == \"1\"'", "reads asn, which a block does not have"},
		{"on: blocked, key: ip, distinct: ip", "has one address"},
		{"on: blocked, key: ip/24, distinct: ip", "has one address"},
		{"on: blocked, key: ip/15+48, distinct: ip", "too wide"},
		{"on: blocked, key: ip/24+31, distinct: ip", "too wide"},
		{"on: blocked, key: ip/24+48, distinct: ip, match: 'path == \"/\"'", "reads path, which a block does not have"},
		{"on: blocked, key: ip/24+48, distinct: ip, match: 'fields.rule == \"a\"'", "reads rule, which a block does not have"},
		{"on: blocked, key: ip/24+48, distinct: ip, count: served", "count is for rules that count requests"},
		{"on: blocked, key: ip/24+48, distinct: ip, evidence: 5", "evidence is for rules that count requests"},
		{"on: blocked, key: ip/24+48, distinct: ip, cost: '2'", "a value counts once"},
		{"on: blocked, key: ip/24+48, distinct: ip, inline: true", "inline"},
		{"on: blocked, key: ip/24+48, distinct: ip, algorithm: token", "not by token"},
		{"on: blocked, key: ip/24+48, distinct: ip, block: {extend: true}", "extend: true"},
		{"on: blocked, key: ip/24+48, distinct: ip, match: 'rule == \"a\"', block: {covers: match}", "is not about requests"},
	} {
		_, _, err := rule.Parse("rules.yaml", []byte("rules: [{name: a, key: ip, limits: [1/s]}, {name: sprays, on: blocked, key: ip/24+48, distinct: ip, limits: [5/10min]}, {name: b, limits: [5/10min], "+test.words+"}]"))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.words, err, test.want)
		}
	}
}

// A group rule that counts the blocks of no rule blocks nothing, and check says so.
func TestAGroupRuleThatCountsNoBlocks(t *testing.T) {
	for rules, want := range map[string]string{
		"{name: per-ip, key: ip, limits: [10/min]}":                                                         "",
		"{name: per-ip, key: [user, ip/24+64], limits: [10/min], match: status == 200}":                     "",
		"{name: per-ip, key: ip, limits: [10/min], inline: true, block: {after: 3, within: 1m}}":            "",
		"{name: per-ip, key: ip, limits: [10/min], mode: shadow}, {name: other, key: ip, limits: [20/min]}": "have its match let one of these through: other",
		"{name: per-ip, key: ip, limits: [10/min], mode: shadow}":                                           "it enforces, and those by address are in shadow mode",
		"{name: per-ips, key: ip, limits: [10/min]}":                                                        "have its match let one of these through: per-ips",
		"{name: per-ip, key: ip, limits: [10/min], inline: true}":                                           "write a rule with key: ip, whose blocks it counts",
		"{name: per-ip, key: ip/24+56, limits: [10/min]}, {name: u, key: path, limits: [10/min]}":           "write a rule with key: ip, whose blocks it counts",
	} {
		_, warnings, err := rule.Parse("rules.yaml", []byte(`rules: [`+rules+`,
  {name: sprays, on: blocked, key: ip/24+56, distinct: ip, limits: [5/10min], mode: enforce, match: 'rule in ["per-ip", "logins"] and not inNetwork(ip, "192.0.2.0/24")'},
  {name: wide, on: blocked, above: sprays, key: ip/16+48, distinct: ip, limits: [9/10min], mode: enforce}]`))
		got := fmt.Sprint(warnings)
		if err != nil || strings.Contains(got, "counts the blocks of no rule") != (want != "") || !strings.Contains(got, want) {
			t.Errorf("%s: %v, %v, want %q", rules, err, got, want)
		}
	}
}
