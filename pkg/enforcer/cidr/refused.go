package cidr

import (
	"weir/pkg/enforcer/outright"
	"weir/pkg/rule"
)

// Refused returns the addresses that a list refuses outright, made disjoint. The rules may be nil.
func Refused(list outright.List, rules *rule.Set, nowMilli int64) []Block {
	var blocks []Block
	for one := range outright.All(list, rules, nowMilli) {
		if one.Scope == outright.IP {
			blocks = append(blocks, Block{Prefix: one.Prefix, Until: one.Entry.Until, Rule: one.Entry.Rule})
		}
	}
	return Disjoint(blocks)
}
