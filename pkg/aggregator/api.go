package aggregator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"weir/pkg/aggregator/windows"
	"weir/pkg/hit"
	"weir/pkg/rule"
	"weir/pkg/window"
)

const (
	askPatience = 5 * time.Second
	usualTop    = 20
	mostTop     = 1000
)

// Handle adds what can be asked over HTTP: one key, the heaviest keys, the partitions.
func (a *Aggregator) Handle(add func(pattern string, handler http.Handler)) {
	add("GET /v1/keys", http.HandlerFunc(a.serveKey))
	add("GET /v1/top", http.HandlerFunc(a.serveTop))
	add("GET /v1/partitions", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w, a.Status().Partitions) }))
}

func answer(w http.ResponseWriter, what any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(what)
}

// A keyStatus is what is known of a key.
type keyStatus struct {
	Rule      string        `json:"rule"`
	Key       string        `json:"key"`
	Partition int           `json:"partition"`
	Where     string        `json:"where"` // hot, cold, or none where nothing is remembered
	At        time.Time     `json:"at"`    // the time that the counts are of
	Newest    *time.Time    `json:"newest"`
	Limits    []limitStatus `json:"limits"`
	Block     *blockStatus  `json:"block"` // the last one, nil where there was none
}

type limitStatus struct {
	Limit  string     `json:"limit"`
	Count  int64      `json:"count"`
	Clears *time.Time `json:"clears"` // when the count is zero, if no further hit comes; nil when it is
}

type blockStatus struct {
	ID      string     `json:"id"`
	From    time.Time  `json:"from"`
	Until   *time.Time `json:"until"` // nil for ever
	Limit   string     `json:"limit"`
	Count   int64      `json:"count"`
	Level   int        `json:"level"`
	Blocked bool       `json:"blocked"` // it lasts
	Ended   *time.Time `json:"ended"`
}

func (a *Aggregator) serveKey(w http.ResponseWriter, r *http.Request) {
	named, key, ok := a.askedKey(w, r)
	if !ok {
		return
	}

	number := hit.Partition(named.Name, []byte(key), a.config.Partitions)
	p := a.owner(number)
	if p == nil {
		http.Error(w, fmt.Sprintf("partition %d, where this key is counted, is another aggregator's", number), http.StatusNotFound)
		return
	}

	status, err := p.explain(r.Context(), named.Name, key)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}

	answer(w, status)
}

// askedKey is the rule and the canonical key that are asked for.
func (a *Aggregator) askedKey(w http.ResponseWriter, r *http.Request) (*rule.Rule, string, bool) {
	named, _ := a.rules.Load().set.Rule(r.URL.Query().Get("rule"))
	if named == nil {
		http.Error(w, fmt.Sprintf("there is no rule %q; ask as ?rule=NAME&key=KEY", r.URL.Query().Get("rule")), http.StatusNotFound)
		return nil, "", false
	}
	key, err := named.Key.Canonical(r.URL.Query().Get("key"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return nil, "", false
	}
	return named, key, true
}

// ask has the partition's goroutine run something, and waits for it.
func (p *partition) ask(ctx context.Context, run func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	answered := make(chan error, 1)
	select {
	case p.asks <- func(of context.Context) { answered <- run(of) }:
	case <-ctx.Done():
		return fmt.Errorf("partition %d does not answer: %w", p.number, ctx.Err())
	}

	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
		return fmt.Errorf("partition %d does not answer: %w", p.number, ctx.Err())
	}
}

// keyStatus looks without moving anything: a cold key stays cold. The error is errCold for one that has to be read.
func (p *partition) keyStatus(ruleName, key string, cold *reading) (*keyStatus, error) {
	c := p.rules.named(ruleName)
	if c == nil {
		return nil, fmt.Errorf("the rule %q is not in force here yet", ruleName)
	}

	w, where, err := p.peek(c, ruleName+"/"+key, cold)
	if err != nil {
		return nil, err
	}

	at := p.time()
	s := &keyStatus{Rule: ruleName, Key: key, Partition: p.number, Where: where, At: time.UnixMilli(at).UTC(), Newest: instant(w.State.Newest()), Limits: []limitStatus{}}
	for i, limit := range w.Rule.Spec.Limits {
		count := w.Rule.Policy.Count(&w.State, i, at)
		one := limitStatus{Limit: limit.Text, Count: count}
		if count > 0 {
			one.Clears = instant(clears(w, i, at, limit.Per))
		}
		s.Limits = append(s.Limits, one)
	}

	if v := w.Verdict; v != nil {
		s.Block = &blockStatus{ID: v.ID(ruleName, key), From: time.UnixMilli(v.From).UTC(), Limit: v.Limit, Count: v.Count,
			Level: v.Level, Blocked: v.Live(at), Ended: instant(v.Ended)}
		if v.Until != window.Never {
			s.Block.Until = instant(v.Until)
		}
	}

	return s, nil
}

// time is what counts are of: now, and while a backlog is read the time that has been reached.
func (p *partition) time() int64 {
	now := p.config.Now().UnixMilli()
	if p.position.Lag().Records > 0 && p.reached > 0 {
		return min(now, p.reached)
	}
	return now
}

// clears is when a limit's count is zero. Counts only fall while no hit comes.
func clears(w *windows.Window, limit int, at int64, per time.Duration) int64 {
	low, high := at, max(at, w.State.Newest())+2*per.Milliseconds()
	for low < high {
		if mid := (low + high) / 2; w.Rule.Policy.Count(&w.State, limit, mid) == 0 {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low
}

// A heavyKey is a key and how near it is to its rule's limits.
type heavyKey struct {
	Rule  string  `json:"rule"`
	Key   string  `json:"key"`
	Limit string  `json:"limit"`
	Count int64   `json:"count"`
	Share float64 `json:"share"` // of the limit that is used
}

func (a *Aggregator) serveTop(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("rule")
	if named, _ := a.rules.Load().set.Rule(name); named == nil && name != "" {
		http.Error(w, fmt.Sprintf("there is no rule %q", name), http.StatusNotFound)
		return
	}

	top := usualTop
	if text := r.URL.Query().Get("n"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > mostTop {
			http.Error(w, fmt.Sprintf("n is how many keys: 1 to %d", mostTop), http.StatusBadRequest)
			return
		}
		top = n
	}

	keys, err := a.heaviest(r.Context(), name, top)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}

	answer(w, keys)
}

// heaviest asks all partitions here at once, because each answers only between batches.
func (a *Aggregator) heaviest(ctx context.Context, ruleName string, n int) ([]heavyKey, error) {
	keys, faults := make([][]heavyKey, a.config.Partitions), make([]error, a.config.Partitions)
	var asked sync.WaitGroup
	for number := range a.config.Partitions {
		if p := a.owner(number); p != nil {
			asked.Go(func() { keys[number], faults[number] = p.askTop(ctx, ruleName, n) })
		}
	}
	asked.Wait()
	return heaviestOf(append([]heavyKey{}, slices.Concat(keys...)...), n), errors.Join(faults...)
}

// askTop has the partition's goroutine look for its heaviest keys.
func (p *partition) askTop(ctx context.Context, ruleName string, n int) ([]heavyKey, error) {
	var keys []heavyKey
	err := p.ask(ctx, func(context.Context) error {
		keys = p.top(ruleName, n)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return keys, nil
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
	at := p.time()
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
