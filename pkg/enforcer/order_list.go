package enforcer

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"

	"weir/internal/address"
	"weir/pkg/blocklist"
)

// Bounds of a request about a list of targets.
const (
	maxListBody  = 1 << 20
	maxTargets   = 1000   // that are ordered at once
	maxPreviewed = 10_000 // that a preview is about
	maxExamples  = 5
)

// A listed is the answer to an order for a list of targets, or to the preview of one.
type listed struct {
	Targets   int      `json:"targets"`
	Ordered   int      `json:"ordered"`   // new entries, or ended ones
	Unchanged int      `json:"unchanged"` // targets for which there is nothing to do
	Entries   int      `json:"entries"`   // within the targets and active on the list, without those by hand
	Refused   int64    `json:"refused"`   // requests that these entries have refused here
	Keys      []string `json:"keys"`      // of some of these entries
	Affects   []string `json:"affects"`   // effects beyond those of narrow orders
	InForce   *inForce `json:"in_force"`  // nil in a preview, and when nothing was ordered
	Note      string   `json:"note,omitempty"`
}

// orderList orders blocks or allows of a list of targets, or ends them. It changes nothing in a preview, and nothing when one
// of the targets is wrong.
func (e *Enforcer) orderList(w http.ResponseWriter, r *http.Request, o *ordering, kind blocklist.Kind, q *orderRequest) error {
	switch {
	case q.Target != "":
		return problemf(http.StatusBadRequest, "there is a target and a list of targets; leave one of them out")
	case len(q.Targets) > maxPreviewed || len(q.Targets) > maxTargets && !q.Preview:
		return problemf(http.StatusBadRequest, "%d targets are too many for one request; at most %d are allowed, and %d in a preview", len(q.Targets), maxTargets, maxPreviewed)
	case q.End && (q.For != "" || q.Until != ""):
		return problemf(http.StatusBadRequest, "end goes without for and until: it ends now")
	}
	leave, err := e.mayFind(r) // it looks at all entries
	if err != nil {
		return err
	}
	defer leave()

	orders, err := e.listOf(o, kind, q)
	if err != nil {
		return err
	}
	answer := listed{Targets: len(orders), Keys: []string{}, Affects: []string{}}
	targets := newTargets(orders)
	e.compare(o, q, targets, &answer)

	var narrow []netip.Prefix
	for _, order := range orders {
		before := targets.manual[blocklist.Field{Name: order.Scope, Value: order.Value}]
		switch same := before != nil && before.Kind == kind; {
		case q.End && !same, !q.End && same && before.Until == order.Until && before.Why == order.Why:
			answer.Unchanged++
		case q.End:
			o.add(blocklist.EventLifted, lifted(before, o.by, order.Why, o.now))
		default:
			o.add(blocklist.EventOrdered, order)
			affected := e.affects(r, order)
			answer.affect(order, affected)
			if len(affected) == 0 {
				narrow = append(narrow, order.Prefix())
			}
			if answer.Note == "" {
				answer.Note = joinNotes(e.ofProxies(order), e.ofTranslators(order), e.unasked(order))
			}
		}
	}
	if much := together(narrow); much != "" {
		answer.Affects = append(answer.Affects, much)
	}
	if !q.End {
		answer.Note = joinNotes(ofBits(q.Targets...), answer.Note)
	}
	answer.Ordered = len(o.orders)
	if q.Preview {
		writeJSON(hurry(w), http.StatusOK, answer)
		return nil
	}
	return e.orderedList(w, r, o, q, &answer)
}

// orderedList applies an ordering and answers.
func (e *Enforcer) orderedList(w http.ResponseWriter, r *http.Request, o *ordering, q *orderRequest, answer *listed) error {
	if len(answer.Affects) > 0 && !q.Confirm {
		p := problemf(http.StatusPreconditionRequired, `the list has wide or dangerous targets: send "confirm": true (weir: --yes) to order them all the same`)
		p.Affects = answer.Affects
		return p
	}
	if len(o.orders) > 0 {
		is, waits, err := e.put(r, o)
		if err != nil {
			return err
		}
		answer.InForce, answer.Note = &is, joinNotes(answer.Note, waits)
	}
	writeJSON(hurry(w), http.StatusOK, answer)
	return nil
}

