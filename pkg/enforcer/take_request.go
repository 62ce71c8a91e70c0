package enforcer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"weir/internal/address"
	"weir/internal/keys"
	"weir/internal/nearest"
	"weir/pkg/inline"
	"weir/pkg/request"
	"weir/pkg/rule"
)

// maxTakes bounds the rules of one attempt.
const maxTakes = 16

// A takeRequest is an application's attempt: at one rule, or at several at once.
type takeRequest struct {
	oneTake
	Rules []oneTake `json:"rules"`
}

type oneTake struct {
	Rule   string            `json:"rule"`
	Fields map[string]string `json:"fields"`
	Cost   *int64            `json:"cost"`
}

// A takeAnswer is the answer to an attempt. Of several rules its first fields are about the one that decides.
type takeAnswer struct {
	Admitted  bool         `json:"admitted"`
	Attempt   string       `json:"attempt,omitempty"`
	Rule      string       `json:"rule"`
	Limit     string       `json:"limit,omitempty"`
	Remaining *int64       `json:"remaining,omitempty"`
	Again     *time.Time   `json:"again,omitempty"`   // when such an attempt is admitted, where none comes before
	Shadow    bool         `json:"shadow,omitempty"`  // the rule would refuse it if it enforced
	Allowed   bool         `json:"allowed,omitempty"` // the rule leaves it alone
	Store     string       `json:"store,omitempty"`   // ok, or the answer without the store: allow, refuse, local
	Rules     []takeAnswer `json:"rules,omitempty"`
}

const takeExample = `{"rule": "quota", "fields": {"user": "alice"}, "cost": 1}`

// takes answers an application's attempt.
func (e *Enforcer) takes(w http.ResponseWriter, r *http.Request) error {
	if _, err := e.Admit(r, keys.Take); err != nil {
		return err
	}
	var asked takeRequest
	if err := readJSON(w, r, &asked); err != nil {
		return problemf(bodyStatus(err), "the body is not an attempt: %s; write %s", err, takeExample)
	}

	all := asked.Rules
	switch {
	case len(all) == 0:
		all = []oneTake{asked.oneTake}
	case asked.Rule != "" || asked.Fields != nil || asked.Cost != nil:
		return problemf(http.StatusBadRequest, "there is one rule and a list of rules; leave one of them out")
	case len(all) > maxTakes:
		return problemf(http.StatusBadRequest, "%d rules are too many for one attempt; at most %d are allowed", len(all), maxTakes)
	}

	ruling := e.ruling.Load()
	a := ruling.askings.Get().(*asking)
	defer ruling.askings.Put(a)
	now := e.config.Now().UnixMilli()
	a.attempt.reset()
	answers := make([]takeAnswer, len(all))
	places := make([]int, 0, len(all)) // of the wants among the answers
	for i := range all {
		wanted, err := e.wantOne(a, &all[i], now)
		if err != nil {
			return err
		}
		answers[i] = takeAnswer{Admitted: true, Rule: all[i].Rule, Allowed: !wanted}
		if wanted {
			places = append(places, i)
		}
	}

	e.answerTake(w, a, answers, places, now)
	return nil
}

// wantOne adds what an attempt wants from one rule; not from a rule that leaves it alone.
func (e *Enforcer) wantOne(a *asking, one *oneTake, now int64) (wanted bool, err error) {
	i, err := a.ruling.inlineRule(one.Rule)
	if err != nil {
		return false, err
	}
	if err := one.request(&a.request, now); err != nil {
		return false, problemf(http.StatusBadRequest, "%s", err)
	}

	hit, wanted, err := a.hitOf(i, one.Cost)
	if wanted {
		// Two of one key are two attempts, unlike those of two readings of one check.
		a.attempt.addAlways(i, e.limitsNow(a.ruling, i, now), hit.Key, hit.Cost)
		a.note()
	}
	return wanted, err
}

