package backtest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// name is the title of a comparison of two rules.
func (c *RuleChange) name() string {
	switch {
	case c.Before == "":
		return c.After + " (new)"
	case c.After == "":
		return c.Before + " (gone)"
	case c.Before != c.After:
		return c.Before + " → " + c.After
	}
	return c.After
}

// counts describes how many keys changed and how.
func (c *RuleChange) counts() string {
	return fmt.Sprintf("%s newly blocked, %s no longer, %s differently, %s as before",
		counted(int64(len(c.OnlyAfter)), "key"), grouped(int64(len(c.OnlyBefore))), grouped(int64(len(c.Changed))), grouped(c.Same))
}

// compareRules compares the results of two sets of rules: rules of the same name with each other, then the remaining
// ones that count by the same key, then each of the rest with nothing. Rules that are left out on both sides are not
// compared.
func compareRules(before, after []RuleReport) []RuleChange {
	partner := partners(before, after)
	var changes []RuleChange
	nothing := &RuleReport{}
	for i := range after {
		was := nothing
		if j, ok := partner[i]; ok {
			was = &before[j]
		}
		if after[i].Inline && (was == nothing || was.Inline) {
			continue
		}
		changes = append(changes, compareRule(was, &after[i]))
	}

	for j := range before {
		if !contains(partner, j) && !before[j].Inline {
			changes = append(changes, compareRule(&before[j], nothing))
		}
	}

	return changes
}

// partners finds for the rules of after, by index, those of before that they are compared with.
func partners(before, after []RuleReport) map[int]int {
	partner := map[int]int{}
	match := func(alike func(b, a *RuleReport) bool) {
		for i := range after {
			for j := range before {
				if _, has := partner[i]; !has && !contains(partner, j) && alike(&before[j], &after[i]) {
					partner[i] = j
				}
			}
		}
	}

	// Names first: a rule that was only renamed is found by its key.
	match(func(b, a *RuleReport) bool { return b.Rule == a.Rule })
	match(func(b, a *RuleReport) bool { return b.Key == a.Key && !b.Inline && !a.Inline })
	return partner
}

func contains(partner map[int]int, j int) bool {
	return slices.Contains(slices.Collect(maps.Values(partner)), j)
}

func compareRule(before, after *RuleReport) RuleChange {
	c := RuleChange{Before: before.Rule, After: after.Rule, OnlyBefore: []Blocked{}, OnlyAfter: []Blocked{}, Changed: []KeyChange{}}
	was := map[string]Blocked{}
	for _, b := range before.Blocked {
		was[b.Key] = b
	}

	for _, now := range after.Blocked {
		b, both := was[now.Key]
		delete(was, now.Key)
		switch {
		case !both:
			c.OnlyAfter = append(c.OnlyAfter, now)
		case b.First == now.First && b.Limit == now.Limit && b.Refused == now.Refused:
			c.Same++
		default:
			c.Changed = append(c.Changed, KeyChange{now.Key, b, now})
		}
	}

	for _, b := range before.Blocked {
		if _, only := was[b.Key]; only {
			c.OnlyBefore = append(c.OnlyBefore, b)
		}
	}

	// The largest difference first, because lists are cut at their end.
	slices.SortStableFunc(c.Changed, func(a, b KeyChange) int { return cmp.Compare(b.turned(), a.turned()) })
	return c
}

// turned is how many requests more or fewer are refused.
func (k *KeyChange) turned() int64 {
	return max(k.After.Refused-k.Before.Refused, k.Before.Refused-k.After.Refused)
}

// An algorithmRow is one key under each algorithm; nil where it is not blocked.
type algorithmRow struct {
	rule, key string
	blocked   []*Blocked
}

// compareAlgorithms lists the keys that any algorithm blocks, those refused most first.
func compareAlgorithms(algorithms []AlgorithmReport) []algorithmRow {
	type ruleKey struct{ rule, key string }
	index := map[ruleKey]int{}
	var rows []algorithmRow

	// A key may be blocked by some algorithms only, so the rows are collected over all of them.
	for i := range algorithms {
		for _, r := range algorithms[i].Rules {
			for j := range r.Blocked {
				b := &r.Blocked[j]
				rk := ruleKey{r.Rule, b.Key}
				at, known := index[rk]
				if !known {
					at = len(rows)
					index[rk] = at
					rows = append(rows, algorithmRow{r.Rule, b.Key, make([]*Blocked, len(algorithms))})
				}
				rows[at].blocked[i] = b
			}
		}
	}

	slices.SortFunc(rows, func(a, b algorithmRow) int {
		return cmp.Or(cmp.Compare(b.refused(), a.refused()), cmp.Compare(a.rule, b.rule), cmp.Compare(a.key, b.key))
	})
	return rows
}

// refused is the maximum number of requests that an algorithm refuses the key.
func (r *algorithmRow) refused() (most int64) {
	for _, b := range r.blocked {
		if b != nil {
			most = max(most, b.Refused)
		}
	}
	return most
}
