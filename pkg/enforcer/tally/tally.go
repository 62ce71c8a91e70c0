// Package tally counts checks and refusals: in all, for each of the last 60 minutes, for each rule, and for the entries
// that refused most recently.
//
// Counting takes no lock and allocates nothing. A count of the past hour may be one or two off where several goroutines
// count in the moment in which a minute begins. The counts of entries are approximate: there are 16,384 places, and an
// entry may take one of four. One that loses its place to another begins at 0 when it refuses again, so a count is
// usually too low if it is wrong. It is too high where one entry in four thousand million is taken for another, and by
// one where another goroutine counts for an entry in the very moment in which that loses its place.
//
// A Tally takes 400 KB. Nothing is kept over a restart.
package tally

import (
	"sync"
	"sync/atomic"
	"time"
)

// A Tally counts. Any number of goroutines may use it.
type Tally struct {
	Since time.Time // when counting began

	checks, refused minutes
	entries         entries

	mu    sync.Mutex
	rules map[string]*Rule
}

// A Rule counts the refusals of a rule.
type Rule struct{ refused atomic.Int64 }

// Refused returns how many there were.
func (r *Rule) Refused() int64 { return r.refused.Load() }

// New begins to count.
func New(since time.Time) *Tally { return &Tally{Since: since, rules: map[string]*Rule{}} }

// Rule returns the counter of a rule, and makes it if there is none.
func (t *Tally) Rule(name string) *Rule {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.rules[name]
	if r == nil {
		r = &Rule{}
		t.rules[name] = r
	}
	return r
}

// Known returns the counter of a rule, or nil if there is none.
func (t *Tally) Known(name string) *Rule {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rules[name]
}

// Checked counts a check.
func (t *Tally) Checked(nowMilli int64) { t.checks.add(nowMilli) }

// Refused counts a check that was refused, by a rule unless it is nil, and because of an entry unless its id is empty.
func (t *Tally) Refused(nowMilli int64, by *Rule, entry string) {
	t.refused.add(nowMilli)
	if by != nil {
		by.refused.Add(1)
	}
	if entry != "" {
		t.entries.add(entry, nowMilli)
	}
}

// Totals returns how many checks and refusals there were.
func (t *Tally) Totals() (checks, refused int64) { return t.checks.total(), t.refused.total() }

// LastMinute estimates how many checks and refusals there were in the last 60 seconds: the running minute, and of the
// one before a share.
func (t *Tally) LastMinute(nowMilli int64) (checks, refused int64) {
	return t.checks.lastMinute(nowMilli), t.refused.lastMinute(nowMilli)
}

// Hour returns the checks and refusals of the last 60 complete minutes, the oldest first.
func (t *Tally) Hour(nowMilli int64) (checks, refused [60]int64) {
	return t.checks.hour(nowMilli), t.refused.hour(nowMilli)
}

// Of returns the refusals because of an entry; a zero Figures when there were none, or none lately.
func (t *Tally) Of(entry []byte, nowMilli int64) Figures { return t.entries.of(entry, nowMilli) }
