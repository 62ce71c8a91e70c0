package nftables

import (
	"time"

	"weir/pkg/enforcer/cidr"
	"weir/pkg/rule"
)

// wanted is what the list says is to be in the kernel.
type wanted struct {
	list   List
	blocks []cidr.Block // without the rules' names: the kernel knows none
	whole  bool         // they are made of a whole list

	changed <-chan struct{} // closed when they are to be made anew,
	rules   *rule.Set       // as when the rules are others,
	end     int64           // and at this time
	rested  time.Time       // but not before this
}

// renew makes the blocks anew where something has changed; false when nothing has, or it has to rest.
func (w *wanted) renew(rules *rule.Set, at time.Time) bool {
	now := at.UnixMilli()
	if w.whole && !w.isOver() && rules == w.rules && now < w.end || at.Before(w.rested) {
		return false
	}
	defer func() { w.rested = time.Now().Add(3 * time.Since(at)) }()
	w.changed, w.rules = w.list.Changed(), rules
	if w.whole = w.list.Whole(); !w.whole {
		return false
	}
	w.end = cidr.NextEnd(w.list, rules, now)
	w.blocks = cidr.Refused(w.list, rules, now)
	for i := range w.blocks {
		w.blocks[i].Rule = ""
	}
	return true
}

// rests is how long it has to rest, so that a list that changes all the time takes no more than a quarter of a core. In the
// end what others do to the table must not wait for it.
func (w *wanted) rests() time.Duration { return min(time.Until(w.rested), checkEvery/4) }

func (w *wanted) isOver() bool {
	select {
	case <-w.changed:
		return true
	default:
		return false
	}
}
