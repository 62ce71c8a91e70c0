package enforcer

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/http"
	"time"

	"weir/internal/keys"
	"weir/pkg/blocklist"
	"weir/pkg/hit"
)

// An ordering collects the orders of one request until they are active.
type ordering struct {
	by     string
	now    int64
	orders []*blocklist.Order
	events []string // the event of each: ordered or lifted
	hits   []message
}

func (o *ordering) add(event string, order *blocklist.Order) {
	o.orders, o.events = append(o.orders, order), append(o.events, event)
}

// An inForce reports where an order is active when it is answered.
type inForce struct {
	Here      bool `json:"here"`
	Kafka     bool `json:"kafka"`     // all enforcers that read from Kafka get it now
	Followers int  `json:"followers"` // the number of followers that get it from here
}

// An ordered is the answer to an order.
type ordered struct {
	Order   *blocklist.Entry `json:"order"`
	InForce inForce          `json:"in_force"`
	Affects []string         `json:"affects,omitempty"` // effects beyond those of a narrow order
	Passes  string           `json:"passes,omitempty"`  // why checks here let the target through all the same
	Note    string           `json:"note,omitempty"`
}

// begin authorises the caller of an order.
func (e *Enforcer) begin(r *http.Request) (*ordering, error) {
	by, err := e.Admit(r, keys.Write)
	if err != nil {
		return nil, err
	}
	if e.outbox == nil {
		return nil, problemf(http.StatusConflict, "this enforcer follows %s and has no Kafka for orders: give them there", e.config.Follows)
	}
	return &ordering{by: by, now: e.config.Now().UnixMilli()}, nil
}

// usualPatience is how long an order waits for Kafka before it is answered.
const usualPatience = 500 * time.Millisecond

// apply applies all orders: on disk, then here. The topics get them later.
func (e *Enforcer) apply(o *ordering) (*parcel, error) {
	for _, order := range o.orders {
		e.config.Set.Follow(order, o.now)
	}
	p, err := e.pack(o)
	if err != nil {
		return nil, err
	}
	if err := e.give(p, o); err != nil {
		return nil, err
	}

	if e.config.Keep != nil {
		if err := e.config.Keep(); err != nil { // it stays in the outbox until Kafka has it
			e.faults.Note("keep", fmt.Errorf("an order is active, but not in the list on disk: %w", err))
		}
	}
	return p, nil
}

// put applies all orders, and waits a little for the topics to have them.
func (e *Enforcer) put(r *http.Request, o *ordering) (inForce, string, error) {
	p, err := e.apply(o)
	if err != nil {
		return inForce{}, "", err
	}
	is := inForce{Here: true, Followers: int(e.following.Load())}

	// The topics are waited for only to be able to report it. The order is active and will be sent.
	timer := time.NewTimer(e.patience)
	defer timer.Stop()
	select {
	case <-p.done:
		if p.refused.Load() {
			return is, "the topics refuse it, and the log of this enforcer has the reason: it is active only here and at the followers of this enforcer, until it ends", nil
		}
		is.Kafka = true
		return is, "", nil
	case <-timer.C:
	case <-r.Context().Done():
	}

	return is, "the topics do not answer: it is active here and at the followers of this enforcer, kept on disk, and sent when they answer", nil
}

// maxLogged is how many orders of one request have a line each in the log. More have one line together.
const maxLogged = 20

// give keeps orders on disk and makes them active. On disk first: an order that is active and then forgotten by a crash
// would be worse than one that fails.
func (e *Enforcer) give(p *parcel, o *ordering) error {
	e.giving.Lock()
	defer e.giving.Unlock()
	if err := e.outbox.put(p); err != nil {
		return err
	}

	for _, order := range o.orders {
		if err := e.config.Set.Order(order, o.now); err != nil {
			return fmt.Errorf("applying an order: %w", err)
		}
		if len(o.orders) > maxLogged {
			continue
		}
		e.config.Logger.Info("ordered", "order", order.Kind, "target", order.Entry().Key, "lifted", order.Ended != 0, "by", order.By, "why", order.Why)
	}
	if len(o.orders) > maxLogged {
		first := o.orders[0]
		e.config.Logger.Info("ordered", "orders", len(o.orders), "first", first.Entry().Key, "order", first.Kind, "lifted", first.Ended != 0, "by", o.by, "why", first.Why)
	}
	return nil
}

