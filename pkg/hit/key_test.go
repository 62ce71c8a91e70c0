package hit

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
)

// packed returns the bytes of a key, and what is read from them.
func packed(key string) (b []byte, read string, ok bool) {
	b = appendPair(nil, 0, []byte(key))
	c := newCursor(b)
	text, _ := c.key(c.Unsigned(), []byte("before"))
	return b, string(text), !c.Failed && len(c.Left) == 0
}

func TestFormsOfKeys(t *testing.T) {
	for key, size := range map[string]int{
		"":                    2,
		"alice":               7,
		"0.0.0.0":             5,
		"203.0.113.7":         5,
		"255.255.255.255":     5,
		"203.0.113.0/24":      5,
		"10.0.0.0/8":          3,
		"0.0.0.0/0":           2,
		"203.0.113.7/32":      6,
		"1:2:3:4:5:6:7:8":     17,
		"2001:db8::1:2:3:4":   17,
		"2001:db8:1::/64":     10,
		"2001:db8:1:200::/56": 9,
		"::/0":                2,
		"2001:db8::1:2/128":   18,

		// Shorter as they are.
		"::":             4,
		"::1":            5,
		"2001:db8::1":    13,
		"1:2:3:4:5:6::8": 16,

		// Not what netip prints: as they are.
		"203.0.113.07":       14,
		"203.0.113":          11,
		"203.0.113.7.":       14,
		".203.0.113.7":       14,
		"203..113.7":         12,
		"203.0.113.256":      15,
		"1.2.3.4.5":          11,
		"203.0.113.7/24":     16, // bits beyond the prefix
		"203.0.113.0/33":     16,
		"203.0.113.0/":       14,
		"203.0.113.0/024":    17,
		"2001:DB8::1":        13,
		"2001:db8::0:1":      15,
		"2001:0db8::1":       14,
		"2001:db8:0:0:0:0::": 20,
		"2001:db8::1::2":     16,
		"::1%eth0":           10,
		"::ffff:203.0.113.7": 20,
		"::ffff:cb00:7107":   18, // the same, and netip prints it otherwise
		"1:2:3:4:5:6:7":      15,
		"1:2:3:4:5:6:7:8:9":  19,
		"1:2:3:4:5:6:7:8::":  19,
		":::":                5,
		":":                  3,
		"12345::":            9,
		"2001:db8::/129":     16,
		"2001:db8::1/64":     16,
		"203.0.113.7 /login": 20,
		"1.2.3.4/2.3":        13,
	} {
		b, read, ok := packed(key)
		if !ok || read != key {
			t.Errorf("%q is read as %q", key, read)
		}
		if len(b) != size {
			t.Errorf("%q takes %d bytes, want %d", key, len(b), size)
		}
	}
}

func TestKeysComeBackByteForByte(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		key := randomKey(r)
		if _, read, ok := packed(key); !ok || read != key {
			t.Fatalf("%q is read as %q", key, read)
		}
	}
}

// randomKey returns an address or prefix, often with one byte changed.
func randomKey(r *rand.Rand) string {
	ip := netip.AddrFrom4([4]byte{byte(r.Uint32()), byte(r.Uint32() & 3), byte(r.Uint32()), byte(r.Uint32() & 15)})
	if r.IntN(2) == 0 {
		var b [16]byte
		for n := range b {
			b[n] = byte(r.Uint32()) & byte(r.Uint32()) & byte(-(r.Uint32() & 1))
		}
		ip = netip.AddrFrom16(b)
	}
	key := ip.AppendTo(nil)
	if r.IntN(2) == 0 {
		prefix, _ := ip.Prefix(r.IntN(ip.BitLen() + 1))
		key = prefix.AppendTo(nil)
	}
	if r.IntN(3) == 0 {
		key[r.IntN(len(key))] = "0123456789abcdefA:./%"[r.IntN(21)]
	}
	return string(key)
}

func TestEveryAddressThatNetipPrintsIsPacked(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 50_000 {
		var b [16]byte
		for n := range b {
			b[n] = byte(r.Uint32()) * byte(r.Uint32()&1)
		}
		b[0], b[15] = 0x20, 0x30
		b[7], b[9] = b[7]|1, b[9]|1
		v6, v4 := netip.AddrFrom16(b), netip.AddrFrom4([4]byte(b[:]))
		if len(v6.String()) < 16 {
			continue
		}
		prefix, _ := v6.Prefix(64)
		for want, key := range map[int]string{17: v6.String(), 5: v4.String(), 10: prefix.String()} {
			if got := len(appendPair(nil, 0, []byte(key))); got != want {
				t.Fatalf("%q takes %d bytes, want %d", key, got, want)
			}
		}
	}
}

func TestTextOfEveryOctet(t *testing.T) {
	for n := range 256 {
		want := fmt.Sprintf("%d.0.%d.%d", n, 255-n, n)
		ip, ok := parseIPv4([]byte(want))
		if got := appendIPv4([]byte("x"), ip); !ok || !bytes.Equal(got, []byte("x"+want)) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
