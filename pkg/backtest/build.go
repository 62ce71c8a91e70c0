package backtest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"weir/pkg/rule"
	"weir/pkg/window"
)

// seriesBars is the maximum number of bars of the requests over time.
const seriesBars = 240

// newTallies makes the tallies of the rules of a set. They count under the algorithm with; nil is each rule's own.
func newTallies(c *Config, set *rule.Set, with *window.Algorithm) ([]tally, error) {
	tallies := make([]tally, len(set.Rules))
	for i, r := range set.Rules {
		if with != nil && *with != r.Algorithm && !r.HasValues() {
			// Burst and sub-windows of one algorithm mean nothing to another, so these get defaults, and only the
			// limits are compared.
			other := *r
			other.Block.Clear = false // of sliding only
			other.Algorithm, other.Burst, other.Subwindows = *with, 0, cmp.Or(r.Subwindows, rule.DefaultSubwindows)
			r = &other
		}

		awaits, late := r.CountsShare() || r.EstimatesValues(), c.Late
		if awaits {
			late = c.Judged
		}
		policy, err := r.Policy(late, c.Remember)
		if err != nil {
			return nil, fmt.Errorf("rule %s: %w", r.Name, err)
		}

		t := &tallies[i]
		*t = tally{policy: policy, sliding: r.Algorithm == window.Sliding && !r.HasValues(), distinct: r.CountsDistinct(), share: r.CountsShare(), awaits: awaits, group: r.CountsBlocks(), enforce: r.Mode == rule.Enforce, algorithm: r.Algorithm}
		for _, l := range r.Limits {
			t.limits = append(t.limits, l.Limit)
		}
	}

	return tallies, nil
}

// ruleReports makes the reports of the rules of a set under a variant; uncounted is by rule.
func ruleReports(set *rule.Set, keys *keyTable, v *variant, uncounted [][rule.Reasons]int64) []RuleReport {
	reports := make([]RuleReport, len(set.Rules))
	for i, r := range set.Rules {
		t := &v.rules[i]
		reports[i] = RuleReport{
			Rule: r.Name, Mode: r.Mode.String(), Algorithm: t.algorithm.String(), Key: r.Key.String(), Limits: []string{},
			Keys: t.keys, Requests: t.requests, Refused: t.refused, Uncounted: uncountedOf(uncounted[i], t.late), Blocked: []Blocked{}, Inline: isLeftOut(r),
		}
		if reports[i].Inline {
			clear(reports[i].Uncounted) // the sentence about the rule is enough
		}
		for _, l := range r.Limits {
			reports[i].Limits = append(reports[i].Limits, l.Text)
		}
	}

	// One walk over all keys, and not one for each rule.
	keys.each(func(number, i int, key []byte) {
		if a := v.account(number); a.offence != nil {
			reports[i].Blocked = append(reports[i].Blocked, blockedOf(set.Rules[i], v, a, string(key)))
		}
	})

	for i := range reports {
		slices.SortFunc(reports[i].Blocked, func(a, b Blocked) int {
			return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Key, b.Key))
		})
	}

	return reports
}

func blockedOf(r *rule.Rule, v *variant, a *account, key string) Blocked {
	f := a.offence
	var below map[uint64]bool // addresses that groups below have counted
	if r.Above != "" {
		below = v.members
	}
	limit := r.Limits[f.limit]
	return Blocked{
		Key: key, First: Instant(f.first), Limit: limit.Text, Peak: f.peak.most, Requests: a.requests, Refused: f.refused, Blocks: f.blocks,
		allowed: limit.Hits, per: limit.Per.Milliseconds(), timeline: f.timeline,
		Group: f.group.report(below),
	}
}

// Reasons of requests that were not counted, in addition to those of rules.
const (
	reasonLate = "late"
)

func uncountedOf(counts [rule.Reasons]int64, late int64) map[string]int64 {
	uncounted := map[string]int64{reasonLate: late}
	for reason := rule.Counted + 1; reason < rule.Reasons; reason++ {
		uncounted[reason.String()] = counts[reason]
	}
	maps.DeleteFunc(uncounted, func(_ string, n int64) bool { return n == 0 })
	return uncounted
}

// stateBytes is the memory of all states of a variant.
func (v *variant) stateBytes(keys int) (bytes int64) {
	for number := range keys {
		bytes += int64(v.account(number).state.Bytes())
	}
	return bytes
}
