package enforcer

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"weir/internal/keys"
	"weir/pkg/inline"
	"weir/pkg/inline/guarded"
	"weir/pkg/window"
)

// A counts is what an inline rule has counted of a key, in the form of an aggregator's answer.
type counts struct {
	Rule   string        `json:"rule"`
	Key    string        `json:"key"`
	Where  string        `json:"where"` // memory or store, or none where nothing is remembered
	At     time.Time     `json:"at"`
	Newest *time.Time    `json:"newest"`
	Limits []limitCounts `json:"limits"`
}

type limitCounts struct {
	Limit  string     `json:"limit"`
	Count  int64      `json:"count"`
	Clears *time.Time `json:"clears"` // when the count is zero, if no further hit comes; nil when it is
}

// countsOf is GET /v1/keys: the counts of a key of an inline rule.
func (e *Enforcer) countsOf(w http.ResponseWriter, r *http.Request) error {
	if _, err := e.Admit(r, keys.Read); err != nil {
		return err
	}
	query, err := parameters(r, []string{"rule", "key"})
	if err != nil {
		return err
	}
	ruling := e.ruling.Load()
	i, err := ruling.inlineRule(query.Get("rule"))
	if err != nil {
		return err
	}
	of, l := ruling.Rules.Rules[i], &ruling.limits[i]
	key, err := of.Key.Canonical(query.Get("key"))
	if err != nil {
		return problemf(http.StatusBadRequest, "%s", err)
	}

	answer := counts{Rule: of.Name, Key: key, Where: "none", At: e.config.Now().UTC(), Limits: []limitCounts{}}
	where := "memory"
	if e.shared != nil {
		where = "store"
	}
	var none window.State
	count := func(s *window.State, at int64) {
		for j, limit := range of.Limits {
			if limit.Queued { // its consumers know
				continue
			}
			one := limitCounts{Limit: limit.Text, Count: l.enforced.Policy.Count(s, j, at)}
			if one.Count > 0 {
				one.Clears = new(time.UnixMilli(l.enforced.Policy.Clears(s, j, at, limit.Per)).UTC())
			}
			answer.Limits = append(answer.Limits, one)
		}
	}
	known, err := e.inline.Peek(r.Context(), l.enforced, []byte(key), func(s *window.State, at int64) {
		count(s, at)
		answer.Where, answer.At = where, time.UnixMilli(at).UTC()
		answer.Newest = new(time.UnixMilli(s.Newest()).UTC())
	})
	if err != nil {
		return problemf(http.StatusServiceUnavailable, "the counts of inline rules cannot be read: %s", err)
	}
	if known {
		writeJSON(w, http.StatusOK, answer)
		return nil
	}
	count(&none, answer.At.UnixMilli())
	writeJSON(w, http.StatusOK, answer)
	return nil
}

const (
	usualTop = 20
	mostTop  = 1000
)

// A heavyKey is a key of an inline rule, and the limit that it is nearest to.
type heavyKey struct {
	Rule  string  `json:"rule"`
	Key   string  `json:"key"`
	Limit string  `json:"limit"`
	Count int64   `json:"count"`
	Share float64 `json:"share"` // of the limit that is used
}

// top is GET /v1/top: the keys of inline rules that are nearest to a limit. Other rules have none here.
func (e *Enforcer) top(w http.ResponseWriter, r *http.Request) error {
	if _, err := e.Admit(r, keys.Read); err != nil {
		return err
	}
	query, err := parameters(r, []string{"rule", "n"})
	if err != nil {
		return err
	}
	n := usualTop
	if text := query.Get("n"); text != "" {
		if n, err = strconv.Atoi(text); err != nil || n < 1 || n > mostTop {
			return problemf(http.StatusBadRequest, "n is how many keys: 1 to %d", mostTop)
		}
	}
	ruling := e.ruling.Load()
	leave, err := e.mayFind(r) // it looks at all keys
	if err != nil {
		return err
	}
	defer leave()
	all, complete, err := e.heaviest(r.Context(), ruling, query.Get("rule"), n)
	if err != nil {
		return problemf(http.StatusServiceUnavailable, "the counts of inline rules cannot be read: %s", err)
	}
	if !complete {
		w.Header().Set(partialField, "true")
	}
	writeJSON(w, http.StatusOK, all)
	return nil
}

const (
	// partialField marks an answer from a store that has more than could be looked at.
	partialField = "Weir-Partial"
	// topPatience is how long a store is asked for its keys.
	topPatience = 2 * time.Second
)

// heaviest returns the keys of one inline rule, or of all, that are nearest to a limit, and whether it has looked at all.
func (e *Enforcer) heaviest(ctx context.Context, ruling *ruling, name string, n int) (all []heavyKey, complete bool, err error) {
	var rules []*inline.Rule
	indexes := map[*inline.Rule]int{}
	for i, l := range ruling.limits {
		if l.enforced != nil && (name == "" || name == l.enforced.Name) {
			rules = append(rules, l.enforced)
			indexes[l.enforced] = i
		}
	}

	all = []heavyKey{}
	complete, err = e.allKeys(ctx, rules, func(of *inline.Rule, key string, s *window.State, at int64) {
		one := heavyKey{Rule: of.Name, Key: key}
		for j, limit := range ruling.Rules.Rules[indexes[of]].Limits {
			if limit.Queued {
				continue
			}
			count := of.Policy.Count(s, j, at)
			if share := float64(count) / float64(limit.Hits); share > one.Share {
				one.Limit, one.Count, one.Share = limit.Text, count, share
			}
		}
		if one.Count > 0 {
			all = append(all, one)
		}
		if len(all) > 8*n {
			all = heaviestOf(all, n)
		}
	})
	return heaviestOf(all, n), complete, err
}

// allKeys calls look with the keys of some rules, and reports whether these are all.
func (e *Enforcer) allKeys(ctx context.Context, rules []*inline.Rule, look func(of *inline.Rule, key string, s *window.State, at int64)) (complete bool, err error) {
	switch {
	case len(rules) == 0:
		return true, nil
	case e.memory != nil:
		defer e.SearchTurn()()
		e.memory.All(rules, look)
		return true, nil
	case e.storeAway():
		return false, guarded.ErrAway
	}
	ctx, cancel := context.WithTimeout(ctx, topPatience)
	defer cancel()
	return e.shared.All(ctx, rules, look)
}

func heaviestOf(all []heavyKey, n int) []heavyKey {
	slices.SortFunc(all, func(a, b heavyKey) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Key, b.Key))
	})
	return all[:min(n, len(all))]
}
