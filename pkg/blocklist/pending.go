package blocklist

import (
	"encoding/hex"
	"maps"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// pending are the orders that the log has not brought yet, by their records' keys: those given here, and those given
// where this list comes from.
type pending struct {
	own, above map[string]*waiting
	nameAbove  string // of those above, as they were when they were read
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

// each gives all, those of here last, by their keys' order: they are to lie over the others.
func (p *pending) each(yield func(key string, w *waiting)) {
	for _, orders := range []map[string]*waiting{p.above, p.own} {
		for _, key := range slices.Sorted(maps.Keys(orders)) {
			yield(key, orders[key])
		}
	}
}

// gives says whether a record gives way to a pending order. The one that brings the order itself ends its waiting.
func (p *pending) gives(change Change) bool {
	w := p.of(string(change.Key))
	if w == nil {
		return false
	}

	brought, err := decodeOrder(change.Key, change.Value)
	if err != nil || brought.ID != w.order.ID {
		return true
	}

	for _, orders := range []map[string]*waiting{p.own, p.above} {
		if w := orders[string(change.Key)]; w != nil && w.order.ID == brought.ID {
			delete(orders, string(change.Key))
		}
	}

	return p.of(string(change.Key)) != nil
}

// drop forgets those with these ids.
func (p *pending) drop(ids map[string]bool) {
	for _, orders := range []map[string]*waiting{p.own, p.above} {
		maps.DeleteFunc(orders, func(_ string, w *waiting) bool { return ids[w.order.ID] })
	}
}

// Order puts an order in force at once. It stays until the log has brought it (its id), whatever else the log says of
// the same target until then: it is going to be the last one there.
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
	return err
}

func newWaiting(o *Order) (*waiting, error) {
	value, err := o.Append(nil)
	return &waiting{o, value}, err
}

// Pending are the orders that are in force here and that the log has not brought yet.
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

// Local names the pending orders: others have another name. Without any it is empty.
func (s *Set) Local() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pending.local()
}

func (p *pending) local() string { return nameOf(p.orders()) }

// LocalAbove names in the same way the orders that were pending where the list comes from, when it was last read.
func (s *Set) LocalAbove() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pending.nameAbove
}

// nameOf gives orders a name that others do not have; none has none.
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

// orderAbove puts the orders in force that wait for the log where this list comes from; they replace those before. The
// caller holds the lock.
func (s *Set) orderAbove(orders []*Order, nowMilli int64) {
	before := s.pending.above
	s.pending.nameAbove = nameOf(orders)
	s.pending.above = map[string]*waiting{}
	for _, o := range orders {
		key := string(o.RecordKey())
		w, err := newWaiting(o)
		if err != nil {
			continue
		}
		s.pending.above[key] = w
		if old := before[key]; s.pending.own[key] == nil && (old == nil || old.order.ID != o.ID) {
			_ = s.list.Load().apply(Change{Key: []byte(key), Value: w.value}, nowMilli)
			s.edits.Add(1)
		}
	}
}