// hitOf returns what the request wants from a rule that is asked by its name; a cost replaces the rule's own one.
func (a *asking) hitOf(i int, cost *int64) (hit rule.Hit, wanted bool, err error) {
	name := a.ruling.Rules.Rules[i].Name
	hit, why := a.judge.HitOf(i, &a.request)
	if cost != nil && why != rule.Allowed {
		if *cost < 0 || *cost > rule.MaxCost {
			return hit, false, errCost(*cost)
		}
		var ok bool
		if hit.Key, ok = a.judge.AppendKey(nil, i, &a.request); !ok {
			why = rule.NoKey
		} else {
			hit.Cost, why = *cost, rule.Counted
		}
	}

	switch why {
	case rule.Counted:
		return hit, true, nil
	case rule.NoKey:
		return hit, false, problemf(http.StatusBadRequest, "the rule %s needs these fields: %s", name, strings.Join(a.ruling.Rules.Rules[i].Key.Words(), ", "))
	case rule.Failed:
		return hit, false, problemf(http.StatusBadRequest, "the cost of the rule %s cannot be computed from these fields; give cost", name)
	}
	return hit, false, nil
}

func errCost(cost int64) error {
	return problemf(http.StatusBadRequest, "the cost %d is not possible; write 0 to %d", cost, int64(rule.MaxCost))
}

// inlineRule returns the index of an inline rule.
func (r *ruling) inlineRule(name string) (int, error) {
	found, i := r.Rules.Rule(name)
	var names []string
	for _, one := range r.Rules.Rules {
		if one.Inline {
			names = append(names, one.Name)
		}
	}
	switch {
	case name == "":
		return 0, problemf(http.StatusBadRequest, "the attempt names no rule; write %s", takeExample)
	case found == nil && len(names) == 0:
		return 0, problemf(http.StatusNotFound, "there is no rule %q, and no rule is inline", name)
	case found == nil:
		return 0, problemf(http.StatusNotFound, "there is no rule %q; %s", name, nearest.Suggest(name, names, "inline rules are "))
	case !found.Inline:
		return 0, problemf(http.StatusBadRequest, "the rule %s is not inline: write inline: true in it", name)
	}
	return i, nil
}

// request makes a request of an attempt's fields.
func (o *oneTake) request(q *request.Request, now int64) error {
	q.Reset()
	q.UnixMilli = now
	for name, value := range o.Fields {
		if err := setField(q, name, value); err != nil {
			return err
		}
	}
	return nil
}

// setField sets a field of a request by the name that rules have for it.
func setField(q *request.Request, name, value string) error {
	switch name {
	case "ip":
		ip, err := netip.ParseAddr(value)
		if err != nil {
			return fmt.Errorf("the field ip is no address: %q", value)
		}
		q.IP = address.Plain(ip.WithZone(""))
	case "user":
		q.User = value
	case "method":
		q.Method = value
	case "host":
		q.Host = value
	case "path":
		setTarget(q, value)
	case "agent":
		q.Agent = value
	case "referrer":
		q.Referrer = value
	case "raw_path", "query":
		return fmt.Errorf("the field %s is a part of path; write both in path, as in /a?b", name)
	case "status", "bytes":
		return fmt.Errorf("the field %s is known after the response only; settle the attempt instead", name)
	default:
		q.Fields = append(q.Fields, request.Field{Name: name, Value: value})
	}
	return nil
}

// answerTake decides an attempt and answers it.
func (e *Enforcer) answerTake(w http.ResponseWriter, a *asking, answers []takeAnswer, places []int, now int64) {
	t, about := &a.attempt, 0
	answer := takeAnswer{Admitted: true}
	e.tally.Checked(now)
	if len(places) > 0 {
		e.take(a.ruling, t)
		about = places[t.verdict.Decides]
		answer.Admitted, answer.Store = t.verdict.Admitted, e.storeWord(&t.verdict)
		if t.verdict.Attempt != (inline.ID{}) {
			answer.Attempt = t.verdict.Attempt.String()
		}
	}
	for j, i := range places {
		answers[i].taken(t, j, &a.ruling.limits[t.rules[j]])
	}

	one := answers[about]
	one.Admitted, one.Attempt, one.Store = answer.Admitted, answer.Attempt, answer.Store
	if len(answers) > 1 {
		one.Rules = answers
	}
	if !one.Admitted {
		e.tally.Refused(now, a.ruling.counts[t.rules[t.verdict.Decides]].tally, "")
	}
	if !one.Admitted && t.verdict.OnError == inline.Refuse {
		e.refuseWithoutStore(w, http.StatusServiceUnavailable, t)
		return
	}
	if !one.Admitted {
		e.refuseTake(w, http.StatusTooManyRequests, a.ruling, t, now, one)
		return
	}
	if len(places) > 0 {
		e.describe(w.Header(), a.ruling, t, now)
	}
	writeJSON(w, http.StatusOK, one)
}

