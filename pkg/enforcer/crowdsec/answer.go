package crowdsec

import (
	"maps"
	"net/netip"
	"slices"

	"weir/pkg/enforcer/outright"
)

// An answer is what a bouncer is sent. No value is in both lists: bouncers do not agree on which they read first.
type answer struct {
	fresh    []*row
	deleted  []change
	revision int64
}

// startup is everything in force, and what ended lately.
func (t *table) startup(f *filter) answer {
	a := answer{revision: t.revision}
	for _, rows := range t.values {
		a.fresh = f.appendWanted(a.fresh, rows)
	}
	a.deleted = t.gone(t.changes, f)
	return a
}

// delta is what changed after a revision.
func (t *table) delta(f *filter, revision int64) answer {
	a := answer{revision: t.revision}
	changes := t.since(revision)
	values := map[string]bool{}
	for _, c := range changes {
		if c.Ended == 0 && f.wants(c.Row) {
			values[c.Row.Value] = true
		}
	}

	for _, value := range slices.Sorted(maps.Keys(values)) {
		a.fresh = f.appendWanted(a.fresh, t.values[value])
	}
	a.deleted = t.gone(changes, f)
	return a
}

// appendWanted appends those rows of a value that are asked for: the one that lasts longest, or all of them.
func (f *filter) appendWanted(to, rows []*row) []*row {
	var best *row
	for _, r := range rows {
		if !f.wants(r) {
			continue
		}
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

// gone are the changes by which a value is no longer in force that was asked for, the last one of each value.
func (t *table) gone(changes []change, f *filter) (gone []change) {
	told := map[string]bool{}
	for _, c := range slices.Backward(changes) {
		if c.Ended == 0 || told[c.Row.Value] || !f.wants(c.Row) || slices.ContainsFunc(t.values[c.Row.Value], f.wants) {
			continue
		}
		told[c.Row.Value] = true
		gone = append(gone, c)
	}
	slices.Reverse(gone)
	return gone
}

// find are the rows that are asked for at once, in the order of their ids.
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
	case f.within.IsValid() && f.contains:
		for bits := f.within.Bits(); bits >= 0; bits-- {
			around := netip.PrefixFrom(f.within.Addr(), bits).Masked()
			take(t.values[outright.Text(around)])
		}
	default:
		for _, rows := range t.values {
			take(rows)
		}
	}

	return f.page(found)
}
