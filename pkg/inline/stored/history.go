package stored

import (
	"context"

	"weir/pkg/attempts"
	"weir/pkg/inline"
)

// A History is a Backend that has a row for each attempt and rule, with the decision and the settlement. A commit
// adds the rows of attempts that it counts, and changes those that it settles, as one step with its other changes: so an
// attempt that counts is in the history once, wherever processes stop. Add adds those of other attempts afterwards.
type History interface {
	Backend
	// Add adds rows. One that is there stays as it is, so Add may be called again after an error. No request waits for it.
	Add(ctx context.Context, rows []Attempt) error
}

// A Reader is a History that can be read.
type Reader interface {
	History
	// Rows are the newest rows of some keys, the newest first.
	Rows(ctx context.Context, q *Query) ([]Row, error)
}

// A Query selects rows of a History.
type Query struct {
	Keys []string
	Rule string // empty is any
	From int64  // milliseconds since 1970
	Most int
}

// A Row is an attempt in a History, with its settlement.
type Row struct {
	Attempt
	Settled   *int64 // what it has cost, or nil
	SettledAt int64  // milliseconds since 1970; 0 if it was not settled
}

// A Lister is a Backend that lists for people which attempts each key has counted, though it may be no History. It does
// Commit.Attempts and Commit.Settlements with the changes of a commit.
type Lister interface {
	Backend
	Lists() bool
}

// An Attempt is a row of a History: what a rule decided. Its ID, Rule, Key, Part and At together are those of no other.
type Attempt struct {
	ID        inline.ID
	Rule, Key string
	Part      int   // 0, unless the attempt asks the rule several times about the key
	At        int64 // milliseconds since 1970, by the database's clock
	Cost      int64
	Verdict   string // as in package attempts
	Limit     string // the limit that decides; empty if none did
	Remaining int64
	Store     string // allow, refuse or local, where the database failed; else empty
}

// A Settlement is what the rows of an attempt that counted become, at one rule and key.
type Settlement struct {
	ID        inline.ID
	Rule, Key string
	At        int64 // of the rows
	Cost      int64 // inline.Kept leaves that of each row as it is
	When      int64 // milliseconds since 1970
	Gone      bool  // the rows are removed: the attempt does not count after all

	Was, Is Counted // for a Lister: what the attempt has counted at the key, before and afterwards
}

// Counted is what an attempt has counted at a key.
type Counted struct {
	Cost  int64
	Ended bool // limits at once do not count it any more
}

// note adds what an op that was decided means for the history.
func (o *op) note(key string, now int64, c *Commit) error {
	rule, of := splitName(key)
	switch {
	case o.kind == take && o.counted:
		id := idOfRecord(o.record)
		for i, cost := range o.costs {
			t := &o.taken[i]
			if !t.Admitted || cost == 0 {
				continue
			}
			row := Attempt{ID: id, Rule: rule, Key: of, Part: i, At: t.At, Cost: cost, Verdict: attempts.Admitted, Remaining: t.Remaining}
			if t.Limit < len(o.rule.Limits) {
				row.Limit = o.rule.Limits[t.Limit]
			}
			c.Attempts = append(c.Attempts, row)
		}
	case o.kind > ask && o.known:
		was, err := readRecord(o.recorded.State)
		if err != nil {
			return err
		}
		for i, p := range was.parts {
			if i == 0 || p.at != was.parts[i-1].at {
				c.Settlements = append(c.Settlements, Settlement{ID: idOfRecord(o.record), Rule: rule, Key: of, At: p.at, Cost: o.cost, When: now, Gone: o.kind == undo})
			}
			s := &c.Settlements[len(c.Settlements)-1]
			is := o.settled(p)
			s.Was = Counted{s.Was.Cost + p.cost, p.ended}
			s.Is = Counted{s.Is.Cost + is.cost, is.ended}
		}
	}
	return nil
}

// idOfRecord is the ID in the name of an attempt's cell.
func idOfRecord(name string) (id inline.ID) {
	copy(id[:], name[1:])
	return id
}
