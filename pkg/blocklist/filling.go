package blocklist

import (
	"bytes"
	"errors"
)

// expirySteps is how many ended records one call forgets at most, besides one per record applied.
const expirySteps = 4096

// Apply applies further records of the log to the list, in their order. It leaves out records that cannot be read or do
// not fit, and returns their errors; it applies the rest. Each call forgets some ended records.
func (s *Set) Apply(nowMilli int64, changes ...Change) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	state, list, edits := s.State(), s.list.Load(), uint64(0)
	for _, change := range changes {
		s.ring.add(change)
		state.Version.Offset = max(state.Version.Offset, change.Offset)
		if !isMark(change.Key) {
			edits++
		}

		// A pending order will be the last record of its target, so earlier ones must not replace it now.
		if s.pending.resolve(change) {
			continue
		}
		err := list.apply(change, nowMilli)
		if errors.Is(err, errOutdated) {
			s.sendAgain(list, change.Key)
		} else if err != nil {
			errs = append(errs, err)
		}
	}

	// In steps: many blocks may end in the same second, and writers take turns.
	list.expire(nowMilli, expirySteps+len(changes))
	s.edits.Add(edits)
	// The state is stored after the records, so a reader that sees the version sees its records.
	if len(changes) > 0 {
		s.state.Store(&state)
		s.notify()
	}

	return errors.Join(errs...)
}

// Ahead applies records that belong to a list which is still being read. It does not change the version, so followers
// of this list do not get these records.
func (s *Set) Ahead(nowMilli int64, changes ...Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.edits.Add(1) }()
	for _, change := range changes {
		if s.pending.of(string(change.Key)) == nil {
			_ = s.list.Load().apply(change, nowMilli) // reported when the other list gets it
		}
	}
}

// Reach sets a later time for the list, or declares it complete.
func (s *Set) Reach(state State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if *s.state.Load() == state {
		return
	}
	s.state.Store(&state)
	s.notify()
}

// A Filling is a list that is read from its beginning, next to the active one. One goroutine uses it.
type Filling struct {
	set     *Set
	content *content
	brought map[string]bool // ids of pending orders that the log has
	ordered map[string]bool // keys of the records of orders in it, lifted ones too
	hidden  map[string]bool // keys whose last record in the log is older than their valid one
	newest  Change          // the newest record of the log, if Offset is not 0
	Last    int64           // the offset of the newest record, -1 before the first

	// Elsewhere is set for a log that is another topic than that of the active list. Orders that are missing there were not
	// lifted, whatever the names and epochs of both lists.
	Elsewhere bool

	// Back is set for a log that has lost its end, and so maybe orders of the active list, whose epoch it still has.
	Back bool
}

// Fill begins a list.
func (s *Set) Fill() *Filling {
	return &Filling{set: s, content: newContent(s.limits), brought: map[string]bool{}, ordered: map[string]bool{}, hidden: map[string]bool{}, Last: -1}
}

// Apply adds records to it; see Set.Apply.
func (f *Filling) Apply(nowMilli int64, changes ...Change) error {
	var errs []error
	for _, change := range changes {
		err := f.content.apply(change, nowMilli)
		if errors.Is(err, errOutdated) {
			f.hidden[string(change.Key)] = true
		} else if err != nil {
			errs = append(errs, err)
		}
		f.note(change, err)
		f.Last = max(f.Last, change.Offset)
	}
	if n := len(changes) - 1; n >= 0 && changes[n].Offset > 0 && changes[n].Offset == f.Last {
		f.newest.set(changes[n])
	}
	f.content.expire(nowMilli, len(changes))
	return errors.Join(errs...)
}

// note remembers the pending orders that the log has brought.
func (f *Filling) note(change Change, err error) {
	if !bytes.HasPrefix(change.Key, []byte(ManualRule+"/")) {
		return
	}
	if err == nil {
		delete(f.hidden, string(change.Key))
	}
	f.ordered[string(change.Key)] = true

	// Orders may be given while the list is read, so the pending ones are looked up each time.
	f.set.mu.Lock()
	w := f.set.pending.of(string(change.Key))
	f.set.mu.Unlock()
	if w == nil {
		return
	}
	if o, err := decodeOrder(change.Key, change.Value); err == nil && o.ID == w.order.ID {
		f.brought[o.ID] = true
	}
}

// Lend applies what the list has by now to the active one, which stays meanwhile: the log is another topic, so all of this
// is new there. Of two orders for one target the later one applies.
func (f *Filling) Lend(nowMilli int64) {
	s := f.set
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.edits.Add(1) }()
	list := s.list.Load()
	f.content.freeze().inForce(nowMilli, func(h Held) bool {
		key := h.recordKey()
		if s.pending.of(string(key)) != nil {
			return true
		}
		if h.isOrder() {
			if old := list.get(h.rule.name, h.record.key()); old.inForce(nowMilli) && old.Order().From >= h.Order().From {
				return true
			}
		}
		_ = list.apply(Change{Key: key, Value: h.record.value()}, nowMilli) // reported when the other list got it
		return true
	})
}

// Lacks returns how many verdicts of the active list this one has no record of, and which would end with it.
func (f *Filling) Lacks(nowMilli int64) (entries int) {
	s := f.set
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list.Load().freeze().inForce(nowMilli, func(h Held) bool {
		if !h.isOrder() && !f.content.get(h.rule.name, h.record.key()).Found() {
			entries++
		}
		return true
	})
	return entries
}

// Differs returns how many verdicts are active in only one of the active list and this one.
func (f *Filling) Differs(nowMilli int64) (entries int) {
	s := f.set
	s.mu.Lock()
	defer s.mu.Unlock()
	active := s.list.Load()
	without := func(other *content) func(Held) bool {
		return func(h Held) bool {
			if !h.isOrder() && !other.get(h.rule.name, h.record.key()).inForce(nowMilli) {
				entries++
			}
			return true
		}
	}
	active.freeze().inForce(nowMilli, without(f.content))
	f.content.freeze().inForce(nowMilli, without(active))
	return entries
}

// Swap makes it the active list with the given state, with the pending orders over it. The Filling must not be used
// again.
func (f *Filling) Swap(state State, nowMilli int64) {
	f.KeepOrders(state, nowMilli)
	f.swap(state, nil, nowMilli)
	f.set.mu.Lock()
	defer f.set.mu.Unlock()
	for key := range f.hidden {
		f.set.sendAgain(f.content, []byte(key))
	}
}

// swap is Swap with the orders that wait for the log at the list's source.
func (f *Filling) swap(state State, above []*Order, nowMilli int64) {
	s := f.set
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending.setAbove(above)
	s.lostAbove = false

	// The log has these orders, so they no longer wait. All others are applied over the new list, which does not have
	// them.
	s.pending.drop(f.brought)
	s.pending.each(func(key string, w *waiting) {
		_ = f.content.apply(Change{Key: []byte(key), Value: w.value}, nowMilli)
	})

	// The changes that the ring has belong to the old list: a follower needs a snapshot now.
	s.ring.reset(state.Version.Offset)
	if f.newest.Offset > 0 {
		s.ring.reset(f.newest.Offset - 1)
		s.ring.add(f.newest)
	}
	s.install(f.content, state)
	s.notify()
}
