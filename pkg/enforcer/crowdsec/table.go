package crowdsec

import (
	"cmp"
	"net/netip"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"weir/internal/address"
	"weir/pkg/blocklist"
	"weir/pkg/enforcer/outright"
	"weir/pkg/rule"
)

const (
	// maxChanges is how many changes are kept, and keepChanges for how long.
	maxChanges  = 200_000
	keepChanges = 24 * time.Hour
	// letGo is how long after an end the last bouncer has dropped the decision by itself.
	letGo = 2 * time.Second
	// At most 1/share of the time goes into refreshes, unless the table would then be older than oldest.
	share  = 10
	oldest = 10 * time.Second
)

// A table has the decisions for one kind of bouncers, and their changes. Each refresh compares it with the list;
// changes get that refresh's revision: its time in Unix ms, or one more than the revision before.
type table struct {
	// spread returns the prefixes to send for a refused prefix.
	spread func(outright.Someone) []netip.Prefix
	// spreads returns a number that changes when spread may return other prefixes.
	spreads func() uint64

	mu          sync.Mutex
	values      map[string][]*row // by value, of all scopes and rules
	rows        int
	changes     []change // in the order of revisions
	floor       int64    // changes up to this revision may be forgotten
	revision    int64
	lastID      int64
	pass        uint64 // counts refreshes
	refreshed   time.Time
	took        time.Duration
	basis       basis // of the last refresh,
	next        int64 // and the time (Unix ms) until which it is valid
	bouncers    bouncers
	connections map[bouncer]*connections
	journal     journal
}

// A basis is the input of a table, besides the time.
type basis struct {
	rules          *rule.Set
	edits, spreads uint64
}

// A change is a new or an ended decision, since a revision.
type change struct {
	Revision int64 `json:"revision"`
	Ended    int64 `json:"ended,omitempty"` // 0: a new decision
	Row      *row  `json:"row"`
}

func newTable(spread func(outright.Someone) []netip.Prefix, spreads func() uint64) *table {
	return &table{spread: spread, spreads: spreads, values: map[string][]*row{}, bouncers: bouncers{}, connections: map[bouncer]*connections{},
		journal: journal{turn: make(chan struct{}, 1)}}
}

// unchanged returns a prefix unchanged.
func unchanged(s outright.Someone) []netip.Prefix { return []netip.Prefix{s.Prefix} }

func always() uint64 { return 0 }

// refresh compares the table with the list. It does nothing when nothing can have changed since the last refresh, or
// when that was so recent that refreshes would take too much of the time.
func (t *table) refresh(list outright.List, rules *rule.Set, now time.Time) {
	of := basis{rules, list.Edits(), t.spreads()} // before reading the list
	if !t.refreshed.IsZero() && (now.Sub(t.refreshed) < min(share*t.took, oldest) || of == t.basis && now.UnixMilli() < t.next) {
		t.forget(now)
		return
	}

	began := time.Now()

	// The rows that this pass finds get its number; sweep removes all others.
	t.next = outright.NextEnd(list, rules, now.UnixMilli())
	t.pass++

	// Times, so that revisions also grow over a restart that lost the file. A clock that goes back must not repeat one.
	t.revision = max(t.revision+1, now.UnixMilli())
	for someone := range outright.All(list, rules, now.UnixMilli()) {
		t.add(someone)
	}

	for value, rows := range t.values {
		t.sweep(value, rows, now.UnixMilli())
	}
	t.forget(now)
	t.refreshed, t.took, t.basis = now, time.Since(began), of
}

// add adds a refused value to the table.
func (t *table) add(s outright.Someone) {
	if s.Scope != outright.IP {
		if utf8.ValidString(s.Value) { // JSON allows no others
			t.set(scopeOf(s.Scope), s.Value, netip.Prefix{}, s.Entry)
		}
		return
	}

	for _, prefix := range t.spread(s) {
		scope := scopeRange
		if prefix.IsSingleIP() {
			scope = scopeIP
		}
		t.set(scope, address.Text(prefix), prefix, s.Entry)
	}
}

