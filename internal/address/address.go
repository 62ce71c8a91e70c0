// Package address finds the one address that a client is counted by, for every form of it that logs and sockets show.
//
// Translators write an IPv4 client as an IPv6 address. All clients behind one translator then share a /64, and one of
// them could have the others blocked. So an IPv6 address that carries an IPv4 address is counted as that:
//
//   - ::ffff:a.b.c.d (IPv4-mapped, how sockets show IPv4): always
//   - 64:ff9b::a.b.c.d (NAT64 and SIIT, RFC 6052)
//   - ::ffff:0:a.b.c.d (IPv4-translated, RFC 7915)
//   - 2002:aabb:ccdd::/48 (6to4, RFC 3056)
//
// The last three apply only to a public IPv4 address. No translator writes a private or loopback address that way, and
// a sender must not turn into 127.0.0.1 or 10.0.0.1, which an allow entry or client.trusted_proxies may name. The
// package allocates nothing, except Text and errors.
package address

import (
	"net/netip"
	"strings"
)

var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
	translated = netip.MustParsePrefix("::ffff:0:0:0/96")
	sixToFour  = netip.MustParsePrefix("2002::/16")
	shared     = netip.MustParsePrefix("100.64.0.0/10") // RFC 6598, for carriers
	thisHost   = netip.MustParsePrefix("0.0.0.0/8")
	reserved   = netip.MustParsePrefix("240.0.0.0/4")
)

// Plain returns the address that ip is counted by: without a zone, and IPv4 where ip carries one. The zero Addr stays.
func Plain(ip netip.Addr) netip.Addr {
	ip = ip.Unmap()
	if !ip.Is6() {
		return ip
	}
	if carried, ok := carries(ip); ok {
		return carried
	}
	return ip.WithZone("")
}

// PlainPrefix returns the prefix of the addresses that the addresses in p are counted by, masked. A prefix that is
// wider than one form of an IPv4 address stays as it is.
func PlainPrefix(p netip.Prefix) netip.Prefix {
	ip, bits := p.Addr(), p.Bits()
	if !ip.Is6() {
		return p.Masked()
	}

	switch {
	case ip.Is4In6() && bits >= 96:
		return netip.PrefixFrom(ip.Unmap(), bits-96).Masked()
	case (nat64.Contains(ip) || translated.Contains(ip)) && bits > 96:
		bits -= 96
	case sixToFour.Contains(ip) && bits > 16:
		bits = min(bits-16, 32)
	default:
		return p.Masked()
	}

	// Checked by the first address only. Below 8 bits a prefix has public addresses and others, so it stays as it is.
	carried, ok := carries(p.Masked().Addr())
	if !ok || bits < 8 {
		return p.Masked()
	}
	return netip.PrefixFrom(carried, bits).Masked()
}

// Parse reads an address or a prefix, in the form that clients are counted by. An address becomes a prefix of one address.
func Parse(text string) (netip.Prefix, error) {
	if strings.IndexByte(text, '/') >= 0 {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return netip.Prefix{}, err
		}
		return PlainPrefix(prefix), nil
	}

	ip, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, err
	}
	ip = Plain(ip)
	return netip.PrefixFrom(ip, ip.BitLen()), nil
}

// Append appends a prefix as keys have it: a single address without its length.
func Append(b []byte, p netip.Prefix) []byte {
	if p.IsSingleIP() {
		return p.Addr().AppendTo(b)
	}
	return p.AppendTo(b)
}

// Text returns a prefix in the form of Append.
func Text(p netip.Prefix) string { return string(Append(nil, p)) }

// carries returns the public IPv4 address within an IPv6 address.
func carries(ip netip.Addr) (carried netip.Addr, ok bool) {
	b := ip.As16()
	switch {
	case b[0] == 0x20 && b[1] == 0x02:
		carried = netip.AddrFrom4([4]byte(b[2:6]))
	case nat64.Contains(ip.WithZone("")), translated.Contains(ip.WithZone("")):
		carried = netip.AddrFrom4([4]byte(b[12:16]))
	default:
		return carried, false
	}
	return carried, carried.IsGlobalUnicast() && !carried.IsPrivate() && !shared.Contains(carried) && !thisHost.Contains(carried) && !reserved.Contains(carried)
}
