package blocklist

import (
	"context"
	"iter"
	"net/netip"
	"sync"
	"sync/atomic"
)

// Limits bound a Set. What is 0 has its default.
type Limits struct {
	Entries int // records held; what does not fit is left out and counted. Default: 8 Mi
	Changes int // records kept for those who follow. Default: 64 Ki
}

const (
	defaultEntries = 8 << 20
	defaultChanges = 64 << 10
)

// A Set is the list in memory. Any number of goroutines may ask it; its methods that change it may be called by
// several too, and do it one after the other.
type Set struct {
	limits Limits
	list   atomic.Pointer[content]
	state  atomic.Pointer[State]
	edits  atomic.Uint64

	mu         sync.Mutex // of all that writes, and of what follows
	ring       ring
	pending    pending
	leftBehind []*Order      // see LeftBehind
	changed    chan struct{} // nil when nobody waits
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
	s := &Set{limits: limits, pending: newPending(), ring: ring{size: limits.Changes, from: -1}}
	s.install(newContent(limits.Entries), State{})
	return s
}

// install puts a list in force.
func (s *Set) install(c *content, state State) {
	c.prefixes.seen = true
	s.list.Store(c)
	s.edits.Add(1)
	s.state.Store(&state)
}

// Asked is who sends a request.
type Asked struct {
	IP     netip.Addr // not valid: nobody's
	User   string     // "": nobody
	Fields []Field    // what else of the request orders may be for
	Keys   []RuleKey  // the request's key of each rule whose blocks cover it
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
	Entry   Held // what refuses it, a verdict or an order to block: of several the one that lasts longest
	Shadow  Held // what would refuse it, were its rule in force
	Allowed Held // the order that lets it through, whatever else there is; then there is no Entry
	Paused  bool // all is paused, and nothing was looked for; or a rule is that would refuse it
}

// Check asks who may pass. It allocates nothing and takes no lock.
func (s *Set) Check(a *Asked, nowMilli int64) Answer { return s.list.Load().check(a, nowMilli) }

// All are the entries in force, verdicts and orders to block, shadow ones too, as they are when it begins.
func (s *Set) All(nowMilli int64) iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		s.freeze().inForce(nowMilli, func(h Held) bool {
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
		s.freeze().inForce(nowMilli, func(h Held) bool { return !h.isOrder() || yield(h.Order()) })
	}
}

// Find are all entries and orders in force that hold what a person typed: an address or a prefix (what is over it, and
// what is within it), a field with its value (user:alice), or the whole key of an entry.
func (s *Set) Find(text string, nowMilli int64) iter.Seq[Record] {
	return func(yield func(Record) bool) { s.freeze().find(text, nowMilli, yield) }
}

func (s *Set) freeze() frozen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list.Load().freeze()
}

// A Count is how many entries of a rule are in force.
type Count struct {
	Rule    string // manual/SCOPE for orders
	Mode    Mode
	Entries int
}

// Counts are the entries of each rule and mode, and the orders of each scope. What has just ended may be among them.
func (s *Set) Counts() []Count {
	s.mu.Lock()
	defer s.mu.Unlock()
	var counts []Count
	for _, state := range s.list.Load().view.Load().rules {
		counts = append(counts, Count{state.name, Enforce, state.counts[Enforce]})
		if !state.isOrders() {
			counts = append(counts, Count{state.name, Shadow, state.counts[Shadow]})
		}
	}
	return counts
}

// LeftOut is how many records did not fit.
func (s *Set) LeftOut() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list.Load().leftOut
}

// State says what the Set holds.
func (s *Set) State() State { return *s.state.Load() }

// Version is what it holds.
func (s *Set) Version() Version { return s.State().Version }

// Whole says whether it holds a whole list, be it an old one.
func (s *Set) Whole() bool { return s.State().Whole }

// AsOf is the wall clock (Unix milliseconds) of the oldest mark that the list rests on.
func (s *Set) AsOf() int64 { return s.State().AsOf }

// Edits is another number than before once there are other entries or orders: marks do not change it, nor do ends that come by
// the clock. Who asks for it and then for the list has what that number stands for, or more.
func (s *Set) Edits() uint64 { return s.edits.Load() }

// A Change is a record of the log.
type Change struct {
	Offset     int64
	Key, Value []byte // nil is a record without a value
}

// Changes are the records after a version, in their order and at most so many, and the version that they lead to. It
// is false when the Set does not know what followed that version: then a snapshot is needed, or, where the version is
// one that the Set has not reached (see NotYet), patience.
func (s *Set) Changes(after Version, limit int) ([]Change, Version, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Version()
	if after.List != now.List || after.Offset > now.Offset || !s.Whole() {
		return nil, now, false
	}
	changes, ok := s.ring.after(after.Offset, limit)
	if ok && len(changes) == limit && limit > 0 {
		now.Offset = changes[limit-1].Offset
	}
	return changes, now, ok
}

// NotYet says whether a version is one of this list that the Set has not reached.
func (s *Set) NotYet(v Version) bool {
	now := s.Version()
	return now.List == v.List && now.Offset < v.Offset
}

// Changed is closed at the next change of the list, of its state or of the orders that wait for the log.
func (s *Set) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// Wait returns when the Set no longer has this version, or other waiting orders than those that Local named so; or
// when the context is done.
func (s *Set) Wait(ctx context.Context, v Version, local string) {
	for {
		changed := s.Changed()
		if (s.Version() != v && !s.NotYet(v)) || s.Local() != local {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

func (s *Set) notify() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}
