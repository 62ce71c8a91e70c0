package kafka

import (
	"encoding/binary"
	"slices"
	"testing"
)

// headersOf are the bytes of headers: names and values by turns; a nil value is null.
func headersOf(pairs ...[]byte) []byte {
	b := binary.AppendVarint(nil, int64(len(pairs)/2))
	for _, one := range pairs {
		if one == nil {
			b = binary.AppendVarint(b, -1)
			continue
		}
		b = append(binary.AppendVarint(b, int64(len(one))), one...)
	}
	return b
}

func TestHeadersOfARecord(t *testing.T) {
	b := func(s string) []byte { return []byte(s) }
	for _, c := range []struct {
		what    string
		headers []byte
		want    string
		ok      bool
	}{
		{"one", headersOf(b("tenant"), b("shop")), "shop", true},
		{"others", headersOf(b("a"), b("x"), b("tenant"), b("shop"), b("b"), b("y")), "shop", true},
		{"the last of several", headersOf(b("tenant"), b("one"), b("tenant"), b("two")), "two", true},
		{"the last of several is null", headersOf(b("tenant"), b("one"), b("tenant"), nil), "", false},
		{"empty", headersOf(b("tenant"), b("")), "", true},
		{"in other letters", headersOf(b("Tenant"), b("shop")), "", false},
		{"a value that looks like a header", headersOf(b("a"), headersOf(b("tenant"), b("evil"))), "", false},
		{"a name without bytes", headersOf(nil, b("shop")), "", false},
		{"none", headersOf(), "", false},
		{"nothing", nil, "", false},
		{"more than there are", append(binary.AppendVarint(nil, 1<<62), headersOf(b("tenant"), b("shop"))[1:]...), "", false},
		{"as many as are read", headersOf(slices.Repeat([][]byte{b("tenant"), b("shop")}, mostHeaders)...), "shop", true},
		{"more than are read", headersOf(slices.Repeat([][]byte{b("tenant"), b("shop")}, mostHeaders+1)...), "", false},
		{"fewer than none", binary.AppendVarint(nil, -5), "", false},
		{"longer than there is", append(headersOf(b("tenant"), b("shop"))[:8], 0x7e), "", false},
	} {
		if value, ok := Header(c.headers, "tenant"); string(value) != c.want || ok != c.ok {
			t.Errorf("%s: %q, %t, want %q, %t", c.what, value, ok, c.want, c.ok)
		}
	}

	whole := headersOf(b("a"), b("x"), b("tenant"), b("shop"))
	for n := range whole {
		if value, ok := Header(whole[:n], "tenant"); ok {
			t.Errorf("of %d bytes of %d it reads %q", n, len(whole), value)
		}
	}
}
