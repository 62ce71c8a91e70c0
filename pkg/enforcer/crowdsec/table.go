package crowdsec

import (
	"cmp"
	"net/netip"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"weir/pkg/blocklist"
	"weir/pkg/enforcer/outright"
	"weir/pkg/rule"
)

const (
	// maxChanges is how many changes are kept, and keepChanges for how long.
	maxChanges  = 200_000
	keepChanges = 24 * time.Hour
	// letGo is how long after an end the last bouncer has let go by itself of what it was told to hold until then.
	letGo = 2 * time.Second
	// share of the time is what bringing the table up to date takes, but for where it would then be older than oldest.
	share  = 10
	oldest = 10 * time.Second
)

// A table is the decisions that bouncers of a kind are given, and what changed of them. Each refresh compares it with the
// list; what it finds changed has that refresh's revision: its time in Unix ms, or one more than the revision before.
type table struct {
	// spread gives the prefixes that stand for one.
	spread func(outright.Someone) []netip.Prefix
	// spreads is another number once spread may give others.
	spreads func() uint64

	mu        sync.Mutex
	values    map[string][]*row // by value, of all scopes and rules
	rows      int
	changes   []change // in the order of their revisions
	floor     int64    // changes up to this revision may be forgotten
	revision  int64
	lastID    int64
	pass      uint64 // counts refreshes
	refreshed time.Time
	took      time.Duration
	basis     basis // of the last refresh,
	next      int64 // and until when it holds, Unix ms
	bouncers  bouncers
	lines     map[bouncer]*lines
}

// A basis is what a table is made of, besides the time.
type basis struct {
	rules          *rule.Set
	edits, spreads uint64
}

// A change is a decision that bouncers are to know since a revision, or to forget.
type change struct {
	Revision int64 `json:"revision"`
	Ended    int64 `json:"ended,omitempty"` // 0: it is new
	Row      *row  `json:"row"`
}

func newTable(spread func(outright.Someone) []netip.Prefix, spreads func() uint64) *table {
	return &table{spread: spread, spreads: spreads, values: map[string][]*row{}, bouncers: bouncers{}, lines: map[bouncer]*lines{}}
}

// whole gives a prefix as it is.
func whole(s outright.Someone) []netip.Prefix { return []netip.Prefix{s.Prefix} }

func always() uint64 { return 0 }

// refresh compares the table with the list, unless nothing can have changed since that was done, or it was so recently that
// it would take too much of the time.
func (t *table) refresh(list outright.List, rules *rule.Set, now time.Time) {
	of := basis{rules, list.Edits(), t.spreads()} // before what they stand for
	if !t.refreshed.IsZero() && (now.Sub(t.refreshed) < min(share*t.took, oldest) || of == t.basis && now.UnixMilli() < t.next) {
		t.forget(now)
		return
	}

	began := time.Now()
	t.next = outright.NextEnd(list, rules, now.UnixMilli())
	t.pass++
	t.revision = max(t.revision+1, now.UnixMilli())
	for someone := range outright.All(list, rules, now.UnixMilli()) {
		t.take(someone)
	}

	for value, rows := range t.values {
		t.sweep(value, rows, now.UnixMilli())
	}
	t.forget(now)
	t.refreshed, t.took, t.basis = now, time.Since(began), of
}

// take puts someone who is refused into the table.
func (t *table) take(s outright.Someone) {
	if s.Scope != outright.IP {
		if utf8.ValidString(s.Value) { // JSON has no others
			t.set(scopeOf(s.Scope), s.Value, netip.Prefix{}, s.Entry)
		}
		return
	}

	for _, prefix := range t.spread(s) {
		scope := scopeRange
		if prefix.IsSingleIP() {
			scope = scopeIP
		}
		t.set(scope, outright.Text(prefix), prefix, s.Entry)
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
	for i, known := range rows {
		if known.Scope == scope && known.Rule == e.Rule {
			rows[i] = t.renewed(known, e)
			rows[i].seen = t.pass
			return
		}
	}

	t.lastID++
	t.rows++
	r := &row{ID: t.lastID, Scope: scope, Value: value, Rule: e.Rule, Origin: originOf(e), Entry: e.ID, Until: e.Until,
		Added: t.revision, prefix: prefix, seen: t.pass}

	t.values[value] = append(rows, r)
	t.note(change{Revision: t.revision, Row: r})
}

// renewed is the row of an entry that may be another now, or last longer. Bouncers that hold on to what they were told first
// are told again when that is over.
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

// sweep takes the rows of a value out that the list no longer has. Those that stay are sent again once bouncers have let go
// of the value: they hold it for as long as they were told first.
func (t *table) sweep(value string, rows []*row, nowMilli int64) {
	kept := rows[:0]
	for _, r := range rows {
		if r.seen == t.pass {
			kept = append(kept, r)
			continue
		}
		t.rows--
		t.note(change{Revision: t.revision, Ended: min(nowMilli, r.Until), Row: r})
	}

	left := len(kept) < len(rows)
	for i, r := range kept {
		kept[i] = t.again(r, left, nowMilli)
		if t.next = min(t.next, r.Until); kept[i].Again != 0 {
			t.next = min(t.next, kept[i].Again)
		}
	}

	if len(kept) == 0 {
		delete(t.values, value)
	} else if left {
		clear(rows[len(kept):])
		t.values[value] = kept
	}
}

// again is the row with what is due of sending it once more.
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

// forget drops the oldest changes. Who has not got them begins anew.
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

// since are the changes after a revision.
func (t *table) since(revision int64) []change {
	i, _ := slices.BinarySearchFunc(t.changes, revision+1, func(c change, after int64) int { return cmp.Compare(c.Revision, after) })
	return t.changes[i:]
}

// knows says whether every change after a revision is known.
func (t *table) knows(revision int64) bool { return revision >= t.floor && revision <= t.revision }
