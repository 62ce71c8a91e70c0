package windows

import (
	"cmp"

	"weir/pkg/rule"
	"weir/pkg/window"
)

// The outcomes that a rule's hits are tallied by: those of pkg/window, and two that are never counted.
const (
	Ahead    = int(window.Undone) + 1 + iota // their time is ahead of the collector's clock by too much
	Replayed                                 // they were in the window already
	Outcomes
)

// A Rule is one whose hits a partition counts.
type Rule struct {
	Name   string
	Spec   *rule.Rule // nil for one that is gone
	Policy *window.Policy
	Of     uint64          // what the values of its hits are of; 0 where they have none
	Tally  [Outcomes]int64 // hits that the metrics do not have yet

	CountsKeys bool // its guard bounds the share of keys, so the Guard sees each hit

	bytes int // of a window in the store, by those that were read last; 0 while none was
}

// expected is how many bytes a window of the rule has in the store, as far as that can be foreseen.
func (r *Rule) expected() int { return cmp.Or(r.bytes, firstBytes) }

// LimitText is a limit as the rules write it.
func (r *Rule) LimitText(i int) string {
	if i < len(r.Spec.Limits) {
		return r.Spec.Limits[i].Text
	}
	return ""
}

// HeldBack says whether the rule's guard keeps the verdict from being enforced. In shadow mode there is nothing to keep.
func (v *Verdict) HeldBack(r *Rule) bool {
	return v.Guarded != 0 && r.Spec != nil && r.Spec.Mode == rule.Enforce
}

// CountsAgain is when hits of the key count again if the verdict is guarded: a minute after it began, as the guard counts
// blocks by the minute.
func (v *Verdict) CountsAgain() int64 { return min(v.From+minute, v.Until) }

// GoesOn reports whether another block of the key, which begins at an instant and is guarded too, is the same offence: the
// verdict lasts and is held back.
func (v *Verdict) GoesOn(r *Rule, from int64) bool {
	return v != nil && v.HeldBack(r) && v.Ended == 0 && from < v.Until
}

// ModeOf is the mode that a verdict of the rule is published in, empty where the rule is gone.
func (r *Rule) ModeOf(v *Verdict) string {
	if v.HeldBack(r) {
		return rule.Shadow.String()
	}
	return r.Mode()
}

// Mode is the rule's, empty where it is gone.
func (r *Rule) Mode() string {
	if r.Spec == nil {
		return ""
	}
	return r.Spec.Mode.String()
}