// pack makes the parcel for Kafka.
func (e *Enforcer) pack(o *ordering) (*parcel, error) {
	p := &parcel{Hits: o.hits}
	for i, order := range o.orders {
		value, err := order.Append(nil)
		if err != nil {
			return nil, problemf(http.StatusBadRequest, "%s", err)
		}

		p.Orders = append(p.Orders, message{Key: order.RecordKey(), Value: value})
		shown := order.Entry()
		event, err := blocklist.AppendEvent(nil, o.events[i], o.now, shown)
		if err != nil {
			return nil, err
		}

		// By rule and key, so that all events of a key are in one partition, in their order.
		p.Events = append(p.Events, message{Partition: hit.Partition(shown.Rule, []byte(shown.Key), e.config.EventsPartitions), Value: event})
	}

	return p, nil
}

// blocks is POST /v1/blocks.
func (e *Enforcer) blocks(w http.ResponseWriter, r *http.Request) error {
	return e.orderOne(w, r, blocklist.OrderBlock)
}

// allow is POST /v1/allows.
func (e *Enforcer) allow(w http.ResponseWriter, r *http.Request) error {
	return e.orderOne(w, r, blocklist.OrderAllow)
}

func (e *Enforcer) orderOne(w http.ResponseWriter, r *http.Request, kind blocklist.Kind) error {
	o, err := e.begin(r)
	if err != nil {
		return err
	}

	q, err := readBody(w, r, maxListBody)
	if err != nil {
		return err
	}
	if q.Rule != "" {
		return problemf(http.StatusBadRequest, "blocks and allows apply to all rules: leave rule out")
	}
	if q.Targets != nil {
		return e.orderList(w, r, o, kind, q)
	}
	if q.End || q.Preview {
		return problemf(http.StatusBadRequest, "end and preview are for a list of targets")
	}

	order, err := q.ofOne(kind, e.ruling.Load().Rules, o.by, o.now)
	if err == nil {
		err = e.findable(order)
	}
	if err != nil {
		return err
	}

	// Checked last: the question for a confirmation is for an order that is correct otherwise.
	affected := e.affects(r, order)
	if err := q.confirmed(order, affected); err != nil {
		return err
	}

	answer := ordered{Affects: affected, Passes: e.passes(order), Note: joinNotes(ofBits(q.Target), e.ofProxies(order), e.ofTranslators(order), e.contradicted(order, o.now), e.unasked(order))}
	o.add(blocklist.EventOrdered, order)
	return e.ordered(w, r, o, answer)
}

// contradicted reports that the target of a block is allowed, and still passes.
func (e *Enforcer) contradicted(o *blocklist.Order, now int64) string {
	if o.Kind != blocklist.OrderBlock {
		return ""
	}
	for found := range e.config.Set.Find(o.Scope+":"+o.Value, now) {
		if other := found.Order; other != nil && other.Kind == blocklist.OrderAllow && other.Value != o.Value {
			return fmt.Sprintf("%s is allowed by %s (%s): its requests are let through all the same", other.Value, other.By, other.Why)
		}
	}
	return ""
}

// ordered applies an ordering of one order and answers.
func (e *Enforcer) ordered(w http.ResponseWriter, r *http.Request, o *ordering, answer ordered) error {
	is, waits, err := e.put(r, o)
	if err != nil {
		return err
	}
	status := http.StatusCreated
	if o.events[0] == blocklist.EventLifted {
		status = http.StatusOK
	}
	answer.Order, answer.InForce, answer.Note = o.orders[0].Entry(), is, joinNotes(answer.Note, waits)
	writeJSON(w, status, answer)
	return nil
}

