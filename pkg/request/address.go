package request

import (
	"net/netip"
	"strings"

	plain "weir/internal/address"
)

// parseAddress reads an IP address as servers write it: bare, with a port (192.0.2.1:80, [2001:db8::1]:80), in
// brackets, with a zone (dropped), IPv4 within IPv6 (as IPv4, see internal/address). A text that stands for no address
// ("", "-", "unix:", "@") gives the zero Addr; a name, or anything else, gives false.
func parseAddress(s string) (netip.Addr, bool) {
	address, rest, ok := leadingIPv4(s)
	if ok && (rest == "" || isPort(rest)) {
		return address, true
	}
	if s == "" || s == "-" || s == "@" || strings.HasPrefix(s, "unix:") {
		return netip.Addr{}, true
	}

	if s[0] == '[' {
		inner, port, closed := strings.Cut(s[1:], "]")
		if !closed || port != "" && !isPort(port) {
			return netip.Addr{}, false
		}
		s = inner
	}

	if percent := strings.IndexByte(s, '%'); percent >= 0 {
		s = s[:percent]
	}

	// netip allocates an error for each text that it cannot read, so names are recognized before.
	if strings.IndexByte(s, ':') < 0 || !isAddressText(s) {
		return netip.Addr{}, false
	}
	ip, err := netip.ParseAddr(s)
	return plain.Plain(ip), err == nil
}

// parseAddressPort reads an address that always has a port, also where IPv6 stands without brackets.
func parseAddressPort(s string) (netip.Addr, bool) {
	colon := strings.LastIndexByte(s, ':')
	if colon < 0 || s[0] == '[' || strings.HasPrefix(s, "unix:") || !isPort(s[colon:]) {
		return parseAddress(s)
	}
	return parseAddress(s[:colon])
}

// leadingIPv4 reads the address at the start of s and returns the text after it.
func leadingIPv4(s string) (address netip.Addr, rest string, ok bool) {
	var octets [4]byte
	i := 0
	for n := range octets {
		if n > 0 {
			if i >= len(s) || s[i] != '.' {
				return address, s, false
			}
			i++
		}

		start, value := i, 0
		for i < len(s) && i < start+3 && s[i]-'0' <= 9 {
			value = value*10 + int(s[i]-'0')
			i++
		}

		// A leading zero is refused, as everywhere: some programs read 010 as eight, so that one text would mean two
		// clients.
		if i == start || value > 255 || s[start] == '0' && i > start+1 {
			return address, s, false
		}
		octets[n] = byte(value)
	}

	return netip.AddrFrom4(octets), s[i:], true
}

// isAddressText reports whether s has only the characters of addresses.
func isAddressText(s string) bool {
	for i := 0; i < len(s); i++ {
		if !isHex(s[i]) && s[i] != ':' && s[i] != '.' {
			return false
		}
	}
	return true
}

// isPort reports whether s is a colon and a port.
func isPort(s string) bool {
	if len(s) < 2 || len(s) > 6 || s[0] != ':' {
		return false
	}
	for i := 1; i < len(s); i++ {
		if s[i]-'0' > 9 {
			return false
		}
	}
	return true
}
