package plain

import (
	"cmp"
	"net/netip"
	"slices"

	"weir/internal/address"
	"weir/pkg/enforcer/cidr"
	"weir/pkg/enforcer/outright"
	"weir/pkg/rule"
)

// A line is one value of a list.
type line struct {
	prefix netip.Prefix // of addresses
	value  string       // of all others, in the form that requests have
	rule   string
	until  int64
}

// lines returns the wanted values, sorted, each once.
func lines(list outright.List, rules *rule.Set, w wanted, nowMilli int64) []line {
	var blocks []cidr.Block
	longest := map[string]line{}
	for one := range outright.All(list, rules, nowMilli) {
		if one.Scope != w.scope || w.rule != "" && one.Entry.Rule != w.rule {
			continue
		}
		next := line{one.Prefix, one.Value, one.Entry.Rule, one.Entry.Until}
		if one.Scope == outright.IP {
			blocks = append(blocks, cidr.Block{Prefix: next.prefix, Until: next.until, Rule: next.rule})
		} else if known, ok := longest[next.value]; !ok || next.outlasts(known) {
			longest[next.value] = next
		}
	}

	all := make([]line, 0, len(blocks)+len(longest))
	for _, b := range cidr.Disjoint(blocks) {
		all = append(all, line{prefix: b.Prefix, until: b.Until, rule: b.Rule})
	}

	for _, one := range longest {
		all = append(all, one)
	}

	// Addresses have no value, so they come first and keep the order of Disjoint.
	slices.SortStableFunc(all, func(a, b line) int { return cmp.Compare(a.value, b.value) })
	return all
}

func (l line) outlasts(other line) bool {
	return l.until > other.until || l.until == other.until && l.rule < other.rule
}

// text returns an address or a prefix.
func (l line) text() string { return address.Text(l.prefix) }
