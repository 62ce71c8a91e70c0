package outright

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/gaissmai/bart"
)

// The result of Subtract contains exactly the addresses that a twin finds by asking for each. The prefixes are disjoint
// and sorted, and no two of them could be one.
func TestSubtractAgreesWithItsTwin(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		base := netip.MustParsePrefix("192.0.2.0/24")
		if random.IntN(2) == 0 {
			base = netip.MustParsePrefix("2001:db8::ff00/120")
		}
		blocked := within(random, base)
		var holes []netip.Prefix
		table := &bart.Lite{}
		for range random.IntN(6) {
			hole := within(random, base)
			holes = append(holes, hole)
			table.Insert(hole)
		}
		compare(t, blocked, holes, Subtract(nil, blocked, table))
	}
}

func within(random *rand.Rand, base netip.Prefix) netip.Prefix {
	bytes := base.Addr().AsSlice()
	bytes[len(bytes)-1] = byte(random.IntN(256))
	address, _ := netip.AddrFromSlice(bytes)
	prefix, _ := address.Prefix(base.Bits() + random.IntN(9))
	return prefix
}

// compare asks for each address of a prefix of at most 256.
func compare(t *testing.T, blocked netip.Prefix, holes, rest []netip.Prefix) {
	t.Helper()
	for address := blocked.Addr(); blocked.Contains(address); address = address.Next() {
		want := !slices.ContainsFunc(holes, func(p netip.Prefix) bool { return p.Contains(address) })
		held := 0
		for _, prefix := range rest {
			if prefix.Contains(address) {
				held++
			}
		}
		if want && held != 1 || !want && held != 0 {
			t.Fatalf("%s without %s is %s: it holds %s %d times", blocked, holes, rest, address, held)
		}
	}
	for i := 1; i < len(rest); i++ {
		before, prefix := rest[i-1], rest[i]
		if !before.Addr().Less(prefix.Addr()) {
			t.Fatalf("%s is out of order", rest)
		}
		if both, _ := before.Addr().Prefix(before.Bits() - 1); before.Bits() == prefix.Bits() && both.Contains(prefix.Addr()) {
			t.Fatalf("%s and %s are %s", before, prefix, both)
		}
	}
}

// A hole of one address in the entire address space costs as many prefixes as an address has bits.
func TestSubtractIsBounded(t *testing.T) {
	table := &bart.Lite{}
	table.Insert(netip.MustParsePrefix("2001:db8::1/128"))
	if rest := Subtract(nil, netip.MustParsePrefix("::/0"), table); len(rest) != 128 {
		t.Errorf("%d prefixes", len(rest))
	}
}

func BenchmarkSubtractNothing(b *testing.B) {
	table := &bart.Lite{}
	table.Insert(netip.MustParsePrefix("10.0.0.0/8"))
	prefix := netip.MustParsePrefix("203.0.113.7/32")
	var rest []netip.Prefix
	for b.Loop() {
		rest = Subtract(rest[:0], prefix, table)
	}
}
