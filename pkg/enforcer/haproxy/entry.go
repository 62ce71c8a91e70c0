package haproxy

import (
	"strconv"

	"weir/internal/address"
	"weir/pkg/blocklist"
	"weir/pkg/enforcer/cidr"
)

// lastSecond means for ever: the end of the year 9999.
const lastSecond = 253402300799

// of returns the map's value for a block.
func (v Value) of(b cidr.Block) string {
	if v == Rule {
		return b.Rule
	}
	if b.Until == blocklist.Never {
		return strconv.Itoa(lastSecond)
	}
	return strconv.FormatInt(min((b.Until+999)/1000, lastSecond), 10)
}

// entry returns a line of the map.
func (v Value) entry(b cidr.Block) string { return address.Text(b.Prefix) + " " + v.of(b) }
