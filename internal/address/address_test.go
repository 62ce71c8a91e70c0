package address

import (
	"net/netip"
	"testing"
)

func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		"203.0.113.7":              "203.0.113.7",
		"::ffff:203.0.113.7":       "203.0.113.7",
		"::ffff:127.0.0.1":         "127.0.0.1",
		"64:ff9b::203.0.113.7":     "203.0.113.7",
		"64:ff9b::cb00:7107":       "203.0.113.7",
		"64:ff9b::cb00:7107%eth0":  "203.0.113.7",
		"::ffff:0:203.0.113.7":     "203.0.113.7",
		"2002:cb00:7107::1":        "203.0.113.7",
		"2002:cb00:7107:1:2:3:4:5": "203.0.113.7",
		"64:ff9b:1::203.0.113.7":   "64:ff9b:1::cb00:7107", // a local prefix: the place of the IPv4 address in it is unknown
		"64:ff9b::1:203.0.113.7":   "64:ff9b::1:cb00:7107",
		"64:ff9b::127.0.0.1":       "64:ff9b::7f00:1",
		"64:ff9b::10.0.0.1":        "64:ff9b::a00:1",
		"64:ff9b::100.64.0.1":      "64:ff9b::6440:1",
		"64:ff9b::0.1.2.3":         "64:ff9b::1:203",
		"64:ff9b::255.255.255.255": "64:ff9b::ffff:ffff",
		"2002:7f00:1::1":           "2002:7f00:1::1",
		"2002:c0a8:1::1":           "2002:c0a8:1::1",
		"2002:e000:1::1":           "2002:e000:1::1",
		"2001:db8::7":              "2001:db8::7",
		"fe80::1%eth0":             "fe80::1",
		"::1":                      "::1",
	} {
		if got := Plain(netip.MustParseAddr(text)); got != netip.MustParseAddr(want) {
			t.Errorf("%s is counted by %s, want %s", text, got, want)
		}
	}
	if got := Plain(netip.Addr{}); got.IsValid() {
		t.Errorf("no address is counted by %s", got)
	}
}

func TestPlainPrefix(t *testing.T) {
	for text, want := range map[string]string{
		"203.0.113.0/24":            "203.0.113.0/24",
		"::ffff:203.0.113.0/120":    "203.0.113.0/24",
		"::ffff:0.0.0.0/96":         "0.0.0.0/0",
		"64:ff9b::203.0.113.0/120":  "203.0.113.0/24",
		"64:ff9b::203.0.113.7/128":  "203.0.113.7/32",
		"64:ff9b::/96":              "64:ff9b::/96",
		"64:ff9b::10.0.0.0/104":     "64:ff9b::a00:0/104",
		"2002:cb00:7107::/48":       "203.0.113.7/32",
		"2002:cb00:7107:1::/64":     "203.0.113.7/32",
		"2002:cb00:7100::/40":       "203.0.113.0/24",
		"2002::/16":                 "2002::/16",
		"2001:db8::/32":             "2001:db8::/32",
		"::/0":                      "::/0",
		"::ffff:203.0.113.9/120":    "203.0.113.0/24",
		"::ffff:0:203.0.113.0/120":  "203.0.113.0/24",
		"64:ff9b::203.0.113.99/120": "203.0.113.0/24",
	} {
		if got := PlainPrefix(netip.MustParsePrefix(text)); got != netip.MustParsePrefix(want) {
			t.Errorf("%s is counted by %s, want %s", text, got, want)
		}
	}
}

// Every address of a prefix is counted by an address of the prefix that PlainPrefix returns.
func TestPlainPrefixHoldsItsAddresses(t *testing.T) {
	for _, text := range []string{"64:ff9b::203.0.113.0/120", "2002:cb00:7100::/40", "2002:cb00:7107:1::/64", "::ffff:10.0.0.0/104"} {
		prefix := netip.MustParsePrefix(text)
		b := prefix.Addr().As16()
		for last := range 256 {
			b[15] = byte(last)
			ip := netip.AddrFrom16(b)
			if prefix.Contains(ip) && !PlainPrefix(prefix).Contains(Plain(ip)) {
				t.Fatalf("%s holds %s, %s does not hold %s", prefix, ip, PlainPrefix(prefix), Plain(ip))
			}
		}
	}
}

func TestPlainAllocatesNothing(t *testing.T) {
	for _, text := range []string{"203.0.113.7", "64:ff9b::203.0.113.7", "2001:db8::7", "2002:cb00:7107::1"} {
		ip := netip.MustParseAddr(text)
		if n := testing.AllocsPerRun(100, func() { Plain(ip) }); n != 0 {
			t.Errorf("%s: %v allocations", text, n)
		}
	}
}

func TestParseAndText(t *testing.T) {
	for text, want := range map[string]string{
		"203.0.113.7":            "203.0.113.7",
		"203.0.113.7/32":         "203.0.113.7",
		"203.0.113.9/24":         "203.0.113.0/24",
		"::ffff:203.0.113.7":     "203.0.113.7",
		"::ffff:203.0.113.0/120": "203.0.113.0/24",
		"2001:db8::1/64":         "2001:db8::/64",
		"fe80::1%eth0":           "fe80::1",
	} {
		if prefix, err := Parse(text); err != nil || Text(prefix) != want {
			t.Errorf("%s: %v, %v, want %s", text, prefix, err, want)
		}
	}
	for _, text := range []string{"", "alice", "203.0.113.7/33", "/24", "fe80::1%eth0/64"} {
		if prefix, err := Parse(text); err == nil || prefix.IsValid() {
			t.Errorf("%q is read as %v", text, prefix)
		}
	}
}
