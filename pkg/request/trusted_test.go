package request

import (
	"fmt"
	"net/netip"
	"testing"
)

func TestTrustedProxiesThatAPrefixShares(t *testing.T) {
	c := NewClient([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("192.0.2.1/32"),
		netip.MustParsePrefix("::ffff:198.51.100.0/120"), netip.MustParsePrefix("2001:db8::/32")})
	for prefix, want := range map[string]string{
		"10.1.2.3/32": "[10.0.0.0/8 10.1.0.0/16]", "10.1.0.0/16": "[10.0.0.0/8 10.1.0.0/16]", "0.0.0.0/0": "[10.0.0.0/8 10.1.0.0/16 198.51.100.0/24 192.0.2.1/32]",
		"192.0.2.0/31": "[192.0.2.1/32]", "192.0.2.2/32": "[]", "2001:db8::1/128": "[2001:db8::/32]", "::/0": "[2001:db8::/32]", "11.0.0.0/8": "[]",
	} {
		if got := fmt.Sprint(c.Overlapping(netip.MustParsePrefix(prefix))); got != want {
			t.Errorf("%s: %s, want %s", prefix, got, want)
		}
	}
}
