package haproxy

import (
	"net/netip"
	"strconv"

	"weir/pkg/blocklist"
	"weir/pkg/enforcer/cidr"
)

// lastSecond is what stands for ever: the end of the year 9999.
const lastSecond = 253402300799

// of is what the map says of a block.
func (v Value) of(b cidr.Block) string {
	if v == Rule {
		return b.Rule
	}
	if b.Until == blocklist.Never {
		return strconv.Itoa(lastSecond)
	}
	return strconv.FormatInt(min((b.Until+999)/1000, lastSecond), 10)
}

// entry is a line of the map.
func (v Value) entry(b cidr.Block) string { return text(b.Prefix) + " " + v.of(b) }

func text(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}
