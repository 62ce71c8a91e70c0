package blocklist

import (
	"errors"
	"net/netip"
	"strings"
	"sync/atomic"
)

// A ruleState is what is known of a rule, or of a scope of orders, whose name is manual/SCOPE.
type ruleState struct {
	name        string
	pausedUntil atomic.Int64

	counts [2]int // entries in force by mode; guarded by the Set's lock, as are the shapes
	shapes shapes
}

// shapes are the forms that a rule's keys had so far.
type shapes struct {
	bits4 [33]bool // lengths of the prefixes
	bits6 [129]bool
	field string // the one field of all its keys, unless they are mixed
	mixed bool   // there are keys of several fields, or of others than field
}

// see notes the form of an entry's key.
func (s *shapes) see(e *Entry) {
	for name := range e.Fields {
		if s.field == "" {
			s.field = strings.Clone(name)
		}
		s.mixed = s.mixed || s.field != name || len(e.Fields) != 1
	}
	if s.field != scopeIP || s.mixed {
		return
	}
	prefix, err := parsePrefix(e.Key)
	switch {
	case err != nil:
		s.mixed = true
	case prefix.Addr().Is4():
		s.bits4[prefix.Bits()] = true
	default:
		s.bits6[prefix.Bits()] = true
	}
}

// of are the lengths for an address.
func (s *shapes) of(ip netip.Addr) []bool {
	if ip.Is4() {
		return s.bits4[:]
	}
	return s.bits6[:]
}

func (r *ruleState) isOrders() bool { return strings.HasPrefix(r.name, manual+"/") }

const maxRules = 1 << 16

var errRules = errors.New("more rules and scopes than a list can hold")

// number is the index of a rule, which is made when it is missing. The writer's.
func (t *table) number(rule string) (int, error) {
	if number, ok := t.numbers[rule]; ok {
		return number, nil
	}
	v := *t.view.Load()
	number := len(v.rules)
	if number == maxRules {
		return 0, errRules
	}
	rule = strings.Clone(rule)
	v.rules = append(append([]*ruleState(nil), v.rules...), &ruleState{name: rule})
	t.numbers[rule] = number
	t.view.Store(&v)
	return number, nil
}
