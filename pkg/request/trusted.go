package request

import (
	"net/netip"
	"slices"
)

// Overlapping gives the trusted prefixes that share an address with one, the widest first.
func (c *Client) Overlapping(prefix netip.Prefix) (trusted []netip.Prefix) {
	prefix = prefix.Masked()
	for around := range c.trusted.Supernets(prefix) {
		trusted = append(trusted, around)
	}
	for within := range c.trusted.Subnets(prefix) {
		if within != prefix { // Supernets has it
			trusted = append(trusted, within)
		}
	}
	slices.SortFunc(trusted, func(a, b netip.Prefix) int { return a.Bits() - b.Bits() })
	return trusted
}
