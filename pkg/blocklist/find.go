package blocklist

import (
	"net/netip"
	"slices"

	"weir/internal/address"
)

// inForce yields the active entries and orders.
func (f frozen) inForce(now int64, yield func(Held) bool) {
	f.each(func(state *ruleState, p packed) bool {
		h := Held{rule: state, record: p}
		return !h.inForce(now) || yield(h.at(now))
	})
}

// wanted is a search: entries with this key, or with a field of this value, or over these addresses.
type wanted struct {
	key          string
	scope, value string
	prefix       netip.Prefix // valid for addresses
}

func parseWanted(text string) wanted {
	w := wanted{key: text}
	if scope, value, err := ParseTarget(text); err == nil {
		w.scope, w.value = scope, value
		if scope == scopeIP {
			w.prefix, _ = address.Parse(value)
		}
	}
	return w
}

// in reports whether an entry matches the search.
func (w wanted) in(e *Entry) bool {
	if e.Key == w.key {
		return true
	}
	for name, value := range e.Fields {
		if w.scope != "" && name == w.scope && value == w.value {
			return true
		}
		if name != scopeIP || !w.prefix.IsValid() {
			continue
		}
		if other, err := address.Parse(value); err == nil && other.Overlaps(w.prefix) {
			return true
		}
	}

	return false
}

// An eitherWanted is a search by several texts.
type eitherWanted []wanted

func (w eitherWanted) in(e *Entry) bool {
	return slices.ContainsFunc(w, func(one wanted) bool { return one.in(e) })
}

func (f frozen) find(text string, others []string, now int64, yield func(Record) bool) {
	w := eitherWanted{parseWanted(text)}
	for _, other := range others {
		w = append(w, parseWanted(other))
	}
	f.inForce(now, func(h Held) bool {
		if o := h.Order(); o != nil {
			return !w.in(o.Entry()) || yield(Record{Order: o})
		}
		e := h.Entry()
		return !w.in(e) || yield(Record{Entry: e})
	})
}

// Place is the record's key; results can be sorted by it.
func (r Record) Place() string {
	switch {
	case r.Order != nil:
		return string(r.Order.RecordKey())
	case r.Entry != nil:
		return string(RecordKey(r.Entry.Rule, r.Entry.Key))
	}
	return ""
}
