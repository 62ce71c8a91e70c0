package cidr

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// refused is the slow twin: it asks every block about one address.
func refused(address netip.Addr, blocks []Block) (until int64, is bool) {
	for _, b := range blocks {
		if b.Prefix.Masked().Contains(address) && (!is || b.Until > until) {
			until, is = b.Until, true
		}
	}
	return until, is
}

// universe returns 64 addresses, at the end of IPv4 or of IPv6.
func universe(six bool) []netip.Addr {
	address := netip.MustParseAddr("255.255.255.192")
	if six {
		address = netip.MustParseAddr("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffc0")
	}
	var all []netip.Addr
	for ; address.IsValid(); address = address.Next() {
		all = append(all, address)
	}
	return all
}

func randomPrefix(random *rand.Rand, of []netip.Addr) netip.Prefix {
	address := of[random.IntN(len(of))]
	return netip.PrefixFrom(address, address.BitLen()-random.IntN(8)).Masked()
}

func TestDisjointAgreesWithItsTwin(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 20_000 {
		addresses := universe(round%2 == 0)
		blocks := make([]Block, random.IntN(12))
		for i := range blocks {
			blocks[i] = Block{randomPrefix(random, addresses), int64(random.IntN(4) - 1), "a"}
		}
		carved := Disjoint(blocks)
		if err := compare(addresses, carved, blocks); err != nil {
			t.Fatalf("%v\nblocks %v\ngot %v", err, blocks, carved)
		}
	}
}

func compare(addresses []netip.Addr, carved, blocks []Block) error {
	for i := range carved {
		if i > 0 && (Compare(carved[i-1], carved[i]) >= 0 || carved[i-1].Prefix.Overlaps(carved[i].Prefix)) {
			return fmt.Errorf("%v and %v are not sorted, or overlap", carved[i-1], carved[i])
		}
	}
	for _, address := range addresses {
		until, is := refused(address, blocks)
		got, found := refused(address, carved)
		if is != found || until != got {
			return fmt.Errorf("%s: %v until %d, its twin says %v until %d", address, found, got, is, until)
		}
	}
	return nil
}

// Applying Diff to one list gives the other.
func TestDiffLeadsFromOneListToTheOther(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	addresses := universe(false)
	for range 5_000 {
		lists := [2][]Block{}
		for i := range lists {
			blocks := make([]Block, random.IntN(8))
			for j := range blocks {
				blocks[j] = Block{randomPrefix(random, addresses), int64(random.IntN(3)), "a"}
			}
			lists[i] = Disjoint(blocks)
		}
		gone, come, changed := Diff(lists[0], lists[1])
		held := map[netip.Prefix]Block{}
		for _, b := range lists[0] {
			held[b.Prefix] = b
		}
		for _, b := range gone {
			if _, is := held[b.Prefix]; !is {
				t.Fatalf("%v is gone and was not there", b)
			}
			delete(held, b.Prefix)
		}
		for _, b := range come {
			if _, is := held[b.Prefix]; is {
				t.Fatalf("%v comes and was there", b)
			}
			held[b.Prefix] = b
		}
		for _, b := range changed {
			if before, is := held[b.Prefix]; !is || before == b {
				t.Fatalf("%v is changed and was %v", b, before)
			}
			held[b.Prefix] = b
		}
		for _, b := range lists[1] {
			if held[b.Prefix] != b {
				t.Fatalf("%v is %v", b, held[b.Prefix])
			}
		}
		if len(held) != len(lists[1]) {
			t.Fatalf("%d are left, %d wanted", len(held), len(lists[1]))
		}
	}
}

// The order of the blocks changes nothing.
func TestDisjointDoesNotDependOnTheOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	addresses := universe(false)
	for range 2_000 {
		blocks := make([]Block, random.IntN(12))
		for i := range blocks {
			blocks[i] = Block{randomPrefix(random, addresses), int64(random.IntN(3)), fmt.Sprint("rule ", random.IntN(3))}
		}
		before := Disjoint(blocks)
		random.Shuffle(len(blocks), func(i, j int) { blocks[i], blocks[j] = blocks[j], blocks[i] })
		if after := Disjoint(blocks); !slices.Equal(before, after) {
			t.Fatalf("%v and %v of %v", before, after, blocks)
		}
	}
}

// million returns a million blocks: addresses, /24, /16 and /64, nested and with different ends.
func million() []Block {
	random := rand.New(rand.NewPCG(7, 8))
	blocks := make([]Block, 1_000_000)
	for i := range blocks {
		bits := []int{32, 32, 32, 32, 32, 32, 24, 16}[random.IntN(8)]
		address := netip.AddrFrom4([4]byte{byte(random.IntN(224)), byte(random.IntN(256)), byte(random.IntN(256)), byte(random.IntN(256))})
		if i%4 == 0 {
			address, bits = netip.AddrFrom16([16]byte{0x20, 1, 0x0d, byte(random.IntN(256)), byte(random.IntN(256)), byte(random.IntN(256)), byte(random.IntN(256))}), 64
		}
		blocks[i] = Block{netip.PrefixFrom(address, bits).Masked(), random.Int64N(1 << 40), "a"}
	}
	return blocks
}

func TestAMillionBlocksTakeSecondsAndNotHours(t *testing.T) {
	blocks := million()
	begin := time.Now()
	carved := Disjoint(blocks)
	took := time.Since(begin)
	if took > 2*time.Minute || len(carved) < len(blocks)/2 || len(carved) > 30*len(blocks) {
		t.Errorf("%d blocks became %d prefixes in %v", len(blocks), len(carved), took)
	}
	t.Logf("%d blocks became %d prefixes in %v", len(blocks), len(carved), took)
}

// The worst nesting: each block within another that ends before it.
func TestADeepNestLeavesAPrefixABit(t *testing.T) {
	var blocks []Block
	for bits := range 129 {
		blocks = append(blocks, Block{netip.PrefixFrom(netip.IPv6Unspecified(), bits), int64(bits), "a"})
	}
	if got := Disjoint(blocks); len(got) != 129 {
		t.Errorf("%d prefixes of 129 nested ones", len(got))
	}
}
