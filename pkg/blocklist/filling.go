package blocklist

import "errors"

// A Filling is a list that is read from its beginning, beside the one that is in force.
type Filling struct {
	set     *Set
	content *content
	last    int64 // the offset of the newest record
}

// Fill begins a list.
func (s *Set) Fill() *Filling {
	return &Filling{set: s, content: newContent(s.limits.Entries), last: -1}
}

// Apply takes records into it.
func (f *Filling) Apply(nowMilli int64, changes ...Change) error {
	var errs []error
	for _, change := range changes {
		if err := f.content.apply(change, nowMilli); err != nil {
			errs = append(errs, err)
		}
		f.last = max(f.last, change.Offset)
	}
	return errors.Join(errs...)
}

// Swap puts it in force as what the state says, with the pending orders.
func (f *Filling) Swap(state State, nowMilli int64) {
	s := f.set
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, w := range s.pending {
		_ = f.content.apply(Change{Key: []byte(key), Value: w.value}, nowMilli)
	}
	s.ring.reset(state.Version)
	s.held.Store(f.content)
	s.state.Store(&state)
	s.notify()
}

// apply takes records into the list in force; pending orders stay over those that the log has of their targets.
func (s *Set) apply(c *content, nowMilli int64, changes []Change) error {
	var errs []error
	state := s.State()
	for _, change := range changes {
		if s.pending.holds(change) {
			s.ring.add(change)
			continue
		}
		if err := c.apply(change, nowMilli); err != nil {
			errs = append(errs, err)
		}
		s.ring.add(change)
	}
	if len(changes) > 0 {
		state.Version.Offset = max(state.Version.Offset, changes[len(changes)-1].Offset)
		s.state.Store(&state)
		s.notify()
	}
	return errors.Join(errs...)
}

// pending are the orders that the log has not brought yet, by their records' keys.
type pending map[string]*waiting

type waiting struct {
	order *Order
	value []byte
}

func (p pending) orders() []*Order {
	orders := make([]*Order, 0, len(p))
	for _, w := range p {
		orders = append(orders, w.order)
	}
	return orders
}

// holds says whether a record gives way to a pending order. The one that brings the order itself ends its waiting.
func (p pending) holds(change Change) bool {
	w := p[string(change.Key)]
	if w == nil {
		return false
	}
	if record, err := DecodeRecord(change.Key, change.Value); err == nil && record.Order != nil && record.Order.ID == w.order.ID {
		delete(p, string(change.Key))
		return false
	}
	return true
}
