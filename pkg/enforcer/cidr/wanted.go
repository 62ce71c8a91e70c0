package cidr

import (
	"slices"
	"time"

	"weir/pkg/enforcer/outright"
	"weir/pkg/rule"
)

// A List is one that changes: a blocklist.Set.
type List interface {
	outright.List
	// Changed is closed at the next change.
	Changed() <-chan struct{}
}

// Wanted is what a list refuses by the address, as it changes. One goroutine uses it.
type Wanted struct {
	list   List
	blocks []Block
	whole  bool // they are made of a whole list

	changed <-chan struct{} // closed when they are to be made anew,
	edits   uint64          // what it was edited to then: marks are no edits
	rules   *rule.Set       // as when the rules are others,
	end     int64           // and at this time
	rested  time.Time       // but not before this
}

// NewWanted is of a list that has not been looked at yet.
func NewWanted(list List) *Wanted { return &Wanted{list: list} }

// Blocks are those that Refused gave when the list was last looked at; some may have ended since. They are not to be
// changed.
func (w *Wanted) Blocks() []Block { return w.blocks }

// Whole says whether they are made of a whole list.
func (w *Wanted) Whole() bool { return w.whole }

// Changed is closed when the list is to be looked at again.
func (w *Wanted) Changed() <-chan struct{} { return w.changed }

// Renew makes the blocks anew where the list or the rules have changed, or an allow or a pause has ended; false when
// nothing has, when the list is not whole, or when it rests: three times as long as the last time took, so that a list
// that changes all the time takes no more than a quarter of a core.
func (w *Wanted) Renew(rules *rule.Set, at time.Time) bool {
	now := at.UnixMilli()
	if w.whole && !w.isOver() && rules == w.rules && now < w.end || at.Before(w.rested) {
		return false
	}

	w.changed = w.list.Changed()
	edits := w.list.Edits() // before what it stands for
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

// Rests is how long Renew rests from now on.
func (w *Wanted) Rests() time.Duration { return max(0, time.Until(w.rested)) }

func (w *Wanted) isOver() bool {
	select {
	case <-w.changed:
		return true
	default:
		return false
	}
}

// Alive are the blocks that have not ended. The given ones are left as they are.
func Alive(blocks []Block, now int64) []Block {
	ended := func(b Block) bool { return b.Until <= now }
	if !slices.ContainsFunc(blocks, ended) {
		return blocks
	}
	return slices.DeleteFunc(slices.Clone(blocks), ended)
}
