package cidr

import (
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"weir/pkg/blocklist"
)

func show(blocks []Block) string {
	var words []string
	for _, b := range blocks {
		words = append(words, fmt.Sprintf("%s/%d/%s", b.Prefix, b.Until, b.Rule))
	}
	return strings.Join(words, " ")
}

func TestDisjoint(t *testing.T) {
	for _, test := range []struct{ name, blocks, allowed, want string }{
		{"nothing", "", "", ""},
		{"sorted, IPv4 first", "2001:db8::/64 10.0.0.2/32 10.0.0.1/32", "", "10.0.0.1/32/9/a 10.0.0.2/32/9/a 2001:db8::/64/9/a"},
		{"neighbours stay two", "10.0.0.0/25 10.0.0.128/25", "", "10.0.0.0/25/9/a 10.0.0.128/25/9/a"},
		{"within another", "10.0.0.0/24 10.0.0.1/32", "", "10.0.0.0/24/9/a"},
		{"within another, longer", "10.0.0.0/30 10.0.0.1/32=20", "", "10.0.0.0/32/9/a 10.0.0.1/32/20/a 10.0.0.2/31/9/a"},
		{"twice", "10.0.0.1/32 10.0.0.1/32=20 10.0.0.1/32=5", "", "10.0.0.1/32/20/a"},
		{"allowed", "10.0.0.1/32 10.0.0.2/32", "10.0.0.1/32", "10.0.0.2/32/9/a"},
		{"allowed around", "10.0.0.1/32", "10.0.0.0/8", ""},
		{"a hole", "10.0.0.0/30", "10.0.0.1/32", "10.0.0.0/32/9/a 10.0.0.2/31/9/a"},
		{"all but one", "0.0.0.0/0", "128.0.0.0/1", "0.0.0.0/1/9/a"},
		{"a blocked one in an allowed one in a blocked one", "10.0.0.0/30 10.0.0.0/32", "10.0.0.0/31", "10.0.0.2/31/9/a"},
		{"IPv4 within IPv6", "::ffff:10.0.0.1/128", "", "10.0.0.1/32/9/a"},
		{"bits beyond the length", "10.0.0.1/24", "", "10.0.0.0/24/9/a"},
		{"for ever", "10.0.0.1/32=9223372036854775807 10.0.0.0/31", "", "10.0.0.0/32/9/a 10.0.0.1/32/9223372036854775807/a"},
	} {
		var blocks []Block
		for _, word := range strings.Fields(test.blocks) {
			text, until, _ := strings.Cut(word, "=")
			b := Block{Prefix: netip.MustParsePrefix(text), Until: 9, Rule: "a"}
			if until != "" {
				if _, err := fmt.Sscan(until, &b.Until); err != nil {
					t.Fatal(err)
				}
			}
			blocks = append(blocks, b)
		}
		var allowed []netip.Prefix
		for _, word := range strings.Fields(test.allowed) {
			allowed = append(allowed, netip.MustParsePrefix(word))
		}
		if got := show(Disjoint(blocks, allowed)); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

func TestPrefixesThatAreNotValidAreLeftOut(t *testing.T) {
	if got := Disjoint([]Block{{Until: 9}}, []netip.Prefix{{}}); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

// listed is a list of a few entries and orders.
type listed struct {
	entries []*blocklist.Entry
	orders  []*blocklist.Order
}

func (l *listed) All(int64) iter.Seq[*blocklist.Entry]    { return slices.Values(l.entries) }
func (l *listed) Orders(int64) iter.Seq[*blocklist.Order] { return slices.Values(l.orders) }

func TestSelect(t *testing.T) {
	ip := func(address string) map[string]string { return map[string]string{"ip": address} }
	list := &listed{entries: []*blocklist.Entry{
		{ID: "1", Rule: "per-ip", Fields: ip("203.0.113.7"), Until: 20},
		{ID: "2", Rule: "per-ip", Fields: ip("2001:db8::/64"), Until: 20},
		{ID: "3", Rule: "per-ip", Fields: ip("203.0.113.8"), Until: 20, Mode: blocklist.Shadow},
		{ID: "4", Rule: "per-ip", Fields: ip("not an address"), Until: 20},
		{ID: "5", Rule: "per-ip", Fields: ip("203.0.113.9"), Until: 20},
		{ID: "6", Rule: "logins", Fields: ip("203.0.113.10"), Until: 20},
		{ID: "7", Rule: "per-user", Fields: map[string]string{"user": "alice"}, Until: 20},
		{ID: "8", Rule: "per-both", Fields: map[string]string{"user": "alice", "ip": "203.0.113.11"}, Until: 20},
		{ID: "9", Rule: "manual", Source: blocklist.Manual, Fields: ip("198.51.100.0/30"), Until: 30},
	}, orders: []*blocklist.Order{
		{Kind: blocklist.OrderAllow, Scope: "ip", Value: "198.51.100.1"},
		{Kind: blocklist.OrderAllow, Scope: "user", Value: "198.51.100.2"},
		{Kind: blocklist.OrderPardon, Rule: "per-ip", Key: "203.0.113.9", Pardons: "5"},
	}}
	covers := func(rule string) bool { return rule != "logins" && rule != "manual" }
	const byHand = "198.51.100.0/32/30/manual 198.51.100.2/31/30/manual"
	for _, test := range []struct{ paused, want string }{
		{"", byHand + " 203.0.113.7/32/20/per-ip 2001:db8::/64/20/per-ip"},
		{"per-ip", byHand},
		{blocklist.EveryRule, ""},
	} {
		of := *list
		if test.paused != "" {
			of.orders = append(slices.Clone(list.orders), &blocklist.Order{Kind: blocklist.OrderPause, Rule: test.paused})
		}
		if got := show(Select(&of, covers, 10)); got != test.want {
			t.Errorf("paused %q: %s, want %s", test.paused, got, test.want)
		}
	}
}

// An enforcer's list is one to select from.
var _ List = (*blocklist.Set)(nil)
