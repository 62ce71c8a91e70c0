package enforcer

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"weir/pkg/blocklist"
	"weir/pkg/inline"
	"weir/pkg/rule"
	"weir/pkg/window"
)

// limits are those of an inline rule.
type limits struct {
	enforced, shadow *inline.Rule // nil for a rule that is not inline
	definition       string       // the part of the rule that decides how it counts
	policies         []policy
	policyField      []string
	endsByLog        bool

	admitted, refused, inShadow prometheus.Counter
}

// newLimits makes the limits of a rule. Limits that stay the same keep their policy, so that its states stay the same.
// Enforcers is how many share a store; 0 without one.
func newLimits(of *rule.Rule, m *metrics, enforcers int, before *ruling) (limits, error) {
	if !of.Inline {
		return limits{}, nil
	}
	l := limits{
		definition: fmt.Sprint(of.Algorithm, of.Limits, of.Subwindows, of.Burst, of.Remember, of.Lease),
		admitted:   m.attempts.WithLabelValues(of.Name, "admitted"), refused: m.attempts.WithLabelValues(of.Name, "refused"),
		inShadow: m.attempts.WithLabelValues(of.Name, "shadow"), endsByLog: of.EndsByLog,
	}
	var texts []string
	for _, limit := range of.Limits {
		l.policies, texts = append(l.policies, newPolicy(of.Name, limit)), append(texts, limit.Text)
	}

	l.policyField = fieldOf(l.policies)

	var counts *window.Policy
	if before != nil {
		if _, i := before.Rules.Rule(of.Name); i >= 0 && before.limits[i].enforced != nil && before.limits[i].definition == l.definition {
			counts = before.limits[i].enforced.Policy
		}
	}
	if counts == nil {
		var err error
		if counts, err = of.InlinePolicy(); err != nil {
			return l, fmt.Errorf("the rule %s: %w", of.Name, err)
		}
	}

	l.enforced = &inline.Rule{Name: of.Name, Policy: counts, Limits: texts, Shadow: of.Mode == rule.Shadow, OnError: of.OnError, Queue: of.Queue}
	l.shadow = &inline.Rule{Name: of.Name, Policy: counts, Limits: texts, Shadow: true, OnError: of.OnError, Queue: of.Queue}
	if of.OnError == inline.Local && enforcers > 0 {
		share, err := l.shareOf(of, enforcers, before)
		if err != nil {
			return l, fmt.Errorf("the share of the rule %s: %w", of.Name, err)
		}
		l.enforced.Local = &inline.Rule{Name: of.Name, Policy: share, Shadow: l.enforced.Shadow}
		l.shadow.Local = &inline.Rule{Name: of.Name, Policy: share, Shadow: true}
	}
	return l, nil
}

// shareOf is the limits that this enforcer counts by while the store fails.
func (l *limits) shareOf(of *rule.Rule, enforcers int, before *ruling) (*window.Policy, error) {
	if before != nil {
		if _, i := before.Rules.Rule(of.Name); i >= 0 && before.limits[i].definition == l.definition && before.limits[i].enforced != nil && before.limits[i].enforced.Local != nil {
			return before.limits[i].enforced.Local.Policy, nil
		}
	}
	return of.InlineShare(enforcers)
}

// An attempt is the memory for what a request wants from inline limits.
type attempt struct {
	wants   []inline.Want
	rules   []int // their indexes
	keys    []byte
	request string // the request's id; empty where it is not known
	about   about  // for the history
	verdict inline.Verdict
}

func (t *attempt) reset() {
	t.wants, t.rules, t.keys, t.request, t.about = t.wants[:0], t.rules[:0], t.keys[:0], "", about{}
}

// add adds what a request wants from a rule, once for each key.
func (t *attempt) add(i int, of *inline.Rule, key []byte, cost int64) {
	for j := range t.wants {
		if t.rules[j] == i && string(t.wants[j].Key) == string(key) {
			return
		}
	}
	t.addAlways(i, of, key, cost)
}

func (t *attempt) addAlways(i int, of *inline.Rule, key []byte, cost int64) {
	start := len(t.keys)
	t.keys = append(t.keys, key...) // a judge uses its keys again
	t.wants = append(t.wants, inline.Want{Rule: of, Key: t.keys[start:len(t.keys):len(t.keys)], Cost: cost})
	t.rules = append(t.rules, i)
}

// want adds what the request that was read wants from inline limits: nothing where the list allows this reading of it.
// Another reading, which its client may have made up, is then still asked for itself.
func (e *Enforcer) want(a *asking, said *blocklist.Answer, now int64) {
	if !a.ruling.inline || said.Allowed.Found() {
		return
	}
	for _, hit := range a.judge.Inline(&a.request) {
		a.attempt.add(hit.Rule, e.limitsNow(a.ruling, hit.Rule, now), hit.Key, hit.Cost)
		a.note()
	}
}

// limitsNow returns the limits of a rule, which refuse nothing while it is paused.
func (e *Enforcer) limitsNow(r *ruling, i int, now int64) *inline.Rule {
	l := &r.limits[i]
	if r.Shadow || e.config.Set.Paused(l.enforced.Name, now) {
		return l.shadow
	}
	return l.enforced
}

