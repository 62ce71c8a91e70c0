package cidr

import (
	"weir/pkg/blocklist"
	"weir/pkg/enforcer/outright"
	"weir/pkg/rule"
)

// Refused are the addresses that a list refuses outright, made disjoint. The rules may be nil.
func Refused(list outright.List, rules *rule.Set, nowMilli int64) []Block {
	var blocks []Block
	for one := range outright.All(list, rules, nowMilli) {
		if one.Scope == outright.IP {
			blocks = append(blocks, Block{Prefix: one.Prefix, Until: one.Entry.Until, Rule: one.Entry.Rule})
		}
	}
	return Disjoint(blocks)
}

// NextEnd is when the first allow or pause ends, of orders and of the rules, so that more is refused although the list does not
// change; blocklist.Never when none does.
func NextEnd(list outright.List, rules *rule.Set, nowMilli int64) int64 {
	next := int64(blocklist.Never)
	for order := range list.Orders(nowMilli) {
		if order.Kind != blocklist.OrderBlock {
			next = min(next, order.Until)
		}
	}
	if rules == nil {
		return next
	}
	for _, allow := range rules.Allows {
		if until := allow.Until.UnixMilli(); !allow.Until.IsZero() && until > nowMilli {
			next = min(next, until)
		}
	}
	return next
}
