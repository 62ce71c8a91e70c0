package console

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"weir/internal/keytext"
	"weir/pkg/blocklist"
	"weir/pkg/enforcer/whatif"
	"weir/pkg/rule"
)

// A whatIfView is a question about other limits of a rule, and its answer.
type whatIfView struct {
	Form   *whatIfForm
	Error  string
	Answer *whatif.Answer // nil before
	Sums   []whatIfSum
	Keys   []whatIfKey
	More   int // blocked keys that are not shown
	First  string
	Last   string
}

// A whatIfForm is the form of such a question.
type whatIfForm struct {
	Rules  []choice
	Limits string
	Since  []choice
}

// A whatIfSum is the outcome of one set of limits.
type whatIfSum struct {
	Name   string
	Limits string
	Other  bool
	Share  string // of the hits that are refused
	whatif.Outcome
}

// A whatIfKey is a key that either would block.
type whatIfKey struct {
	Key, Link  string
	Hits       int64
	Now, Other whatIfVerdict
}

type whatIfVerdict struct {
	Refused int64
	First   string
}

// whatIfForm is nil when no rule has hits.
func (c *Console) whatIfForm(rule, limits, since string) *whatIfForm {
	form := &whatIfForm{Limits: keytext.Shown(limits)}
	if set := c.config.Rules(); set != nil {
		for _, one := range set.Rules {
			if one.CountsLog() {
				form.Rules = append(form.Rules, choice{one.Name, keytext.Shown(one.Name), one.Name == rule})
			}
		}
	}
	if form.Rules == nil {
		return nil
	}
	form.Since = choices(since, "15m", "the last 15 minutes", "1h", "the last hour", "6h", "the last 6 hours", "24h", "the last day", "48h", "the last 2 days")
	return form
}

// whatIf is the page that shows what other limits would have done.
func (c *Console) whatIf(w http.ResponseWriter, r *http.Request, v *visitor) error {
	asked := r.URL.Query()
	shown := &whatIfView{Form: c.whatIfForm(asked.Get("rule"), asked.Get("limits"), asked.Get("since"))}
	answer := c.ask(r, v, http.MethodGet, "/v1/whatif", url.Values{"rule": {asked.Get("rule")}, "limits": {asked.Get("limits")}, "since": {asked.Get("since")}}, nil)
	known := &whatif.Answer{}
	switch {
	case answer.status != http.StatusOK:
		shown.Error = sentence(keytext.Shown(answer.detail()))
	case json.Unmarshal(answer.body.Bytes(), known) != nil:
		shown.Error = "The enforcer's answer cannot be read."
	default:
		shown.fill(known, c.fieldOf(asked.Get("rule")))
	}
	c.render(w, r, http.StatusOK, "whatif", &view{Title: "Other limits", Active: "rules", Visitor: v, Body: shown})
	return nil
}

// fieldOf is the field that a rule counts by; empty for several.
func (c *Console) fieldOf(name string) string {
	if set := c.config.Rules(); set != nil {
		for _, one := range set.Rules {
			if words := one.Key.Words(); one.Name == name && len(words) == 1 {
				field, _, _ := strings.Cut(words[0], "/") // ip/24+56
				return field
			}
		}
	}
	return ""
}

func (s *whatIfView) fill(a *whatif.Answer, field string) {
	s.Answer, s.First, s.Last = a, instantOf(a.First), instantOf(a.Last)
	for i, outcome := range []whatif.Outcome{a.Now, a.Other} {
		sum := whatIfSum{Name: "as it is", Limits: keytext.Shown(rule.JoinTexts(outcome.Limits)), Outcome: outcome}
		if sum.Other = i == 1; sum.Other {
			sum.Name = "with the other limits"
		}
		if a.Hits > 0 {
			sum.Share = percent(outcome.Refused, a.Hits)
		}
		s.Sums = append(s.Sums, sum)
	}
	for i := range a.Top {
		k := &a.Top[i]
		target := k.Key
		if field != "" {
			target = (&blocklist.Entry{Key: k.Key, Fields: map[string]string{field: k.Key}}).Target()
		}
		s.Keys = append(s.Keys, whatIfKey{Key: keytext.Shown(target), Link: keyLink(target), Hits: k.Hits,
			Now: whatIfVerdict{k.Now.Refused, instantOf(k.Now.First)}, Other: whatIfVerdict{k.Other.Refused, instantOf(k.Other.First)}})
	}
	for i, note := range a.Notes {
		a.Notes[i] = keytext.Shown(note)
	}
	s.More = max(0, a.Now.Blocked+a.OnlyOther-len(a.Top))
}

// instantOf is empty for none.
func instantOf(at whatif.Instant) string {
	if at == 0 {
		return ""
	}
	return time.UnixMilli(int64(at)).UTC().Format(time.RFC3339)
}