// taken writes what a Want was answered.
func (o *takeAnswer) taken(t *attempt, j int, l *limits) {
	taken, rule := &t.verdict.Taken[j], t.wants[j].Rule
	o.Admitted = taken.Admitted || rule.Shadow
	o.Shadow = rule.Shadow && !taken.Admitted
	if !t.knowsLimit(j) {
		return
	}
	o.Limit, o.Remaining = l.policies[taken.Limit].limit, &taken.Remaining
	if isKnown(taken.Again) {
		again := time.UnixMilli(taken.Again).UTC()
		o.Again = &again
	}
}

// A settleRequest says what an attempt has cost.
type settleRequest struct {
	Attempt string `json:"attempt"`
	Rule    string `json:"rule,omitempty"` // all rules without it
	Cost    *int64 `json:"cost,omitempty"` // without it the attempt has ended, and has cost what was taken

	// Ended are attempts whose requests have ended by the log, in place of all others.
	Ended []string `json:"ended,omitempty"`
}

// settles answers what an attempt has cost.
func (e *Enforcer) settles(w http.ResponseWriter, r *http.Request) error {
	if _, err := e.Admit(r, keys.Take); err != nil {
		return err
	}
	var asked settleRequest
	if err := readJSON(w, r, &asked); err != nil {
		return problemf(bodyStatus(err), `the body settles nothing: %s; write {"attempt": "ID", "cost": 0}`, err)
	}
	if len(asked.Ended) > 0 {
		return e.ends(w, r, &asked)
	}
	cost := int64(inline.Kept)
	if asked.Cost != nil {
		if cost = *asked.Cost; cost < 0 || cost > rule.MaxCost {
			return errCost(cost)
		}
	}

	id, err := inline.ParseID(asked.Attempt)
	var when inline.Moment
	if err == nil {
		when, err = e.settle(r.Context(), asked.Rule, id, cost)
	}
	if errors.Is(err, inline.ErrNotCounted) {
		return problemf(http.StatusNotFound, "the rule %q has counted nothing of the attempt %q, so there is nothing to settle", asked.Rule, asked.Attempt)
	}
	if errors.Is(err, inline.ErrUnknown) {
		e.metrics.unsettled.Inc()
		return problemf(http.StatusNotFound, "the attempt %q cannot be settled: it is older than %s, it was refused, or %s", asked.Attempt, e.inline.Settleable(), e.notHere())
	}
	if err != nil {
		return problemf(http.StatusServiceUnavailable, "the attempt %q cannot be settled now; try again: %s", asked.Attempt, err)
	}
	e.metrics.settled.Inc()
	e.history.settled(id, asked.Rule, cost, when)
	writeJSON(w, http.StatusOK, asked)
	return nil
}

// notHere is why an attempt may be unknown that is neither old nor refused.
func (e *Enforcer) notHere() string {
	if e.shared != nil {
		return "it was counted elsewhere while the store failed"
	}
	return "this enforcer did not decide it since it started"
}

// settle settles an attempt at one rule, or at all without one. It returns when, if the store states it.
func (e *Enforcer) settle(ctx context.Context, rule string, id inline.ID, cost int64) (inline.Moment, error) {
	at := inline.Moment{At: e.config.Now().UnixMilli()}
	switch orderly, ok := any(e.inline).(interface {
		SettleWhen(rule string, id inline.ID, cost int64) (inline.Moment, error)
	}); {
	case ok:
		return orderly.SettleWhen(rule, id, cost)
	case rule == "":
		return at, e.inline.Settle(ctx, id, cost)
	}
	return at, e.inline.SettleAt(ctx, rule, id, cost)
}
