package cidr

import (
	"slices"
	"time"

	"weir/pkg/enforcer/outright"
	"weir/pkg/rule"
)

// A List is a list that changes: a blocklist.Set.
type List interface {
	outright.List
	// Changed returns a channel that is closed at the next change.
	Changed() <-chan struct{}
}

// Wanted is the disjoint form of a changing list. One goroutine uses it.
type Wanted struct {
	list   List
	active func() *rule.Set
	blocks []Block
	whole  bool // blocks are from a complete list

	changed <-chan struct{} // closed when blocks must be made again
	edits   uint64          // Edits of the list at that time: watermarks do not change it
	rules   *rule.Set       // also made again when the rules are others,
	end     int64           // and at this time
	rested  time.Time       // but not before this time
}

// NewWanted returns the Wanted of a list that has not been read yet. Each Renew calls rules, which may be nil, for the
// active rules.
func NewWanted(list List, rules func() *rule.Set) *Wanted {
	if rules == nil {
		rules = func() *rule.Set { return nil }
	}
	return &Wanted{list: list, active: rules}
}

// Blocks returns the result of the last Renew; some blocks may have ended since. The caller must not change them.
func (w *Wanted) Blocks() []Block { return w.blocks }

// Whole reports whether they are from a complete list.
func (w *Wanted) Whole() bool { return w.whole }

// Changed returns a channel that is closed when Renew should be called again.
func (w *Wanted) Changed() <-chan struct{} { return w.changed }

// Renew makes the blocks again when the list or the rules have changed, or an allow or a pause has ended. It returns
// false when nothing has changed, when the list is not complete, or while it rests. It rests three times as long as the
// last time took, so that a list that changes all the time takes at most a quarter of a core.
func (w *Wanted) Renew(at time.Time) bool {
	now, rules := at.UnixMilli(), w.active()
	if w.whole && !w.isOver() && rules == w.rules && now < w.end || at.Before(w.rested) {
		return false
	}

	// Taken before the list is read, so that a change meanwhile is noticed the next time.
	w.changed = w.list.Changed()
	edits := w.list.Edits() // before reading the list
	// Watermarks change the list too, several times a minute, and no entry with it.
	if w.whole && edits == w.edits && rules == w.rules && now < w.end {
		return false
	}

	w.rules, w.edits = rules, edits
	if w.whole = w.list.Whole(); !w.whole {
		return false
	}

	w.end = outright.NextEnd(w.list, rules, now)
	w.blocks = Refused(w.list, rules, now)
	w.rested = at.Add(4 * time.Since(at))
	return true
}

// Rests returns how long Renew rests from now on.
func (w *Wanted) Rests() time.Duration { return max(0, time.Until(w.rested)) }

func (w *Wanted) isOver() bool {
	select {
	case <-w.changed:
		return true
	default:
		return false
	}
}

// Alive returns the blocks that have not ended. It does not change its argument.
func Alive(blocks []Block, now int64) []Block {
	ended := func(b Block) bool { return b.Until <= now }
	if !slices.ContainsFunc(blocks, ended) {
		return blocks
	}
	return slices.DeleteFunc(slices.Clone(blocks), ended)
}
