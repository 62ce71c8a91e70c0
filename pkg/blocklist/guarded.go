package blocklist

import "fmt"

// A GuardedRule is a rule with entries that its guard keeps from being enforced.
type GuardedRule struct {
	Rule           string
	Entries        int   // it may include some that have just ended
	ByShare        int   // of these, those beyond the guard's most_share; the others are beyond most_new
	ConfirmedUntil int64 // until then they are enforced, because a person has confirmed the rule; 0 when none has
}

// Guarded returns the rules that have guarded entries, and those that are confirmed.
func (s *Set) Guarded(nowMilli int64) (rules []GuardedRule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, state := range s.list.Load().view.Load().rules {
		g := GuardedRule{Rule: state.name, Entries: state.guarded, ByShare: state.byShare}
		if until := state.confirmedUntil.Load(); until > nowMilli {
			g.ConfirmedUntil = until
		}
		if g.Entries > 0 || g.ConfirmedUntil > 0 {
			rules = append(rules, g)
		}
	}
	return rules
}

// Beyond is which bounds of the guard the entries exceed, in words: "most_new", or "most_new, 12 of them most_share".
func (g GuardedRule) Beyond() string {
	if g.ByShare > 0 && g.ByShare < g.Entries {
		return fmt.Sprintf("%s, %d of them %s", GuardedBy(false), g.ByShare, GuardedBy(true))
	}
	return GuardedBy(g.ByShare > 0)
}

// GuardedBy is the bound of a guard that an entry exceeds, as the rules write it.
func GuardedBy(share bool) string {
	if share {
		return "most_share"
	}
	return "most_new"
}
