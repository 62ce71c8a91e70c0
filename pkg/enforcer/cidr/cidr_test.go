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
	for _, test := range []struct{ name, blocks, want string }{
		{"nothing", "", ""},
		{"sorted, IPv4 first", "2001:db8::/64 10.0.0.2/32 10.0.0.1/32", "10.0.0.1/32/9/a 10.0.0.2/32/9/a 2001:db8::/64/9/a"},
		{"neighbours stay two", "10.0.0.0/25 10.0.0.128/25", "10.0.0.0/25/9/a 10.0.0.128/25/9/a"},
		{"within another", "10.0.0.0/24 10.0.0.1/32", "10.0.0.0/24/9/a"},
		{"within another, longer", "10.0.0.0/30 10.0.0.1/32=20", "10.0.0.0/32/9/a 10.0.0.1/32/20/a 10.0.0.2/31/9/a"},
		{"twice", "10.0.0.1/32 10.0.0.1/32=20 10.0.0.1/32=5", "10.0.0.1/32/20/a"},
		{"IPv4 within IPv6", "::ffff:10.0.0.1/128", "10.0.0.1/32/9/a"},
		{"bits beyond the length", "10.0.0.1/24", "10.0.0.0/24/9/a"},
		{"for ever", "10.0.0.1/32=9223372036854775807 10.0.0.0/31", "10.0.0.0/32/9/a 10.0.0.1/32/9223372036854775807/a"},
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
		if got := show(Disjoint(blocks)); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

func TestPrefixesThatAreNotValidAreLeftOut(t *testing.T) {
	if got := Disjoint([]Block{{Until: 9}}); len(got) != 0 {
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
func (l *listed) Whole() bool                             { return true }
func (l *listed) Edits() uint64                           { return 0 }

func TestRefusedAreTheAddressesWithoutTheAllowedOnes(t *testing.T) {
	byHand := func(field, value string, until int64) *blocklist.Entry {
		return &blocklist.Entry{Rule: "manual", Source: blocklist.Manual, Fields: map[string]string{field: value}, Until: until}
	}
	list := &listed{
		entries: []*blocklist.Entry{byHand("ip", "203.0.113.7", 20), byHand("user", "alice", 20), byHand("ip", "198.51.100.0/30", 30), byHand("ip", "198.51.100.0", 20)},
		orders:  []*blocklist.Order{{Kind: blocklist.OrderAllow, Scope: "ip", Value: "198.51.100.1", From: 1, Until: 100}},
	}
	const want = "198.51.100.0/32/30/manual 198.51.100.2/31/30/manual 203.0.113.7/32/20/manual"
	if got := show(Refused(list, nil, 10)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
