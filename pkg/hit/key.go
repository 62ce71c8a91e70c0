package hit

import (
	"encoding/binary"
	"net/netip"
)

// The forms of a key.
const (
	raw = iota
	ipv4
	ipv4Prefix
	ipv6Prefix
	ipv6

	formBits = 3
)

// appendPair appends a rule's number and a key, packed where its text is exactly that of an address or prefix.
func appendPair(b []byte, rule int, key []byte) []byte {
	number := uint64(rule) << formBits
	if ip, ok := parseIPv4(key); ok {
		b = binary.AppendUvarint(b, number|ipv4)
		return binary.BigEndian.AppendUint32(b, ip)
	}

	// IPv4 addresses, by far the most keys, are done. The other forms take longer to check.
	form, address, length := parseKey(key)
	switch form {
	case ipv6:
		b = binary.AppendUvarint(b, number|form)
		return append(b, address.bytes()...)
	case ipv4Prefix, ipv6Prefix:
		b = binary.AppendUvarint(b, number|form)
		b = append(b, byte(length))
		return append(b, address.bytes()[:(length+7)/8]...)
	}

	b = binary.AppendUvarint(b, number|raw)
	return appendText(b, key)
}

// An address is 4 or 16 bytes. It is no netip.Addr because those are parsed from strings only, and making a
// string of a key would allocate.
type address struct {
	b    [16]byte
	size int
}

func (a *address) bytes() []byte { return a.b[:a.size] }

// parseKey returns the form of a key that is no IPv4 address, and what it says if it is packed.
func parseKey(key []byte) (form uint64, a address, length int) {
	text, length, isPrefix := cutLength(key)
	a, ok := parseAddress(text)
	if !ok || isPrefix && (length > 8*a.size || !masked(a.bytes(), length)) {
		return raw, a, 0
	}
	form, size := formOf(a, length, isPrefix)

	// One address has many texts ("::1", "0:0::1"), and parseIPv6 is lenient. Only the text that a Reader will make
	// again is packed, or two keys would become one.
	var canonical [48]byte
	if size > len(key) || string(appendAddress(canonical[:0], form, a, length)) != string(key) {
		return raw, a, 0
	}
	return form, a, length
}

// formOf returns the form of an address, and how many bytes it takes.
func formOf(a address, length int, isPrefix bool) (form uint64, size int) {
	switch {
	case !isPrefix:
		return ipv6, a.size
	case a.size == 4:
		return ipv4Prefix, 1 + (length+7)/8
	}
	return ipv6Prefix, 1 + (length+7)/8
}

// cutLength splits "ADDRESS/LENGTH". Where there is no length it returns the text as it is.
func cutLength(key []byte) (text []byte, length int, ok bool) {
	for i := max(0, len(key)-4); i < len(key); i++ {
		if key[i] != '/' {
			continue
		}
		length, ok = decimal(key[i+1:], 128)
		if !ok {
			return key, 0, false
		}
		return key[:i], length, true
	}
	return key, 0, false
}

// decimal reads a number of one to three digits without leading zeros.
func decimal(text []byte, most int) (n int, ok bool) {
	if len(text) == 0 || len(text) > 3 || text[0] == '0' && len(text) > 1 {
		return 0, false
	}
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, n <= most
}

func parseAddress(text []byte) (a address, ok bool) {
	ip, ok := parseIPv4(text)
	if !ok {
		return parseIPv6(text)
	}
	a.size = 4
	binary.BigEndian.PutUint32(a.b[:], ip)
	return a, true
}

// parseIPv6 reads groups of hexadecimal digits. It takes more than what is well formed: the caller compares
// the text that the result has.
func parseIPv6(text []byte) (a address, ok bool) {
	a.size = 16
	groups, gap, digits, group := 0, -1, 0, 0
	for i, c := range text {
		if c != ':' {
			digit, ok := hexadecimal(c)
			if !ok || digits == 4 || groups == 8 {
				return a, false
			}
			group, digits = group<<4|digit, digits+1
			continue
		}

		if digits > 0 {
			a.putGroup(groups, group)
			groups, digits, group = groups+1, 0, 0
		}

		// Of two gaps the last counts. Such a text is refused later, because it is not the one that the result has.
		if i > 0 && text[i-1] == ':' {
			gap = groups
		}
	}

	if digits > 0 {
		a.putGroup(groups, group)
		groups++
	}

	if gap >= 0 {
		a.widen(gap, groups)
		return a, groups < 8
	}
	return a, groups == 8
}

func (a *address) putGroup(n, group int) {
	binary.BigEndian.PutUint16(a.b[2*n:], uint16(group))
}

// widen moves the groups behind the gap to the end.
func (a *address) widen(gap, groups int) {
	var tail [16]byte
	n := copy(tail[:], a.b[2*gap:2*groups])
	clear(a.b[2*gap:])
	copy(a.b[16-n:], tail[:n])
}

func hexadecimal(c byte) (int, bool) {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0'), true
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10, true
	}
	return 0, false
}

// masked reports whether all bits beyond the length are zero.
func masked(b []byte, length int) bool {
	for i := range b {
		if b[i]<<min(8, max(0, length-8*i)) != 0 {
			return false
		}
	}
	return true
}

// appendAddress appends the text of a packed key.
func appendAddress(b []byte, form uint64, a address, length int) []byte {
	var ip netip.Addr
	if a.size == 4 {
		ip = netip.AddrFrom4([4]byte(a.b[:4]))
	} else {
		ip = netip.AddrFrom16(a.b)
	}
	if form == ipv4Prefix || form == ipv6Prefix {
		return netip.PrefixFrom(ip, length).AppendTo(b)
	}
	return ip.AppendTo(b)
}

// key reads a key of a form. Texts that are not in the bytes as they are, it appends to written.
func (c *cursor) key(form uint64, written []byte) (key, all []byte) {
	start := len(written)
	switch form {
	case raw:
		return c.text(), written
	case ipv4:
		if b := c.Take(4); b != nil {
			written = appendIPv4(written, binary.BigEndian.Uint32(b))
		}
	case ipv4Prefix, ipv6Prefix, ipv6:
		written = c.address(form, written)
	default:
		c.Fail()
	}

	return written[start:len(written):len(written)], written
}

func (c *cursor) address(form uint64, written []byte) []byte {
	a := address{size: 16}
	if form == ipv4Prefix {
		a.size = 4
	}

	length := 8 * a.size
	if form != ipv6 {
		length = int(c.Byte())
	}

	if length > 8*a.size {
		c.Fail()
		return written
	}

	copy(a.b[:], c.Take(int64(length+7)/8))
	// A Writer leaves bits beyond the length zero. With other bits the same prefix would have several packed forms.
	if !masked(a.bytes(), length) {
		c.Fail()
	}
	return appendAddress(written, form, a, length)
}
