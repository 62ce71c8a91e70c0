package outright

import (
	"maps"
	"slices"

	"github.com/gaissmai/bart"

	"weir/pkg/blocklist"
	"weir/pkg/rule"
)

// exceptions are the values that are not refused, by rule.
type exceptions struct {
	paused map[string]bool
	covers map[string]bool
	orders allowed            // by orders, for every rule
	rules  map[string]allowed // by orders and rules, for rules with allows of their own
}

// allowed are the values that are let through.
type allowed struct {
	prefixes *bart.Lite
	others   map[target]bool
}

type target struct{ scope, value string }

func newAllowed() allowed { return allowed{&bart.Lite{}, map[target]bool{}} }

func exceptionsOf(list List, rules *rule.Set, nowMilli int64) *exceptions {
	e := &exceptions{paused: map[string]bool{}, covers: map[string]bool{blocklist.ManualRule: true}, orders: newAllowed(), rules: map[string]allowed{}}
	for order := range list.Orders(nowMilli) {
		switch order.Kind {
		case blocklist.OrderAllow:
			if order.Scope != IP {
				e.orders.others[target{order.Scope, order.Value}] = true
			} else if prefix := order.Prefix(); prefix.IsValid() {
				e.orders.prefixes.Insert(prefix)
			}
		case blocklist.OrderPause:
			e.paused[order.Rule] = true
		}
	}

	if rules == nil {
		return e
	}

	// A rule with conditions of its own cannot be enforced without seeing requests. One that is not here is not in
	// covers, and so left out too.
	for _, r := range rules.Rules {
		e.covers[r.Name] = r.Block.Covers == rule.CoversAll && r.Mode == rule.Enforce
		if own := plainAllows(rules, r.Name, nowMilli); len(own) > 0 {
			e.rules[r.Name] = e.orders.with(own)
		}
	}

	return e
}

// carries reports whether entries of a rule can be in a list without requests.
func (e *exceptions) carries(name string) bool {
	return e.covers[name] && !e.paused[name] && !e.paused[blocklist.EveryRule]
}

func (e *exceptions) of(name string) allowed {
	if own, ok := e.rules[name]; ok {
		return own
	}
	return e.orders
}

// holes returns the prefixes to remove from those that a rule blocks.
func (e *exceptions) holes(name string) *bart.Lite { return e.of(name).prefixes }

func (e *exceptions) allows(name, scope, value string) bool {
	return e.of(name).others[target{scope, value}]
}

// with returns a plus the allows of a rule.
func (a allowed) with(own []*rule.Allow) allowed {
	both := allowed{a.prefixes.Clone(), maps.Clone(a.others)}
	for _, allow := range own {
		for _, prefix := range allow.Prefixes {
			both.prefixes.Insert(prefix)
		}
		for _, user := range allow.Users {
			both.others[target{"user", user}] = true
		}
	}
	return both
}

// plainAllows returns the allows of a rule that apply to every request: of addresses alone, or of users alone.
func plainAllows(rules *rule.Set, name string, nowMilli int64) (own []*rule.Allow) {
	for _, a := range rules.Allows {
		plain := a.Match == "" && len(a.Hosts) == 0 && (len(a.Prefixes) == 0 || len(a.Users) == 0)
		ended := !a.Until.IsZero() && a.Until.UnixMilli() <= nowMilli
		if plain && !ended && (len(a.Rules) == 0 || slices.Contains(a.Rules, name)) {
			own = append(own, a)
		}
	}
	return own
}
