package blocklist

// A GuardedRule is a rule with entries that its guard keeps from being enforced.
type GuardedRule struct {
	Rule           string
	Entries        int   // it may include some that have just ended
	ConfirmedUntil int64 // until then they are enforced, because a person has confirmed the rule; 0 when none has
}

// Guarded returns the rules that have guarded entries, and those that are confirmed.
func (s *Set) Guarded(nowMilli int64) (rules []GuardedRule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, state := range s.list.Load().view.Load().rules {
		g := GuardedRule{Rule: state.name, Entries: state.guarded}
		if until := state.confirmedUntil.Load(); until > nowMilli {
			g.ConfirmedUntil = until
		}
		if g.Entries > 0 || g.ConfirmedUntil > 0 {
			rules = append(rules, g)
		}
	}
	return rules
}
