package enforcer

import (
	"cmp"
	"fmt"
	"net/http"
	"time"

	"weir/pkg/blocklist"
	"weir/pkg/inline"
	"weir/pkg/request"
	"weir/pkg/rule"
)

// A Part describes a request by some of its fields, to ask for the inline limits of these.
type Part struct {
	Rule   string // the only rule to ask, whose match is not asked then; empty: all rules that match
	Fields []request.Field
	Cost   *int64 // nil: each rule's own
}

// A PartAnswer is the limit of a part that decides: one that refuses, or else has the fewest requests left.
type PartAnswer struct {
	Refused   bool
	Rule      string // empty where no limit applies; a limit in shadow does not
	Limit     rule.Limit
	Remaining int64
	Again     time.Duration // until such a request is admitted; 0 for now, and where it never is
}

// A partWant is one of the wants of a part.
type partWant struct{ part, want int }

// errParts is the start of what is wrong with a part.
const errParts = "descriptor %d: %s"

// Limit asks for a request that is described in parts, as one step: all limits of all parts admit and count it, or none.
// A limit that several parts lead to by the same key counts it once, with the highest of their costs. The list is asked
// first for each part that has an address. The answer is that of a check; an error is a mistake in the parts.
func (e *Enforcer) Limit(w http.ResponseWriter, parts []Part, answers []PartAnswer) error {
	if len(parts) > maxTakes {
		return problemf(http.StatusBadRequest, "%d descriptors are too many for one request; at most %d are allowed", len(parts), maxTakes)
	}
	ruling := e.ruling.Load()
	a := ruling.askings.Get().(*asking)
	defer ruling.askings.Put(a)
	a.attempt.reset()
	a.parts = a.parts[:0]
	now := e.config.Now().UnixMilli()

	said, blocked, err := e.wantParts(a, parts, now)
	if err != nil {
		return err
	}
	e.tally.Checked(now)
	without := isEmpty(&said) && !e.config.Set.Whole()
	if without && e.config.DenyWithoutList {
		e.denyWithoutList(w, described, now)
		return nil
	}

	e.answer(w, described, a, said, without)
	if blocked >= 0 {
		answers[blocked].Refused = true
		return nil
	}
	for _, p := range a.parts {
		answers[p.part].of(a, p.want)
	}
	return nil
}

// wantParts adds what the parts want, unless the list blocks one of them. The answer of the list is the first that it has.
func (e *Enforcer) wantParts(a *asking, parts []Part, now int64) (said blocklist.Answer, blocked int, err error) {
	for i := range parts {
		if err := a.readPart(&parts[i], now); err != nil {
			return said, -1, problemf(http.StatusBadRequest, errParts, i+1, err)
		}
		var one blocklist.Answer
		if a.request.IP.IsValid() {
			one = e.config.Set.Check(a.prepare(), now)
		}
		if one.Entry.Found() && !a.ruling.Shadow {
			return one, i, nil
		}
		if isEmpty(&said) {
			said = one
		}
		if one.Allowed.Found() {
			continue
		}
		if err := e.wantPart(a, i, &parts[i], now); err != nil {
			return said, -1, problemf(StatusOf(err), errParts, i+1, err)
		}
	}
	return said, -1, nil
}

// readPart reads a part as a request.
func (a *asking) readPart(p *Part, now int64) error {
	q := &a.request
	q.Reset()
	q.UnixMilli = now
	if p.Cost != nil && (*p.Cost < 0 || *p.Cost > rule.MaxCost) {
		return errCost(*p.Cost)
	}
	for i, f := range p.Fields {
		for _, before := range p.Fields[:i] {
			if before.Name == f.Name {
				return fmt.Errorf("the field %s is there twice", f.Name)
			}
		}
		if err := setField(q, f.Name, f.Value); err != nil {
			return err
		}
	}
	return nil
}

func (e *Enforcer) wantPart(a *asking, part int, p *Part, now int64) error {
	add := func(i int, hit rule.Hit) {
		cost := hit.Cost
		if p.Cost != nil {
			cost = *p.Cost
		}
		want := a.attempt.addHighest(i, e.limitsNow(a.ruling, i, now), hit.Key, cost)
		a.parts = append(a.parts, partWant{part, want})
		a.note()
	}
	if p.Rule == "" {
		for _, hit := range a.judge.Inline(&a.request) {
			add(hit.Rule, hit)
		}
		return nil
	}

	i, err := a.ruling.inlineRule(p.Rule)
	if err != nil {
		return err
	}
	// A client may have left out what the key or the cost needs. The rule then does not count the request, as if no part
	// named it, and the other parts decide: edges let a request pass on an error.
	if hit, wanted, _ := a.hitOf(i, p.Cost); wanted {
		add(i, hit)
	}
	return nil
}

// addHighest adds what a request wants from a rule, once for each key with its highest cost, and returns its place.
func (t *attempt) addHighest(i int, of *inline.Rule, key []byte, cost int64) (place int) {
	for j := range t.wants {
		if t.rules[j] == i && string(t.wants[j].Key) == string(key) {
			t.wants[j].Cost = max(t.wants[j].Cost, cost)
			return j
		}
	}
	t.addAlways(i, of, key, cost)
	return len(t.wants) - 1
}

// of makes a part's answer that of a Want, if that decides.
func (p *PartAnswer) of(a *asking, want int) {
	t := &a.attempt
	if t.wants[want].Rule.Shadow {
		return
	}
	taken := &t.verdict.Taken[want]
	if !t.knowsLimit(want) {
		p.Refused = p.Refused || !taken.Admitted
		return
	}
	next := PartAnswer{Refused: !taken.Admitted, Rule: t.wants[want].Rule.Name, Remaining: taken.Remaining}
	next.Limit = a.ruling.Rules.Rules[t.rules[want]].Limits[taken.Limit]
	if taken.Again > taken.At && isKnown(taken.Again) {
		next.Again = time.Duration(max(0, taken.Again-a.request.UnixMilli)) * time.Millisecond
	}
	if p.Rule == "" || next.decides(p) {
		*p = next
	}
}

// decides reports whether an answer is more important than another one.
func (p *PartAnswer) decides(other *PartAnswer) bool {
	switch {
	case p.Refused != other.Refused:
		return p.Refused
	case p.Refused:
		return cmp.Less(other.Again, p.Again)
	}
	return p.Remaining < other.Remaining
}