// take decides an attempt, and counts the answers.
func (e *Enforcer) take(r *ruling, t *attempt) {
	// Neither a Memory nor a Guard fails.
	if t.request == "" {
		_ = e.inline.Take(context.Background(), &t.verdict, t.wants)
	} else {
		// nginx asks again after an internal redirect, and then perhaps with another method.
		_ = e.inline.TakeOnce(context.Background(), &t.verdict, t.request, t.wants)
	}
	e.countStore(&t.verdict)
	if e.history != nil {
		e.history.attempted(r, t, e.config.Now().UnixMilli())
	}
	if e.rows != nil {
		e.rows.attempted(r, t)
	}
	for j, i := range t.rules {
		l := &r.limits[i]
		switch {
		case t.wants[j].Known:
		case t.verdict.Admitted && t.verdict.Taken[j].Admitted:
			l.admitted.Inc()
		case t.wants[j].Rule.Shadow && !t.verdict.Taken[j].Admitted:
			l.inShadow.Inc()
		case !t.verdict.Taken[j].Admitted:
			l.refused.Inc()
		}
	}
}

// attemptField is the field of an answer with the attempt, which the application behind the edge may settle.
const attemptField = "X-Weir-Attempt"

// takeFor decides whether inline limits admit the request of a check, and answers if they do not. Otherwise it returns a
// rule in shadow that would refuse if it enforced, and whether one would that is paused.
func (e *Enforcer) takeFor(w http.ResponseWriter, d *dialect, a *asking) (refused bool, shadow string, paused bool) {
	t := &a.attempt
	if len(t.wants) == 0 {
		return false, "", false
	}
	e.take(a.ruling, t)
	i := t.rules[t.verdict.Decides]
	if !t.verdict.Admitted {
		name := a.ruling.Rules.Rules[i].Name
		a.ruling.counts[i].refused.Inc()
		e.tally.Refused(a.request.UnixMilli, a.ruling.counts[i].tally, "")
		e.markRefusal(a, w.Header(), name)
		if t.verdict.OnError == inline.Refuse {
			e.refuseWithoutStore(w, d.without, t)
			return true, "", false
		}
		e.refuseTake(w, d.refusal, a.ruling, t, a.request.UnixMilli, nil)
		return true, "", false
	}

	e.describe(w.Header(), a.ruling, t, a.request.UnixMilli)
	for j := range t.wants {
		switch {
		case t.verdict.Taken[j].Admitted:
		case !a.ruling.Shadow && !a.ruling.limits[t.rules[j]].enforced.Shadow:
			paused = true
		case shadow == "":
			shadow = t.wants[j].Rule.Name
		}
	}
	return false, shadow, paused
}

// describe sets the fields of an answer for an attempt: its limits, and its id. A limit in shadow is not shown.
func (e *Enforcer) describe(header http.Header, r *ruling, t *attempt, now int64) {
	if t.verdict.Attempt != (inline.ID{}) {
		header[attemptField] = []string{t.verdict.Attempt.String()}
	}
	decides := t.verdict.Decides
	switch t.verdict.OnError {
	case inline.Allow, inline.Refuse:
		header[storeField] = []string{t.verdict.OnError.String()}
		return
	case inline.Local:
		header[storeField] = []string{t.verdict.OnError.String()}
	}
	if t.wants[decides].Rule.Shadow {
		return
	}
	taken, of := &t.verdict.Taken[decides], &r.limits[t.rules[decides]]
	seconds := ""
	if taken.Again > taken.At && isKnown(taken.Again) { // now may be a little before the instant of the decision
		seconds = strconv.FormatInt(secondsUntil(taken.Again, now), 10)
	}
	e.limitHeaders(header, of.policyField, &of.policies[taken.Limit], taken.Remaining, seconds)
}

// A storeRefusal is the answer to an attempt that is refused because the store does not answer.
type storeRefusal struct {
	problem
	Admitted bool   `json:"admitted"`
	Rule     string `json:"rule"`
	Store    string `json:"store"`
}

func (e *Enforcer) refuseWithoutStore(w http.ResponseWriter, status int, t *attempt) {
	header, word := w.Header(), t.verdict.OnError.String()
	header[storeField] = []string{word}
	header.Set("Retry-After", "1")
	rule := t.wants[t.verdict.Decides].Rule.Name
	writeAs(w, status, "application/problem+json", storeRefusal{Rule: rule, Store: word,
		problem: problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: "The store in which the rule " + rule + " counts does not answer."}})
}

const quotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded"

// refuseTake answers that an attempt is refused; body is nil for the problem that explains it.
func (e *Enforcer) refuseTake(w http.ResponseWriter, status int, r *ruling, t *attempt, now int64, body any) {
	e.describe(w.Header(), r, t, now)
	decides := t.verdict.Decides
	taken := &t.verdict.Taken[decides]
	detail := "The request costs more than its limit allows at all." // and waiting does not help
	if taken.Again == inline.NotKnown {
		w.Header().Set("Retry-After", "1")
		detail = "The queue is full; it is not known when it has room."
	}
	if isKnown(taken.Again) {
		seconds := strconv.FormatInt(secondsUntil(taken.Again, now), 10)
		w.Header().Set("Retry-After", seconds)
		detail = "The request is one too many; the next is admitted in " + seconds + " seconds."
	}
	if body != nil {
		writeJSON(w, status, body)
		return
	}
	writeAs(w, status, "application/problem+json", refusalBody{
		problem:  problem{Type: quotaExceeded, Title: "Quota Exceeded", Status: status, Detail: detail},
		Violated: []string{r.limits[t.rules[decides]].policies[taken.Limit].name},
	})
}
