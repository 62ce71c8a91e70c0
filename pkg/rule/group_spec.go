package rule

import (
	"fmt"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"

	"weir/internal/nearest"
	"weir/internal/yamlfile"
	"weir/pkg/geoip"
	"weir/pkg/request"
)

// An onWord is what a rule counts.
type onWord bool

// FromYAML reads blocked.
func (o *onWord) FromYAML(v yamlfile.Value) {
	*o = word(v, "thing to count", []string{"blocked"}) == 0
}

// checkGroup finds what a group rule cannot have.
func (r *ruleSpec) checkGroup(v yamlfile.Value) {
	if !v.Given("on") || v.Key("on").Faulty() {
		if place := v.Key("above"); v.Has("above") && !place.Faulty() {
			place.Faultf("leave it out", "only a rule with on: blocked is above another one")
		}
		return
	}
	if !v.Given("mode") {
		r.Mode = Shadow
	}
	r.Evidence = 0
	if place := v.Key("above"); v.Has("above") && !place.Faulty() && r.Above == "" {
		place.Faultf("name the rule of the narrower networks", "above names no rule")
	}

	if !v.Given("distinct") {
		v.Faultf("write distinct: ip", "%s counts blocks, and does not say of what", r.called())
	} else if d := v.Key("distinct"); !d.Faulty() && !slices.Equal(r.Distinct.Words(), []string{"ip"}) {
		d.Faultf("write distinct: ip", "a rule with on: blocked counts addresses")
	}
	r.checkGroupKey(v)
	if place := v.Key("match"); r.Match.compiled != nil && !place.Faulty() {
		named := namesIn{}
		ast.Walk(&r.Match.compiled.tree, &named)
		for _, name := range named.all {
			if r.Above != "" && name == "rule" {
				place.Faultf("ask for the ip, or its asn, as_name, country or city", "the match of a rule with above reads rule, which what another network leaves does not have")
				break
			}
			if name != "rule" && name != "ip" && !slices.Contains(named.places, name) && slices.Contains(identifiers, name) || slices.Contains(named.further, name) || named.dynamic > 0 {
				place.Faultf("ask for the rule that blocked, the ip, or its asn, as_name, country or city", "the match of a rule with on: blocked reads %s, which a block does not have", name)
				break
			}
		}
	}
	for _, key := range []string{"count", "evidence", "secret"} {
		if place := v.Key(key); v.Has(key) && !place.Faulty() {
			place.Faultf("leave it out", "%s is for rules that count requests, and on: blocked counts blocks", key)
		}
	}
	if block := v.Key("block"); v.Has("block") && !block.Faulty() && r.Block.Covers == CoversMatch {
		block.Key("covers").Faultf("leave it out", "the match of a rule with on: blocked is not about requests")
	}
}

// checkGroupKey finds keys that are no networks.
func (r *ruleSpec) checkGroupKey(v yamlfile.Value) {
	place := v.Key("key")
	const remedy = "write the network to block, such as ip/24+48 or asn"
	if !v.Given("key") || place.Faulty() {
		return
	}
	if len(r.Key.parts) == 1 && r.Key.parts[0].name == geoip.ASN.String() {
		return
	}
	if len(r.Key.parts) != 1 || r.Key.parts[0].name != "ip" {
		place.Faultf(remedy, "the key of a rule with on: blocked is a network")
		return
	}
	switch p := r.Key.parts[0]; {
	case p.bits4 == 32 || p.bits6 >= memberBits6:
		place.Faultf(remedy, "a network of %s has one address: IPv6 addresses count by their /%d", r.Key, memberBits6)
	case p.bits4 < widest4 || p.bits6 < widest6:
		place.Faultf(remedy, "%s is too wide to be blocked for a few addresses: at most /%d, and /%d of IPv6", r.Key, widest4, widest6)
	}
}

// checkAbove finds rules above others that cannot be, and notes which ones have rules above them.
func (l *loader) checkAbove() {
	byName := map[string]*Rule{}
	var names []string
	for _, r := range l.rules {
		if byName[r.Name] = r; r.CountsBlocks() && r.Name != "" {
			names = append(names, r.Name)
		}
	}
	for _, r := range l.rules {
		if !r.CountsBlocks() || r.Above == "" {
			continue
		}
		fault, below := r.abovePlace, byName[r.Above]
		switch {
		case below == nil || !below.CountsBlocks():
			fault.What, fault.Remedy = "there is no rule "+r.Above+" with on: blocked", nearest.Suggest(r.Above, names, "those rules are ")
		case len(r.Key.parts) != 1 || len(below.Key.parts) != 1 || !r.isWiderThan(below):
			fault.What, fault.Remedy = fmt.Sprintf("the networks of %s, %s, are not narrower than %s", below.Name, below.Key, r.Key), "write a rule of narrower networks"
		case r.Mode == Enforce && below.Mode != Enforce:
			fault.What = fmt.Sprintf("the rule %s refuses no one, so what it leaves is not what is left", below.Name)
			fault.Remedy = "write mode: enforce there too, or mode: shadow here"
		default:
			below.passes = true
			continue
		}
		l.faults = append(l.faults, fault)
	}
}

// memberless warns of group rules that count the blocks of no rule.
func (l *loader) memberless(set *Set) {
	for _, group := range set.Rules {
		if !group.CountsBlocks() || group.Above != "" {
			continue
		}
		var byAddress, refusing []string
		counts := false
		for _, r := range set.Rules {
			if !r.blocksAddresses() {
				continue
			}
			byAddress = append(byAddress, r.Name)
			if group.Mode == Enforce && r.Mode == Shadow {
				continue
			}
			refusing = append(refusing, r.Name)
			counts = counts || group.mayMatch([]string{"rule"}, &request.Request{Take: &request.Take{Rule: r.Name}})
		}

		what := "the rule " + group.Name + " counts the blocks of no rule, so it blocks nothing"
		switch {
		case counts:
		case len(byAddress) == 0:
			l.warn(group.place, what, "write a rule with key: ip, whose blocks it counts")
		case len(refusing) == 0:
			l.warn(group.place, what+": it enforces, and those by address are in shadow mode", "write mode: enforce there too, or mode: shadow here")
		default:
			l.warn(group.place, what, "have its match let one of these through: "+strings.Join(refusing, ", "))
		}
	}
}

// blocksAddresses reports whether blocks of the rule have an address that group rules count.
func (r *Rule) blocksAddresses() bool {
	return (r.CountsLog() || r.CountsRefusals()) && slices.ContainsFunc(r.Key.parts, func(p part) bool {
		return p.name == "ip" && (p.bits4 == defaultBits4 || p.bits6 >= memberBits6)
	})
}

// isWiderThan reports whether the networks of a group rule are wider than those of another one. So no rule is above itself.
func (r *Rule) isWiderThan(below *Rule) bool {
	if r.bySystem() || below.bySystem() {
		return !below.bySystem()
	}
	of, under := r.Key.parts[0], below.Key.parts[0]
	return of.bits4 <= under.bits4 && of.bits6 <= under.bits6 && (of.bits4 < under.bits4 || of.bits6 < under.bits6)
}
