package blocklist

import (
	"encoding/hex"
	"errors"
	"maps"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// pending are the orders that the log has not brought yet, by their records' keys: those given here, and those given at
// the source of this list.
type pending struct {
	own, above map[string]*waiting
	nameAbove  string // nameOf those above, when they were read
}

type waiting struct {
	order *Order
	value []byte
}

func newPending() pending { return pending{own: map[string]*waiting{}, above: map[string]*waiting{}} }

func (p *pending) of(key string) *waiting {
	if w := p.own[key]; w != nil {
		return w
	}
	return p.above[key]
}

// each yields all orders sorted by key, the own ones last, because they override the others.
func (p *pending) each(yield func(key string, w *waiting)) {
	for _, orders := range []map[string]*waiting{p.above, p.own} {
		for _, key := range slices.Sorted(maps.Keys(orders)) {
			yield(key, orders[key])
		}
	}
}

// resolve reports whether a pending order overrides a record. A record that brings the order itself ends its waiting.
func (p *pending) resolve(change Change) bool {
	w := p.of(string(change.Key))
	if w == nil {
		return false
	}

	// Any other record is overridden, because the order will come after it, unless it is newer than the order.
	brought, err := decodeOrder(change.Key, change.Value)
	if err != nil {
		return true
	}
	if brought.ID != w.order.ID {
		return brought.given() <= w.order.given()
	}

	for _, orders := range []map[string]*waiting{p.own, p.above} {
		if w := orders[string(change.Key)]; w != nil && w.order.ID == brought.ID {
			delete(orders, string(change.Key))
		}
	}

	return p.of(string(change.Key)) != nil
}

// drop forgets the orders with these ids.
func (p *pending) drop(ids map[string]bool) {
	for _, orders := range []map[string]*waiting{p.own, p.above} {
		maps.DeleteFunc(orders, func(_ string, w *waiting) bool { return ids[w.order.ID] })
	}
}

// Order applies an order at once. The order stays until the log has brought it (its id), or a newer one of the same
// target.
func (s *Set) Order(o *Order, nowMilli int64) error {
	w, err := newWaiting(o)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := string(o.RecordKey())
	s.pending.own[key] = w
	err = s.list.Load().apply(Change{Key: []byte(key), Value: w.value}, nowMilli)
	s.edits.Add(1)
	s.notify()
	if errors.Is(err, errOutdated) {
		return nil // the log has brought a newer one meanwhile
	}
	return err
}

// Follow gives an order no earlier time than the current one of its target has, which it replaces: the clock of the
// machine that gave that one may be ahead.
func (s *Set) Follow(o *Order, nowMilli int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rule, key, ok := splitKey(o.RecordKey())
	if !ok {
		return
	}
	old := s.list.Load().get(string(rule), key)
	if !old.newerThan(o, nowMilli) {
		return
	}
	if at := old.Order().given(); o.Ended != 0 {
		o.Ended = at
	} else {
		o.From = at
		o.Until = max(o.Until, at+1)
	}
}

func newWaiting(o *Order) (*waiting, error) {
	value, err := o.Append(nil)
	return &waiting{o, value}, err
}

// Pending returns the orders that are active here and that the log has not brought yet.
func (s *Set) Pending() []*Order {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pending.orders()
}

func (p *pending) orders() []*Order {
	var orders []*Order
	p.each(func(key string, w *waiting) {
		if p.of(key) == w {
			orders = append(orders, w.order)
		}
	})
	return orders
}

// Local returns a name for the set of pending orders: other orders have another name. It is empty when there are none.
func (s *Set) Local() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pending.local()
}

func (p *pending) local() string { return nameOf(p.orders()) }

// LocalAbove returns in the same way a name for the orders that were pending at the list's source, when it was last
// read.
func (s *Set) LocalAbove() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pending.nameAbove
}

// setAbove replaces the orders that were given at the list's source.
func (p *pending) setAbove(orders []*Order) {
	p.above, p.nameAbove = map[string]*waiting{}, nameOf(orders)
	for _, o := range orders {
		if w, err := newWaiting(o); err == nil {
			p.above[string(o.RecordKey())] = w
		}
	}
}

// nameOf returns a name that other orders do not have; it is empty for no orders.
func nameOf(orders []*Order) string {
	if len(orders) == 0 {
		return ""
	}
	digest := xxhash.New()
	for _, o := range orders {
		digest.Write(o.RecordKey())
		digest.WriteString("\x00" + o.ID + "\x00")
	}
	return hex.EncodeToString(digest.Sum(nil))
}

// orderAbove applies the orders that wait for the log at the list's source; they replace the earlier ones. Where the
// source lost one that is active here, all stay until a snapshot replaces the list: see LostAbove. The caller holds the
// lock.
func (s *Set) orderAbove(orders []*Order, nowMilli int64) {
	if s.lostAbove = s.loses(orders); s.lostAbove {
		return
	}
	before := s.pending.above
	s.pending.setAbove(orders)
	for key, w := range s.pending.above {
		// An order given here overrides it, and one that was active already is not applied again.
		if old := before[key]; s.pending.own[key] == nil && (old == nil || old.order.ID != w.order.ID) {
			_ = s.list.Load().apply(Change{Key: []byte(key), Value: w.value}, nowMilli)
			s.edits.Add(1)
		}
	}
}

// loses reports whether an order from above is active that is not among those that now wait there, though the log has
// not brought it. The caller holds the lock.
func (s *Set) loses(orders []*Order) bool {
	if len(s.pending.above) == 0 {
		return false
	}
	wait := map[string]*Order{}
	for _, o := range orders {
		wait[string(o.RecordKey())] = o
	}

	for key, w := range s.pending.above {
		if now := wait[key]; now != nil && (now.ID == w.order.ID || now.given() >= w.order.given()) || s.pending.own[key] != nil {
			continue
		}
		rule, rest, ok := splitKey([]byte(key))
		if !ok {
			continue
		}
		if held := s.list.Load().get(string(rule), rest); held.Found() && held.isOrder() && held.Order().ID == w.order.ID {
			return true
		}
	}
	return false
}

// LostAbove reports whether the list's source lost orders before the log had them, for example with its disk. They are
// active here, and no one could end them: only a snapshot shows what the source has.
func (s *Set) LostAbove() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lostAbove
}
