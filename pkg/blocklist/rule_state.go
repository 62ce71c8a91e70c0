package blocklist

import (
	"errors"
	"net/netip"
	"strings"
	"sync/atomic"

	"weir/internal/address"
)

// A ruleState is the state of a rule, or of a scope of orders, whose name is manual/SCOPE.
type ruleState struct {
	name           string
	pausedUntil    atomic.Int64
	confirmedUntil atomic.Int64
	form           atomic.Pointer[form]

	// The Set's lock is held for these:
	counts  [2]int // active entries by mode
	guarded int    // of those in shadow mode
	byShare int    // of those that are guarded
}

// A form describes the keys of a rule so far. It never changes.
type form struct {
	field string // the only field of all keys; "" when keys have several fields, or different ones
	bits4 [33]bool
	bits6 [129]bool // of addresses: the lengths of the prefixes
}

// noteForm notes the form of an entry's key.
func (r *ruleState) noteForm(e *Entry) {
	old, field := r.form.Load(), onlyField(e)
	if old != nil && (old.field == "" || old.has(field, e.Key)) {
		return
	}

	// A form is replaced and never changed, because readers have no lock. It is cloned, because the field may lie in a
	// buffer that is used again.
	next := form{field: strings.Clone(field)}
	if old != nil && old.field == field {
		next = *old
	} else if old != nil {
		next.field = ""
	}

	if next.field == scopeIP && !next.address(e.Key) {
		next = form{}
	}
	r.form.Store(&next)
}

// has reports whether keys of this form have been seen.
func (f *form) has(field, key string) bool {
	if f.field != field || field != scopeIP {
		return f.field == field
	}
	prefix, err := address.Parse(key)
	return err == nil && f.lengths(prefix.Addr())[prefix.Bits()]
}

// lengths returns the prefix lengths of an address's family.
func (f *form) lengths(ip netip.Addr) []bool {
	if ip.Is4() {
		return f.bits4[:]
	}
	return f.bits6[:]
}

// onlyField returns the name of an entry's field when it has exactly one.
func onlyField(e *Entry) string {
	if len(e.Fields) == 1 {
		for name := range e.Fields {
			return name
		}
	}
	return ""
}

// address notes the length of a key's prefix.
func (f *form) address(key string) bool {
	prefix, err := address.Parse(key)
	if err == nil {
		f.lengths(prefix.Addr())[prefix.Bits()] = true
	}
	return err == nil
}

func (r *ruleState) isOrders() bool { return strings.HasPrefix(r.name, ManualRule+"/") }

const maxRules = 1 << 16

var errRules = errors.New("more rules and scopes than a list can hold")

// number returns the index of a rule, and adds the rule when it is missing. Only the writer calls it.
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
