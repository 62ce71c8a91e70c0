//go:build linux

package nftables

import (
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"weir/pkg/blocklist"
	"weir/pkg/enforcer/cidr"
)

// many returns that many addresses, three quarters of IPv4, and /64 of IPv6.
func many(count int) []cidr.Block {
	until := time.Now().Add(time.Hour).UnixMilli()
	blocks := make([]cidr.Block, count)
	for i := range blocks {
		prefix := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 32)
		if i%4 == 0 {
			prefix = netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 1, 0x0d, 0xb8, 0, byte(i >> 16), byte(i >> 8), byte(i)}), 64)
		}
		blocks[i] = cidr.Block{Prefix: prefix, Until: until}
	}
	return cidr.Disjoint(blocks)
}

// kept returns an Agent with these blocks that the benchmark drives itself.
func kept(b *testing.B, blocks []cidr.Block) (*Agent, *kernel) {
	b.Helper()
	needKernel(b)
	t, err := openKernel()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := t.remove(); err != nil {
			b.Error(err)
		}
		t.close()
	})
	a := New(Config{Logger: slog.New(slog.DiscardHandler)})
	a.want = blocks
	return a, t.(*kernel)
}

func BenchmarkFillingWith100000(b *testing.B) {
	a, k := kept(b, many(100_000))
	for b.Loop() {
		if err := k.remove(); err != nil {
			b.Fatal(err)
		}
		a.known = false
		if err := a.settle(k); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReading100000(b *testing.B) {
	a, k := kept(b, many(100_000))
	if err := a.settle(k); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if blocks, intact, err := k.read(); err != nil || !intact || len(blocks) != 100_000 {
			b.Fatalf("%d %v %v", len(blocks), intact, err)
		}
	}
}

// One address more and one less among 100,000.
func BenchmarkAChangeAmong100000(b *testing.B) {
	before := many(100_000)
	one := cidr.Block{Prefix: netip.MustParsePrefix("203.0.113.7/32"), Until: blocklist.Never}
	after := cidr.Disjoint(append([]cidr.Block{one}, before...))
	a, k := kept(b, before)
	if err := a.settle(k); err != nil {
		b.Fatal(err)
	}
	for i := 0; b.Loop(); i++ {
		a.want = after
		if i%2 == 1 {
			a.want = before
		}
		if err := a.settle(k); err != nil {
			b.Fatal(err)
		}
	}
}
