package aggregator

import (
	"cmp"
	"slices"

	"weir/pkg/aggregator/windows"
)

// A heavyKey is a key and how near it is to its rule's limits.
type heavyKey struct {
	Rule  string  `json:"rule"`
	Key   string  `json:"key"`
	Limit string  `json:"limit"`
	Count int64   `json:"count"`
	Share float64 `json:"share"` // of the limit that is used
}

func heaviestOf(keys []heavyKey, n int) []heavyKey {
	slices.SortFunc(keys, func(a, b heavyKey) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Key, b.Key))
	})
	return keys[:min(n, len(keys))]
}

// top looks at every hot window, some 0.1 µs each.
func (p *partition) top(ruleName string, n int) []heavyKey {
	var keys []heavyKey
	at := p.countedTime()
	for _, w := range p.windows.Hot() {
		if w.Rule.Spec == nil || ruleName != "" && w.Rule.Name != ruleName {
			continue
		}
		if one := heaviest(w, at); one.Count > 0 {
			keys = append(keys, one)
		}
		if len(keys) > 8*n {
			keys = heaviestOf(keys, n)
		}
	}

	return heaviestOf(keys, n)
}

// heaviest is the limit that a window is nearest to.
func heaviest(w *windows.Window, at int64) heavyKey {
	one := heavyKey{Rule: w.Rule.Name, Key: w.Key()}
	for i, limit := range w.Rule.Spec.Limits {
		count := w.Rule.Policy.Count(&w.State, i, at)
		if share := float64(count) / float64(limit.Hits); share > one.Share {
			one.Limit, one.Count, one.Share = limit.Text, count, share
		}
	}
	return one
}