// listOf returns an order for each target; of a target that is there twice one.
func (e *Enforcer) listOf(o *ordering, kind blocklist.Kind, q *orderRequest) (orders []*blocklist.Order, err error) {
	rules := e.ruling.Load().Rules
	seen := make(map[blocklist.Field]bool, len(q.Targets))
	for i, target := range q.Targets {
		one := *q
		one.Target = target
		order, err := one.ofOne(kind, rules, o.by, o.now)
		if err == nil && !q.End {
			err = e.findable(order)
		}
		if err != nil {
			return nil, problemf(StatusOf(err), "target %d: %s", i+1, err)
		}
		if of := (blocklist.Field{Name: order.Scope, Value: order.Value}); !seen[of] {
			seen[of] = true
			orders = append(orders, order)
		}
	}
	return orders, nil
}

// compare looks at the list: which manual entries the targets have, and in a preview which entries are within them.
func (e *Enforcer) compare(o *ordering, q *orderRequest, targets *targets, answer *listed) {
	defer e.SearchTurn()()
	for held := range e.config.Set.Held(o.now) {
		if held.Kind() == blocklist.OrderBlock || held.Kind() == blocklist.OrderAllow {
			order := held.Order()
			if of := (blocklist.Field{Name: order.Scope, Value: order.Value}); targets.has(of) {
				targets.manual[of] = order
			}
			continue
		}
		if !q.Preview || held.Kind() != 0 || held.Shadow() {
			continue
		}
		if entry := held.Entry(); targets.cover(entry) {
			answer.Entries++
			answer.Refused += e.tally.Of(held.ID(), o.now).Refused
			if len(answer.Keys) < maxExamples {
				answer.Keys = append(answer.Keys, entry.Key)
			}
		}
	}
}

// affect adds the effects of an order; of many only the first.
func (l *listed) affect(o *blocklist.Order, affected []string) {
	for _, one := range affected {
		if len(l.Affects) == 2*maxExamples {
			return
		}
		l.Affects = append(l.Affects, fmt.Sprintf("%s: %s", o.Value, one))
	}
}

// targets are those of a list.
type targets struct {
	manual   map[blocklist.Field]*blocklist.Order // the active manual entry of each; nil without one
	prefixes map[netip.Prefix]bool
	lengths  []int // of the prefixes, each once
}

func newTargets(orders []*blocklist.Order) *targets {
	t := &targets{manual: make(map[blocklist.Field]*blocklist.Order, len(orders)), prefixes: map[netip.Prefix]bool{}}
	for _, order := range orders {
		t.manual[blocklist.Field{Name: order.Scope, Value: order.Value}] = nil
		if prefix := order.Prefix(); prefix.IsValid() {
			t.prefixes[prefix] = true
			t.lengths = append(t.lengths, prefix.Bits())
		}
	}
	slices.Sort(t.lengths)
	t.lengths = slices.Compact(t.lengths)
	return t
}

func (t *targets) has(of blocklist.Field) bool {
	_, ok := t.manual[of]
	return ok
}

// cover reports whether an entry is within one of the targets.
func (t *targets) cover(e *blocklist.Entry) bool {
	for name, value := range e.Fields {
		if t.has(blocklist.Field{Name: name, Value: value}) {
			return true
		}
		if name != "ip" {
			continue
		}
		prefix, err := address.Parse(value)
		if err != nil {
			continue
		}
		for _, bits := range t.lengths {
			if bits > prefix.Bits() {
				break
			}
			if t.prefixes[netip.PrefixFrom(prefix.Addr(), bits).Masked()] {
				return true
			}
		}
	}
	return false
}