// disallow is DELETE /v1/allows.
func (e *Enforcer) disallow(w http.ResponseWriter, r *http.Request) error {
	o, err := e.begin(r)
	if err != nil {
		return err
	}

	q, err := readQuery(r, "target", "why")
	if err != nil {
		return err
	}

	scope, value, err := q.target(e.ruling.Load().Rules)
	if err != nil {
		return err
	}
	return e.lift(w, r, o, q, func(one *blocklist.Order) bool {
		return one.Kind == blocklist.OrderAllow && one.Scope == scope && one.Value == value
	})
}

// lift lifts the active order that meant selects.
func (e *Enforcer) lift(w http.ResponseWriter, r *http.Request, o *ordering, q *orderRequest, meant func(*blocklist.Order) bool) error {
	why, err := q.reason()
	if err != nil {
		return err
	}
	for order := range e.config.Set.Orders(o.now) {
		if meant(order) {
			o.add(blocklist.EventLifted, lifted(order, o.by, why, o.now))
			return e.ordered(w, r, o, ordered{})
		}
	}
	return problemf(http.StatusNotFound, "there is no such active entry")
}

// pause is POST /v1/pause.
func (e *Enforcer) pause(w http.ResponseWriter, r *http.Request) error {
	o, err := e.begin(r)
	if err != nil {
		return err
	}

	q, err := readBody(w, r, maxBody)
	if err != nil {
		return err
	}

	// Ignored, it would become a pause of everything.
	if q.Target != "" || q.Targets != nil || q.End || q.Preview {
		return problemf(http.StatusBadRequest, "a pause is for one rule, or for all: leave target out")
	}

	return e.orderForRule(w, r, o, q, blocklist.OrderPause)
}

// orderForRule gives an order for a rule.
func (e *Enforcer) orderForRule(w http.ResponseWriter, r *http.Request, o *ordering, q *orderRequest, kind blocklist.Kind) error {
	order, err := q.order(kind, o.by, o.now)
	if err == nil {
		order.Rule, err = e.ofRule(q.Rule)
	}
	if err == nil {
		err = checkOrder(order)
	}
	if err != nil {
		return err
	}

	o.add(blocklist.EventOrdered, order)
	return e.ordered(w, r, o, ordered{})
}

// resume is DELETE /v1/pause.
func (e *Enforcer) resume(w http.ResponseWriter, r *http.Request) error {
	o, err := e.begin(r)
	if err != nil {
		return err
	}

	q, err := readQuery(r, "rule", "why")
	if err != nil {
		return err
	}
	q.Rule = cmp.Or(q.Rule, blocklist.EveryRule)

	return e.lift(w, r, o, q, func(one *blocklist.Order) bool {
		return one.Kind == blocklist.OrderPause && one.Rule == q.Rule
	})
}

// allows is GET /v1/allows.
func (e *Enforcer) allows(w http.ResponseWriter, r *http.Request) error {
	return e.listOrders(w, r, blocklist.OrderAllow, "allows")
}

// paused is GET /v1/pause.
func (e *Enforcer) paused(w http.ResponseWriter, r *http.Request) error {
	return e.listOrders(w, r, blocklist.OrderPause, "pauses")
}

func (e *Enforcer) listOrders(w http.ResponseWriter, r *http.Request, kind blocklist.Kind, name string) error {
	if _, err := e.Admit(r, keys.Read); err != nil {
		return err
	}
	shown := []*blocklist.Entry{}
	for order := range e.config.Set.Orders(e.config.Now().UnixMilli()) {
		if order.Kind == kind {
			shown = append(shown, order.Entry())
		}
	}
	writeJSON(w, http.StatusOK, map[string]any{name: shown})
	return nil
}

// pauses returns the paused rules, * for all.
func pauses(set *blocklist.Set, now int64) (rules []string) {
	for order := range set.Orders(now) {
		if order.Kind == blocklist.OrderPause {
			rules = append(rules, order.Rule)
		}
	}
	return rules
}

// newID returns a unique id.
func newID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
