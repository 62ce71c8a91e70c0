package blocklist

import (
	"iter"
	"net/netip"
	"sync"
	"sync/atomic"
)

// Limits bound a Set. What is 0 has its default.
type Limits struct {
	Entries int // records held; those beyond are left out and counted. Default: 8 Mi
	Changes int // records kept for Changes. Default: 64 Ki
}

const (
	defaultEntries = 8 << 20
	defaultChanges = 64 << 10
)

// A Set is the list in memory.
type Set struct {
	limits Limits
	held   atomic.Pointer[content]

	mu      sync.Mutex // of all that writes, and of what follows
	ring    ring
	pending pending
	changed chan struct{} // nil when nobody waits
	state   atomic.Pointer[State]
}

// A State says what a Set holds.
type State struct {
	Version Version
	Whole   bool
	AsOf    int64 // wall clock (Unix milliseconds) of the oldest mark that the list rests on; 0 without a list
}

// NewSet makes an empty one.
func NewSet(limits Limits) *Set {
	if limits.Entries == 0 {
		limits.Entries = defaultEntries
	}
	if limits.Changes == 0 {
		limits.Changes = defaultChanges
	}
	s := &Set{limits: limits, ring: newRing(limits.Changes), pending: pending{}}
	s.held.Store(newContent(limits.Entries))
	s.state.Store(&State{})
	return s
}

// Asked is who sends a request.
type Asked struct {
	IP     netip.Addr
	User   string
	Fields []Field   // what else orders may be for: those that Scopes names
	Keys   []RuleKey // the request's key of each rule whose blocks cover it
}

// A Field is a field of a request.
type Field struct{ Name, Value string }

// A RuleKey is a rule and a key of it, in its canonical form.
type RuleKey struct {
	Rule string
	Key  []byte
}

// An Answer says what the list says of a request.
type Answer struct {
	Entry   Held // what refuses it, a verdict or an order to block: that which lasts longest
	Shadow  Held // what would refuse it, were its rule in force
	Allowed Held // the order that lets it through
	Paused  bool // it is let through because all, or a rule that would refuse it, is paused
}

// Check asks who may pass. It allocates nothing and takes no lock.
func (s *Set) Check(a *Asked, nowMilli int64) Answer { return s.held.Load().check(a, nowMilli) }

// All are the entries in force, verdicts and orders to block, shadow ones too.
func (s *Set) All(nowMilli int64) iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		s.held.Load().each(nowMilli, func(h Held) bool {
			if h.isOrder() && h.kind() != OrderBlock {
				return true
			}
			return yield(h.Entry())
		})
	}
}

// Orders are all orders in force.
func (s *Set) Orders(nowMilli int64) iter.Seq[*Order] {
	return func(yield func(*Order) bool) {
		s.held.Load().each(nowMilli, func(h Held) bool { return !h.isOrder() || yield(h.Order()) })
	}
}

// Find are all entries and orders in force that hold what a person typed: an address or a prefix (entries over it,
// over a part of it, and over more than it), a field with its value (user:alice), or an entry's whole key.
func (s *Set) Find(text string, nowMilli int64) []Record {
	return s.held.Load().find(text, nowMilli)
}

// State says what the Set holds.
func (s *Set) State() State { return *s.state.Load() }

// Version is what it holds.
func (s *Set) Version() Version { return s.State().Version }

// Whole says whether it holds a whole list, be it an old one.
func (s *Set) Whole() bool { return s.State().Whole }

// AsOf is the wall clock (Unix milliseconds) of the oldest mark that the list rests on.
func (s *Set) AsOf() int64 { return s.State().AsOf }

// Order puts an order in force at once. It stays until the log has brought it (its id), whatever else the log says
// of the same target until then.
func (s *Set) Order(o *Order, nowMilli int64) error {
	value, err := o.Append(nil)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := o.RecordKey()
	s.pending[string(key)] = &waiting{order: o, value: value}
	s.held.Load().apply(Change{Key: key, Value: value}, nowMilli)
	s.notify()
	return nil
}

// Pending are the orders that are in force here and that the log has not brought yet.
func (s *Set) Pending() []*Order {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pending.orders()
}

// A Change is a record of the log.
type Change struct {
	Offset     int64
	Key, Value []byte // nil is a record without a value
}

// Apply takes further records of the log into the list, in their order. What cannot be read is left out and told.
func (s *Set) Apply(nowMilli int64, changes ...Change) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.apply(s.held.Load(), nowMilli, changes)
}

// Changes are the records after a version, in their order and at most so many, and the version that they lead to. It
// is false when the Set does not know what followed that version: a snapshot is needed.
func (s *Set) Changes(after Version, limit int) ([]Change, Version, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.State().Version
	changes, ok := s.ring.after(after, now, limit)
	if ok && len(changes) == limit {
		now.Offset = changes[limit-1].Offset
	}
	return changes, now, ok
}

// Changed is closed at the next change of the list, its state or its pending orders.
func (s *Set) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

func (s *Set) notify() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}
