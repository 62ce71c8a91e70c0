package enforcer

import (
	"cmp"
	"net/http"

	"weir/internal/keys"
	"weir/pkg/blocklist"
	"weir/pkg/rule"
)

// usualConfirmation is how long a rule is confirmed when the request does not say it: the guard is meant to come back.
const usualConfirmation = "1h"

// A guardedRule is a rule whose guard keeps blocks from being enforced, or that is confirmed.
type guardedRule struct {
	Rule      string           `json:"rule"`
	MostNew   int64            `json:"most_new,omitempty"`         // blocks a minute; 0 where this enforcer does not know the rule
	MostShare float64          `json:"most_share,omitempty"`       // percent of the keys of a minute; 0 likewise
	Guarded   int              `json:"guarded"`                    // active entries
	ByShare   int              `json:"guarded_by_share,omitempty"` // of these, those beyond most_share; the others are beyond most_new
	Confirmed *blocklist.Entry `json:"confirmed,omitempty"`
}

// guards is GET /v1/guard.
func (e *Enforcer) guards(w http.ResponseWriter, r *http.Request) error {
	if _, err := e.Admit(r, keys.Read); err != nil {
		return err
	}
	now := e.config.Now().UnixMilli()
	confirmed := map[string]*blocklist.Entry{}
	for order := range e.config.Set.Orders(now) {
		if order.Kind == blocklist.OrderConfirm {
			confirmed[order.Rule] = order.Entry()
		}
	}

	rules := []guardedRule{}
	for _, g := range e.config.Set.Guarded(now) {
		one := guardedRule{Rule: g.Rule, Guarded: g.Entries, ByShare: g.ByShare, Confirmed: confirmed[g.Rule]}
		if known, _ := e.ruling.Load().Rules.Rule(g.Rule); known != nil {
			one.MostNew, one.MostShare = known.Guard.MostNew, known.Guard.MostShare
		}
		rules = append(rules, one)
	}
	writeJSON(w, http.StatusOK, map[string]any{"rules": rules})
	return nil
}

// confirmGuard is POST /v1/guard: guarded entries of a rule are enforced for a while.
func (e *Enforcer) confirmGuard(w http.ResponseWriter, r *http.Request) error {
	o, err := e.begin(r)
	if err != nil {
		return err
	}
	q, err := readBody(w, r, maxBody)
	if err != nil {
		return err
	}
	if q.Target != "" || q.Targets != nil || q.End || q.Preview {
		return problemf(http.StatusBadRequest, "a confirmation is for one rule: leave target out")
	}
	if q.Rule == "" || q.Rule == blocklist.EveryRule {
		return problemf(http.StatusBadRequest, "the rule is missing: each rule is confirmed by its name")
	}
	switch known, _ := e.ruling.Load().Rules.Rule(q.Rule); {
	case known == nil:
	case known.Mode == rule.Shadow:
		return problemf(http.StatusConflict, "the rule %s is in shadow mode and refuses no one, so there is nothing to confirm: set its mode to enforce", q.Rule)
	case known.Guard.Off() && !e.hasGuarded(q.Rule):
		return problemf(http.StatusConflict, "the rule %s has no guard, so there is nothing to confirm: its blocks are enforced", q.Rule)
	}
	if q.Until == "" {
		q.For = cmp.Or(q.For, usualConfirmation)
	}

	return e.orderForRule(w, r, o, q, blocklist.OrderConfirm)
}

// hasGuarded reports whether a rule has guarded entries, or is confirmed. Its guard may have been taken away since.
func (e *Enforcer) hasGuarded(rule string) bool {
	for _, g := range e.config.Set.Guarded(e.config.Now().UnixMilli()) {
		if g.Rule == rule {
			return true
		}
	}
	return false
}

// endConfirmation is DELETE /v1/guard.
func (e *Enforcer) endConfirmation(w http.ResponseWriter, r *http.Request) error {
	o, err := e.begin(r)
	if err != nil {
		return err
	}
	q, err := readQuery(r, "rule", "why")
	if err != nil {
		return err
	}
	if q.Rule == "" {
		return problemf(http.StatusBadRequest, "the rule is missing: a confirmation is of one rule")
	}
	return e.lift(w, r, o, q, func(one *blocklist.Order) bool {
		return one.Kind == blocklist.OrderConfirm && one.Rule == q.Rule
	})
}

// heldBack returns the rules whose guard keeps blocks from being enforced now, with the number of entries, and of these
// with the number of those beyond most_share.
func heldBack(set *blocklist.Set, now int64) (entries, byShare map[string]int) {
	entries, byShare = map[string]int{}, map[string]int{}
	for _, g := range set.Guarded(now) {
		if g.ConfirmedUntil > 0 {
			continue
		}
		entries[g.Rule] = g.Entries
		if g.ByShare > 0 {
			byShare[g.Rule] = g.ByShare
		}
	}
	return entries, byShare
}