func scopeOf(field string) string {
	if field == "user" {
		return scopeUser
	}
	return field
}

func (t *table) set(scope, value string, prefix netip.Prefix, e *blocklist.Entry) {
	rows := t.values[value]

	// Several rules may block one value: each of them has a row.
	for i, known := range rows {
		if known.Scope == scope && known.Rule == e.Rule {
			rows[i] = t.renewed(known, e)
			rows[i].lastPass = t.pass
			return
		}
	}

	t.lastID++
	t.rows++
	r := &row{ID: t.lastID, Scope: scope, Value: value, Rule: e.Rule, Origin: originOf(e), Entry: e.ID, Until: e.Until,
		Added: t.revision, prefix: prefix, lastPass: t.pass}

	t.values[value] = append(rows, r)
	t.note(change{Revision: t.revision, Row: r})
}

// renewed returns the row for an entry that may be another now, or last longer. A longer end is due again after the
// earlier one, because some bouncers keep that.
func (t *table) renewed(known *row, e *blocklist.Entry) *row {
	if known.Until == e.Until && known.Entry == e.ID {
		return known
	}
	r := *known
	r.Entry, r.Until, r.Origin = e.ID, e.Until, originOf(e)
	if known.Until < r.Until {
		r.Again = known.Until + letGo.Milliseconds()
	}
	r.Added = t.revision
	t.note(change{Revision: t.revision, Row: &r})
	return &r
}

// sweep removes the rows of a value that are no longer on the list. The remaining rows of the value are sent again once
// bouncers have dropped it, because bouncers keep the end that they got first.
func (t *table) sweep(value string, rows []*row, nowMilli int64) {
	kept := rows[:0]
	for _, r := range rows {
		if r.lastPass == t.pass {
			kept = append(kept, r)
			continue
		}
		t.rows--
		t.note(change{Revision: t.revision, Ended: min(nowMilli, r.Until), Row: r})
	}

	// When one row of a value has gone, some bouncers drop the value although another row still blocks it.
	left := len(kept) < len(rows)
	for i, r := range kept {
		kept[i] = t.again(r, left, nowMilli)
		// An end, and a repetition that is due, change the table without a change of the list.
		if t.next = min(t.next, r.Until); kept[i].Again != 0 {
			t.next = min(t.next, kept[i].Again)
		}
	}

	if len(kept) == 0 {
		delete(t.values, value)
	} else if left {
		// kept shares the slice: its rest would keep dropped rows in memory.
		clear(rows[len(kept):])
		t.values[value] = kept
	}
}

// again returns the row after a due repetition, and schedules one when another row of its value has left.
func (t *table) again(r *row, otherLeft bool, nowMilli int64) *row {
	due := r.Again != 0 && r.Again <= nowMilli
	if !due && !otherLeft {
		return r
	}

	next := *r
	if next.Again = 0; otherLeft {
		next.Again = nowMilli + letGo.Milliseconds()
	}

	if due {
		next.Added = t.revision
		t.note(change{Revision: t.revision, Row: &next})
	}
	return &next
}

func (t *table) note(c change) { t.changes = append(t.changes, c) }

// forget drops the oldest changes. Bouncers that have not got them begin again.
func (t *table) forget(now time.Time) {
	drop := max(0, len(t.changes)-maxChanges)
	kept := now.Add(-keepChanges).UnixMilli()
	for drop < len(t.changes) && t.changes[drop].Revision < kept {
		drop++
	}
	if drop == 0 {
		return
	}
	t.floor = t.changes[drop-1].Revision
	t.changes = slices.Clone(t.changes[drop:])
}

// since returns the changes after a revision.
func (t *table) since(revision int64) []change {
	i, _ := slices.BinarySearchFunc(t.changes, revision+1, func(c change, after int64) int { return cmp.Compare(c.Revision, after) })
	return t.changes[i:]
}

// knows reports whether every change after a revision is known.
func (t *table) knows(revision int64) bool { return revision >= t.floor && revision <= t.revision }
