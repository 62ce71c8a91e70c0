package outright_test

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"weir/internal/address"
	"weir/pkg/blocklist"
	"weir/pkg/enforcer/outright"
	"weir/pkg/rule"
)

const now = 1_800_000_000_000

// A list is a list for tests.
type list struct {
	entries []*blocklist.Entry
	orders  []*blocklist.Order
	edits   uint64
}

func (l *list) All(int64) iter.Seq[*blocklist.Entry]    { return slices.Values(l.entries) }
func (l *list) Orders(int64) iter.Seq[*blocklist.Order] { return slices.Values(l.orders) }
func (l *list) Whole() bool                             { return true }
func (l *list) Edits() uint64                           { return l.edits }

func verdict(name, scope, value string) *blocklist.Entry {
	return &blocklist.Entry{Rule: name, Key: value, Fields: map[string]string{scope: value}}
}

func order(kind blocklist.Kind, scope, value string) *blocklist.Order {
	return &blocklist.Order{Kind: kind, Scope: scope, Value: value, ID: "o"}
}

func rules(t *testing.T, allow string) *rule.Set {
	t.Helper()
	set, _, err := rule.Parse("rules.yaml", []byte(`
rules:
  - {name: per-ip, key: ip, limits: [10/min]}
  - {name: per-net, key: ip/24+56, limits: [10/min]}
  - {name: per-user, key: user, limits: [10/min]}
  - {name: sign-in, key: ip, limits: [10/min], match: path == "/login", block: {covers: match}}
  - {name: trial, key: ip, limits: [10/min], mode: shadow}
  - {name: pair, key: [ip, path], limits: [10/min]}
`+allow))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func given(l *list, set *rule.Set) string {
	var all []string
	for someone := range outright.All(l, set, now) {
		text := fmt.Sprintf("%s:%s", someone.Scope, someone.Value)
		if someone.Scope == outright.IP {
			text = address.Text(someone.Prefix)
		}
		all = append(all, someone.Entry.Rule+" "+text)
	}
	return strings.Join(all, "\n")
}

func TestAll(t *testing.T) {
	shadow := verdict("per-ip", "ip", "203.0.113.8")
	shadow.Mode = blocklist.Shadow
	cut := verdict("per-user", "user", "aaaa…#00")
	both := verdict("pair", "ip", "203.0.113.9")
	both.Fields["path"] = "/x"
	tests := []struct {
		name    string
		entries []*blocklist.Entry
		orders  []*blocklist.Order
		allow   string
		want    string
	}{
		{name: "an address, a prefix, a user, by hand", entries: []*blocklist.Entry{
			verdict("per-ip", "ip", "203.0.113.7"), verdict("per-ip", "ip", "2001:db8:1::/64"), verdict("per-user", "user", "al \"ice\n"),
			order(blocklist.OrderBlock, "ip", "10.0.0.0/8").Entry(), order(blocklist.OrderBlock, "host", "example.org").Entry()},
			want: "per-ip 203.0.113.7\nper-ip 2001:db8:1::/64\nper-user user:al \"ice\n\nmanual 10.0.0.0/8\nmanual host:example.org"},
		{name: "what a list without requests cannot carry", entries: []*blocklist.Entry{
			shadow, cut, both, verdict("sign-in", "ip", "203.0.113.7"), verdict("unknown", "ip", "203.0.113.7"),
			verdict("trial", "ip", "203.0.113.7"), verdict("per-ip", "ip", "nonsense")}},
		{name: "a rule that is paused", entries: []*blocklist.Entry{verdict("per-ip", "ip", "203.0.113.7"), verdict("per-net", "ip", "203.0.113.0/24")},
			orders: []*blocklist.Order{{Kind: blocklist.OrderPause, Rule: "per-ip"}}, want: "per-net 203.0.113.0/24"},
		{name: "all paused", entries: []*blocklist.Entry{verdict("per-ip", "ip", "203.0.113.7")},
			orders: []*blocklist.Order{{Kind: blocklist.OrderPause, Rule: "*"}}},
		{name: "allowed addresses in a prefix", entries: []*blocklist.Entry{verdict("per-net", "ip", "203.0.113.0/24"), verdict("per-ip", "ip", "203.0.113.7")},
			orders: []*blocklist.Order{order(blocklist.OrderAllow, "ip", "203.0.113.64/26"), order(blocklist.OrderAllow, "ip", "203.0.113.7")},
			want: "per-net 203.0.113.0/30\nper-net 203.0.113.4/31\nper-net 203.0.113.6\nper-net 203.0.113.8/29\nper-net 203.0.113.16/28\nper-net 203.0.113.32/27\n" +
				"per-net 203.0.113.128/25"},
		{name: "an allowed prefix around", entries: []*blocklist.Entry{verdict("per-ip", "ip", "203.0.113.7")},
			orders: []*blocklist.Order{order(blocklist.OrderAllow, "ip", "203.0.0.0/16")}},
		{name: "an allowed user, whatever the address", entries: []*blocklist.Entry{verdict("per-user", "user", "alice"), verdict("per-ip", "ip", "203.0.113.7")},
			orders: []*blocklist.Order{order(blocklist.OrderAllow, "user", "alice")}, want: "per-ip 203.0.113.7"},
		{name: "what the rules allow, by hand it is blocked all the same",
			entries: []*blocklist.Entry{verdict("per-net", "ip", "203.0.113.0/24"), verdict("per-user", "user", "alice"), order(blocklist.OrderBlock, "ip", "203.0.113.7").Entry()},
			allow:   "allow:\n  - {ip: 203.0.113.0/25}\n  - {user: alice}\n  - {ip: 203.0.113.128/26, rules: [per-ip]}\n  - {ip: 203.0.113.192/26, match: path == \"/\"}\n",
			want:    "per-net 203.0.113.128/25\nmanual 203.0.113.7"},
	}
	for _, test := range tests {
		if got := given(&list{test.entries, test.orders, 0}, rules(t, test.allow)); got != test.want {
			t.Errorf("%s:\ngot\n%s\nwant\n%s", test.name, got, test.want)
		}
	}
}

func TestAllWithoutRulesGivesBlocksByHand(t *testing.T) {
	l := &list{entries: []*blocklist.Entry{verdict("per-ip", "ip", "203.0.113.7"), order(blocklist.OrderBlock, "ip", "203.0.113.8").Entry()}}
	if got := given(l, nil); got != "manual 203.0.113.8" {
		t.Errorf("got %s", got)
	}
}

func TestWhileNothingIsEnforced(t *testing.T) {
	enforced := false
	l := outright.While(func() bool { return enforced }, &list{entries: []*blocklist.Entry{order(blocklist.OrderBlock, "ip", "203.0.113.8").Entry()}})
	for _, enforced = range []bool{false, true} {
		given := slices.Collect(outright.All(l, nil, now))
		if (len(given) == 1) != enforced {
			t.Errorf("enforced: %v, given %v", enforced, given)
		}
	}
}

func TestAllCanBeLeft(t *testing.T) {
	l := &list{entries: []*blocklist.Entry{verdict("per-ip", "ip", "203.0.113.7"), verdict("per-user", "user", "a")}}
	for range outright.All(l, rules(t, ""), now) {
		break
	}
}

func TestNextEndIsThatOfTheFirstAllowOrPause(t *testing.T) {
	rules, _, err := rule.Parse("rules.yaml", []byte("rules: [{name: per-ip, key: ip, limits: [10/min]}]\n"+
		"allow: [{ip: 10.0.0.0/8, until: 1970-01-01T00:00:00Z}, {ip: 11.0.0.0/8, until: 1970-01-01T00:01:00Z}, {ip: 12.0.0.0/8}]"))
	if err != nil {
		t.Fatal(err)
	}
	order := func(kind blocklist.Kind, until int64) *blocklist.Order {
		return &blocklist.Order{Kind: kind, Until: until}
	}
	none := &list{}
	some := &list{orders: []*blocklist.Order{order(blocklist.OrderBlock, 20), order(blocklist.OrderPause, 40), order(blocklist.OrderAllow, 30), order(blocklist.OrderAllow, blocklist.Never)}}
	for _, test := range []struct {
		list  *list
		rules *rule.Set
		want  int64
	}{{none, nil, blocklist.Never}, {none, rules, 60_000}, {some, nil, 30}, {some, rules, 30}} {
		if got := outright.NextEnd(test.list, test.rules, 10); got != test.want {
			t.Errorf("%d, want %d", got, test.want)
		}
	}
}

// A caller that keeps the refused values must read the list again when enforcement stops, and when it starts again.
func TestEditsAreOthersWhileTheListIsNotEnforced(t *testing.T) {
	enforced, of := true, &list{}
	while := outright.While(func() bool { return enforced }, of)
	before := while.Edits()
	enforced = false
	off := while.Edits()
	of.edits++
	if later := while.Edits(); off == before || later == off || later == before {
		t.Errorf("%d, not enforced %d, edited %d", before, off, later)
	}
}
