package aggregator

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

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

// topTurns has one question for the heaviest keys be answered at a time, and then none for topRest times as long, because
// hits are not counted meanwhile. The same question gets the same answer until then.
type topTurns struct {
	turn chan struct{} // one has it

	// Of the one whose turn it is:
	last  topQuestion
	keys  []heavyKey
	again time.Time
}

type topQuestion struct {
	rule string
	n    int
}

// A topAnswer is that of a partition, and how long its hits were not counted.
type topAnswer struct {
	keys []heavyKey
	took time.Duration
}

const topRest = 3

var errTop = errors.New("too many ask for the heaviest keys: ask again later")

func newTopTurns() topTurns { return topTurns{turn: make(chan struct{}, 1)} }

// take answers a question by look, which also returns for how long hits were not counted.
func (t *topTurns) take(ctx context.Context, q topQuestion, look func() ([]heavyKey, time.Duration, error)) ([]heavyKey, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, askPatience, errTop)
	defer cancel()
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}

	rest := time.Until(t.again)
	if rest > 0 && q == t.last {
		return t.keys, nil
	}
	select {
	case <-time.After(rest):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	keys, took, err := look()
	if t.again = time.Now().Add(topRest * took); err == nil {
		t.last, t.keys = q, keys
	}
	return keys, err
}

func heaviestOf(keys []heavyKey, n int) []heavyKey {
	slices.SortFunc(keys, func(a, b heavyKey) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Key, b.Key))
	})
	return keys[:min(n, len(keys))]
}

// top looks at every hot window, some 0.1 µs each; one of an estimate takes up to some 100 µs.
func (p *partition) top(ruleName string, n int) topAnswer {
	begun := time.Now()
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

	return topAnswer{heaviestOf(keys, n), time.Since(begun)}
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
