package console

import (
	"net/http"

	"weir/internal/duration"
	"weir/internal/keytext"
	"weir/pkg/blocklist"
	"weir/pkg/rule"
)

// A rulesView is what the page of the rules shows.
type rulesView struct {
	Rules       []*ruleView
	Fingerprint string
	Numbers     bool   // the enforcer counts refusals
	Paused      string // who paused everything
	Token       string // empty for visitors who may only read
	Back        string
	WhatIf      *whatIfForm // nil when no rule has hits
	Guards      *guardsView
}

// A ruleView is a rule, with what it does now.
type ruleView struct {
	Name, Plain string // to show, and as it is
	Description string
	Match       string
	Key         string
	Limits      string
	Block       string
	Shadow      bool
	Inline      bool
	Blocked     int // keys; in mode shadow those that it would block
	Refused     int64
	Today       *int64 // nil where that is not known
	Paused      string // who paused it
	Link        string
}

// rules is the page of the rules.
func (c *Console) rules(w http.ResponseWriter, r *http.Request, v *visitor) error {
	shown := &rulesView{Back: root + "rules", WhatIf: c.whatIfForm("", "", "1h"), Guards: c.guards(v, root+"rules")}
	if v.writes {
		shown.Token = v.Token()
	}
	lets := c.count().lets
	shown.Paused = keytext.Shown(lets.paused[blocklist.EveryRule])
	counts := map[string]int{}
	for _, one := range c.config.Set.Counts() {
		counts[one.Rule] += one.Entries
	}
	numbers := c.numbers(r, v, nil)
	shown.Numbers = numbers != nil
	if set := c.config.Rules(); set != nil {
		shown.Fingerprint = set.Fingerprint()
		for _, one := range set.Rules {
			next := viewOfRule(one)
			next.Blocked, next.Paused = counts[one.Name], keytext.Shown(lets.paused[one.Name])
			if numbers != nil {
				next.Refused, next.Today = numbers.Rules[one.Name].Refused, numbers.Rules[one.Name].BlockedToday
			}
			shown.Rules = append(shown.Rules, next)
		}
	}
	c.render(w, r, http.StatusOK, "rules", &view{Title: "Rules", Active: "rules", Visitor: v, Notice: v.notice(), Body: shown})
	return nil
}

func viewOfRule(r *rule.Rule) *ruleView {
	limits := make([]string, len(r.Limits))
	for i, l := range r.Limits {
		limits[i] = l.Text
	}
	q := &query{Rule: r.Name}
	shown := &ruleView{Name: keytext.Shown(r.Name), Plain: r.Name, Description: keytext.Shown(r.Description), Match: keytext.Shown(r.Match), Key: keytext.Shown(r.Key.String()),
		Limits: rule.JoinTexts(limits), Shadow: r.Mode == rule.Shadow, Inline: r.Inline, Link: root + "?" + q.values().Encode()}
	switch {
	case r.Inline && !r.CountsRefusals():
		shown.Block = "refuses what is over the limit"
	case r.Block.Clear:
		shown.Block = "until the window clears"
	default:
		shown.Block = "for " + duration.Format(r.Block.For)
		for _, then := range r.Block.Then {
			shown.Block += ", then " + duration.Format(then)
		}
	}
	if !r.Guard.Off() {
		shown.Block += "; guard " + r.GuardText()
	}
	return shown
}
