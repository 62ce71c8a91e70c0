package crowdsec

import (
	"maps"
	"net/netip"
	"slices"

	"weir/internal/address"
)

// An answer is the part of the list that a bouncer gets. No value is in both lists: bouncers do not agree on which they
// read first.
type answer struct {
	fresh    []*row
	deleted  []change
	revision int64
}

// startup returns everything that is active, and lately ended decisions.
func (t *table) startup(f *filter) answer {
	a := answer{revision: t.revision}
	for _, rows := range t.values {
		a.fresh = f.appendWanted(a.fresh, rows)
	}
	a.deleted = t.gone(t.changes, f)
	return a
}

// delta returns the changes after a revision.
func (t *table) delta(f *filter, revision int64) answer {
	a := answer{revision: t.revision}
	changes := t.since(revision)
	values := map[string]bool{}
	for _, c := range changes {
		if c.Ended == 0 && f.wants(c.Row) {
			values[c.Row.Value] = true
		}
	}

	// The value's present rows are sent, not the change: it may have ended or changed again since.
	for _, value := range slices.Sorted(maps.Keys(values)) {
		a.fresh = f.appendWanted(a.fresh, t.values[value])
	}
	a.deleted = t.gone(changes, f)
	return a
}

// appendWanted appends the rows of a value that match the filter: the one that lasts longest, or all of them.
func (f *filter) appendWanted(to, rows []*row) []*row {
	var best *row
	for _, r := range rows {
		if !f.wants(r) {
			continue
		}

		// Usually one decision a value, because bouncers keep one end for each.
		if f.all {
			to = append(to, r)
		} else if best == nil || r.Until > best.Until {
			best = r
		}
	}

	if best != nil {
		to = append(to, best)
	}
	return to
}

// gone returns the changes that ended a wanted value, the last one of each value.
func (t *table) gone(changes []change, f *filter) (gone []change) {
	done := map[string]bool{}

	// A value that another row still blocks is not deleted: bouncers delete by value.
	for _, c := range slices.Backward(changes) {
		if c.Ended == 0 || done[c.Row.Value] || !f.wants(c.Row) || slices.ContainsFunc(t.values[c.Row.Value], f.wants) {
			continue
		}
		done[c.Row.Value] = true
		gone = append(gone, c)
	}
	slices.Reverse(gone)
	return gone
}

// find returns the rows that match the filter, sorted by id.
func (t *table) find(f *filter) (found []*row) {
	take := func(rows []*row) {
		for _, r := range rows {
			if f.wants(r) {
				found = append(found, r)
			}
		}
	}

	switch {
	case f.hasValue:
		take(t.values[f.value])
	// The prefixes around an address are at most 129 lookups, however long the list is.
	case f.within.IsValid() && f.contains:
		for bits := f.within.Bits(); bits >= 0; bits-- {
			around := netip.PrefixFrom(f.within.Addr(), bits).Masked()
			take(t.values[address.Text(around)])
		}
	default:
		for _, rows := range t.values {
			take(rows)
		}
	}

	return f.page(found)
}
