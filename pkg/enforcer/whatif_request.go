package enforcer

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"weir/internal/keys"
	"weir/internal/nearest"
	"weir/internal/topic"
	"weir/pkg/enforcer/whatif"
	"weir/pkg/rule"
)

// The bounds of a question about other limits.
const (
	maxAskedLimits = 8
	usualSince     = "1h"
	longestSince   = 31 * 24 * time.Hour
)

// whatIf is GET /v1/whatif: what other limits of a rule would have done. One question is answered at a time: it reads
// many hits.
func (e *Enforcer) whatIf(w http.ResponseWriter, r *http.Request) error {
	if _, err := e.Admit(r, keys.Read); err != nil {
		return err
	}
	values, err := parameters(r, []string{"rule", "limits", "since"})
	if err != nil {
		return err
	}
	q, err := e.readWhatIf(values)
	switch {
	case err != nil:
		return err
	case e.config.WhatIf == nil:
		return problemf(http.StatusNotFound, "this enforcer follows %s and reads no hits: ask an enforcer that reads the topics", e.config.Follows)
	}

	leave, ok := e.replaying.TryTake(r)
	if !ok {
		return problemf(http.StatusServiceUnavailable, "another question about limits is being answered; ask again in some seconds")
	}
	defer leave()
	answer, err := e.config.WhatIf(r.Context(), q)
	switch {
	case r.Context().Err() != nil:
		panic(http.ErrAbortHandler) // no one waits for the answer
	case errors.Is(err, whatif.ErrTooMuch):
		return problemf(http.StatusServiceUnavailable, "%s", whatif.ErrTooMuch)
	case errors.Is(err, topic.ErrForbidden):
		return problemf(http.StatusServiceUnavailable, "the enforcer may not read the hits in Kafka: %s", err)
	case err != nil:
		return problemf(http.StatusServiceUnavailable, "%s", err)
	}
	writeJSON(hurry(w), http.StatusOK, answer)
	return nil
}

func (e *Enforcer) readWhatIf(values url.Values) (q whatif.Question, err error) {
	rules := e.ruling.Load().Rules
	name := values.Get("rule")
	if q.Rule, _ = rules.Rule(name); q.Rule == nil {
		return q, problemf(http.StatusBadRequest, "rule %q is not one of the rules%s", name, meant(rules, name))
	}
	if q.Rule.CountsBlocks() {
		return q, problemf(http.StatusBadRequest, "the rule %s counts blocks of other rules, and no requests; weir backtest shows what other limits would have blocked", name)
	}
	if !q.Rule.CountsLog() {
		return q, problemf(http.StatusBadRequest, "the rule %s is inline, so it has no hits; weir compare %s shows what other algorithms would have decided about its attempts", name, name)
	}

	texts := strings.FieldsFunc(values.Get("limits"), func(c rune) bool { return c == ',' || c == ' ' })
	if len(texts) == 0 || len(texts) > maxAskedLimits {
		return q, problemf(http.StatusBadRequest, "limits are 1 to %d limits, such as 20/min,100/hour, not %q", maxAskedLimits, values.Get("limits"))
	}
	for _, text := range texts {
		limit, err := rule.ParseLimit(text)
		if err != nil {
			return q, problemf(http.StatusBadRequest, "limits: %s", err)
		}
		q.Limits = append(q.Limits, limit)
	}
	q.Limits = q.Rule.Phrased(q.Limits)
	other := *q.Rule
	other.Limits = q.Limits
	if _, err := other.Policy(0, 0); err != nil {
		return q, problemf(http.StatusBadRequest, "limits: %s", err)
	}

	now := e.config.Now()
	if q.Since, err = readTime("since", cmp.Or(values.Get("since"), usualSince), now); err != nil {
		return q, err
	}
	if q.Since.After(now) || now.Sub(q.Since) > longestSince {
		return q, problemf(http.StatusBadRequest, "since is up to %d days ago, not %q", longestSince/(24*time.Hour), values.Get("since"))
	}
	q.Fingerprint = rules.Fingerprint()
	q.Turn = e.turns.take
	return q, nil
}

// meant proposes the name of a rule that somebody may have meant.
func meant(rules *rule.Set, name string) string {
	var names []string
	for _, one := range rules.Rules {
		names = append(names, one.Name)
	}
	if word := nearest.Word(name, names); word != "" {
		return ": did you mean " + word + "?"
	}
	return ""
}
