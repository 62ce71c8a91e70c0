package blocklist

// LeftBehind returns the orders that the log should have and does not: active ones that are missing in a log that was
// created again, and those that came before an older one of the same target, which was sent late. Aggregators publish
// their entries again, but only this Set still knows the orders of people. The caller that gives orders must write them
// into the log again. Each is returned once.
func (s *Set) LeftBehind() []*Order {
	s.mu.Lock()
	defer s.mu.Unlock()
	orders := s.leftBehind
	s.leftBehind = nil
	return orders
}

// sendAgain has the current order of a record's key written into the log again: an older one came after it there, and
// would be the one that the log keeps. The caller holds the lock.
func (s *Set) sendAgain(c *content, record []byte) {
	rule, key, ok := splitKey(record)
	if !ok || len(s.leftBehind) == maxLocal {
		return
	}
	if h := c.get(string(rule), key); h.Found() {
		s.leftBehind = append(s.leftBehind, h.Order())
	}
}

// KeepOrders makes the orders of the active list that the next one leaves behind wait for the log. Swap does it too.
func (f *Filling) KeepOrders(next State, now int64) {
	f.set.mu.Lock()
	defer f.set.mu.Unlock()
	for _, o := range f.leavesBehind(next, now) {
		if w, err := newWaiting(o); err == nil {
			f.set.pending.own[string(o.RecordKey())] = w
			f.set.leftBehind = append(f.set.leftBehind, o)
		}
	}
}

// leavesBehind returns the orders of the active list that are missing in the next one. A list older than a day may
// contain orders that were lifted since, so nothing of it is left behind. In another topic nothing was lifted before it
// was begun, so there the lists' names and epochs do not count; nor do they in a log that lost its end. The caller holds the Set's lock.
func (f *Filling) leavesBehind(next State, now int64) (orders []*Order) {
	s := f.set
	held := s.State()
	old, list := held.Version.List, next.Version.List
	if !held.Whole || next.AsOf-held.AsOf > endedLasts {
		return nil
	}
	if !f.Elsewhere && !f.Back && (old.Name != list.Name || old.Epoch >= list.Epoch) {
		return nil
	}

	s.list.Load().freeze().inForce(now, func(h Held) bool {
		if !h.isOrder() {
			return true
		}
		o := h.Order()
		// An order that the new log has lifted is in ordered too, and is not given again.
		if key := string(o.RecordKey()); !f.ordered[key] && s.pending.of(key) == nil {
			orders = append(orders, o)
		}
		return true
	})

	return orders
}
