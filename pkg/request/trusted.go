package request

import (
	"net/netip"
	"slices"
)

// Overlapping returns the trusted prefixes that share an address with prefix, the widest first.
func (c *Client) Overlapping(prefix netip.Prefix) (trusted []netip.Prefix) {
	prefix = prefix.Masked()
	for around := range c.trusted.Supernets(prefix) {
		trusted = append(trusted, around)
	}
	for within := range c.trusted.Subnets(prefix) {
		if within != prefix { // Supernets returns it too
			trusted = append(trusted, within)
		}
	}
	slices.SortFunc(trusted, func(a, b netip.Prefix) int { return a.Bits() - b.Bits() })
	return trusted
}
