package aggregator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"weir/pkg/hit"
	"weir/pkg/rule"
)

const (
	usualTop = 20
	mostTop  = 1000
)

// Handle adds what can be asked over HTTP: one key, the heaviest keys, the partitions.
func (a *Aggregator) Handle(add func(pattern string, handler http.Handler)) {
	add("GET /v1/keys", http.HandlerFunc(a.serveKey))
	add("GET /v1/top", http.HandlerFunc(a.serveTop))
	add("GET /v1/partitions", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, a.Status().Partitions) }))
}

func writeJSON(w http.ResponseWriter, what any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(what)
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

	writeJSON(w, status)
}

// askedKey is the rule and the canonical key that are asked for.
func (a *Aggregator) askedKey(w http.ResponseWriter, r *http.Request) (*rule.Rule, string, bool) {
	named, _ := a.rules.Load().set.Rule(r.URL.Query().Get("rule"))
	if named == nil {
		http.Error(w, fmt.Sprintf("there is no rule %q; ask as ?rule=NAME&key=KEY", r.URL.Query().Get("rule")), http.StatusNotFound)
		return nil, "", false
	}
	if !named.CountsLog() {
		http.Error(w, decidedInline(named), http.StatusNotFound)
		return nil, "", false
	}
	key, err := named.Key.Canonical(r.URL.Query().Get("key"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return nil, "", false
	}
	return named, key, true
}

func decidedInline(r *rule.Rule) string {
	return fmt.Sprintf("rule %s is decided inline: aggregators do not count it", r.Name)
}

func (a *Aggregator) serveTop(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("rule")
	switch named, _ := a.rules.Load().set.Rule(name); {
	case named == nil && name != "":
		http.Error(w, fmt.Sprintf("there is no rule %q", name), http.StatusNotFound)
		return
	case named != nil && !named.CountsLog(): // enforcers have its keys
		writeJSON(w, []heavyKey{})
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

	writeJSON(w, keys)
}

// heaviest asks all partitions here at once, because each answers only between batches. It goes on when the caller has gone:
// a partition does that, too.
func (a *Aggregator) heaviest(ctx context.Context, ruleName string, n int) ([]heavyKey, error) {
	return a.tops.take(ctx, topQuestion{ruleName, n}, func() ([]heavyKey, time.Duration, error) {
		ctx := context.WithoutCancel(ctx)
		answers, faults := make([]topAnswer, a.config.Partitions), make([]error, a.config.Partitions)
		var asked sync.WaitGroup
		for number := range a.config.Partitions {
			if p := a.owner(number); p != nil {
				asked.Go(func() {
					begun := time.Now()
					answers[number], faults[number] = ask(ctx, p.asks, func(context.Context) (topAnswer, error) { return p.top(ruleName, n), nil })
					if faults[number] != nil { // it may be looking still
						answers[number].took = time.Since(begun)
					}
				})
			}
		}
		asked.Wait()
		var all topAnswer
		for _, one := range answers {
			all.keys, all.took = append(all.keys, one.keys...), max(all.took, one.took)
		}
		return heaviestOf(append([]heavyKey{}, all.keys...), n), all.took, errors.Join(faults...)
	})
}
