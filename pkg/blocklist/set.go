package blocklist

import (
	"cmp"
	"context"
	"encoding/hex"
	"iter"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
)

// Limits bound a Set. A zero field has its default.
type Limits struct {
	Entries int // most records; others are left out and counted. Default: 8 Mi
	Bytes   int // most bytes of records; others are left out and counted. Default: 1 GiB
	Changes int // records kept for followers. Default: 64 Ki
}

const (
	defaultEntries = 8 << 20
	defaultBytes   = 1 << 30
	defaultChanges = 64 << 10
)

// A Set is the list in memory. All methods may be called at the same time; those that change the Set run one after the
// other.
type Set struct {
	limits Limits
	list   atomic.Pointer[content]
	state  atomic.Pointer[State]
	edits  atomic.Uint64

	mu         sync.Mutex // held by all writers; guards the fields below
	ring       ring
	pending    pending
	lostAbove  bool          // see LostAbove
	leftBehind []*Order      // see LeftBehind
	changed    chan struct{} // nil when there is no waiter
}

// A State describes the contents of a Set.
type State struct {
	Version Version
	Whole   bool
	AsOf    int64 // wall clock (Unix milliseconds) of the oldest mark that the list rests on; 0 without a list
}

// NewSet makes an empty Set.
func NewSet(limits Limits) *Set {
	limits.Entries = cmp.Or(limits.Entries, defaultEntries)
	limits.Bytes = cmp.Or(limits.Bytes, defaultBytes)
	limits.Changes = cmp.Or(limits.Changes, defaultChanges)
	s := &Set{limits: limits, pending: newPending(), ring: ring{size: limits.Changes, from: -1}}
	s.install(newContent(limits), State{})
	return s
}

// install makes a list the active one.
func (s *Set) install(c *content, state State) {
	c.prefixes.published = true
	s.list.Store(c)
	s.edits.Add(1)
	s.state.Store(&state)
}

// Asked is a request to check.
type Asked struct {
	IP     netip.Addr // not valid: none
	User   string     // "": none
	Fields []Field    // further fields that orders may name
	Keys   []RuleKey  // the request's key of each rule

	// Covered reports whether a block of Keys[i] is about the request. It is called for keys with an entry only, because
	// it may take long. nil: all are.
	Covered func(i int) bool
}

// A Field is a field of a request.
type Field struct{ Name, Value string }

// A RuleKey is a rule and a key of it, in its canonical form.
type RuleKey struct {
	Rule string
	Key  []byte
}

// An Answer is the list's decision about a request.
type Answer struct {
	Entry   Held // the entry that refuses it, a verdict or an order to block: of several the one that lasts longest
	Shadow  Held // the entry that would refuse it if its rule enforced
	Allowed Held // the order that lets it through, whatever other entries there are; then there is no Entry
	Paused  bool // everything is paused, and nothing was looked up; or a rule that would refuse it is paused
}

// Check reports whether a request may pass. It allocates nothing and takes no lock.
func (s *Set) Check(a *Asked, nowMilli int64) Answer { return s.list.Load().check(a, nowMilli) }

// Paused reports whether a rule refuses no one now, because it or everything is paused.
func (s *Set) Paused(rule string, nowMilli int64) bool {
	c := s.list.Load()
	if c.paused.Load() > nowMilli {
		return true
	}
	for _, state := range c.view.Load().rules {
		if state.name == rule {
			return state.pausedUntil.Load() > nowMilli
		}
	}
	return false
}

// All yields the active entries, verdicts and orders to block, including shadow ones, as they are when it begins.
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

// Held yields all active entries and orders without decoding them, as they are when it begins.
func (s *Set) Held(nowMilli int64) iter.Seq[Held] {
	return func(yield func(Held) bool) { s.freeze().inForce(nowMilli, yield) }
}

// Orders yields all active orders.
func (s *Set) Orders(nowMilli int64) iter.Seq[*Order] {
	return func(yield func(*Order) bool) {
		s.freeze().inForce(nowMilli, func(h Held) bool { return !h.isOrder() || yield(h.Order()) })
	}
}

// Find yields all active entries and orders that match a text: an address or a prefix (entries over it, and within it),
// a field with its value (user:alice), or the complete key of an entry.
func (s *Set) Find(text string, nowMilli int64, others ...string) iter.Seq[Record] {
	return func(yield func(Record) bool) { s.freeze().find(text, others, nowMilli, yield) }
}

func (s *Set) freeze() frozen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list.Load().freeze()
}

// A Count is the number of active entries of a rule.
type Count struct {
	Rule    string // manual/SCOPE for orders
	Mode    Mode
	Entries int
	Guarded int // of those in shadow mode: the rule's guard keeps them from being enforced, or did until it was confirmed
}

// Counts returns the entries of each rule and mode, and the orders of each scope. It may include entries that have just
// ended.
func (s *Set) Counts() []Count {
	s.mu.Lock()
	defer s.mu.Unlock()
	var counts []Count
	for _, state := range s.list.Load().view.Load().rules {
		counts = append(counts, Count{Rule: state.name, Mode: Enforce, Entries: state.counts[Enforce]})
		if !state.isOrders() {
			counts = append(counts, Count{Rule: state.name, Mode: Shadow, Entries: state.counts[Shadow], Guarded: state.guarded})
		}
	}
	return counts
}

// LeftOut returns how many records did not fit.
func (s *Set) LeftOut() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list.Load().leftOut
}

// State returns the state of the Set.
func (s *Set) State() State { return *s.state.Load() }

// Version returns the version of the list.
func (s *Set) Version() Version { return s.State().Version }

// Whole reports whether the Set contains a complete list, which may be an old one.
func (s *Set) Whole() bool { return s.State().Whole }

// AsOf returns the wall clock (Unix milliseconds) of the oldest watermark that the list rests on.
func (s *Set) AsOf() int64 { return s.State().AsOf }

// Edits returns a number that changes with the entries and orders. Watermarks do not change it, nor do entries that end
// by the clock. A caller that asks for it and then for the list gets the list of that number, or a later one.
func (s *Set) Edits() uint64 { return s.edits.Load() }

// A Change is a record of the log.
type Change struct {
	Offset     int64
	Key, Value []byte // nil is a record without a value
}

// Changes returns the records after a version, in their order and at most limit of them, and the version that they lead
// to. It returns false when the Set does not know the records after that version: then the caller needs a snapshot, or,
// when the Set has not reached that version (see NotYet), patience.
func (s *Set) Changes(after Version, limit int) ([]Change, Version, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Version()
	if after.List != now.List || after.Offset > now.Offset || !s.Whole() {
		return nil, now, false
	}
	changes, ok := s.ring.after(after.Offset, limit)
	// The limit may have left later ones out: the version is that of the last one returned.
	if ok && len(changes) == limit && limit > 0 {
		now.Offset = changes[limit-1].Offset
	}
	return changes, now, ok
}

// Newest returns the version of the list, and a name for the record that it ends with, which is empty when that record
// is not known. Two lists of one version that end with different records are different: one of them went back, and has
// grown again.
func (s *Set) Newest() (v Version, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v = s.Version()
	if change, ok := s.ring.at(v.Offset); ok {
		name = change.name()
	}
	return v, name
}

// Contradicts reports whether the record that a version ends with is another one here than the one with this name.
func (s *Set) Contradicts(v Version, name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	change, ok := s.ring.at(v.Offset)
	return ok && v.List == s.Version().List && change.name() != name
}

func (c Change) name() string {
	digest := xxhash.New()
	digest.Write(c.Key)
	digest.Write([]byte{0})
	digest.Write(c.Value)
	return hex.EncodeToString(digest.Sum(nil))
}

// NotYet reports whether a version is one of this list that the Set has not reached.
func (s *Set) NotYet(v Version) bool {
	now := s.Version()
	return now.List == v.List && now.Offset < v.Offset
}

// Changed returns a channel that is closed at the next change of the list, of its state or of the orders that wait for
// the log.
func (s *Set) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// Wait returns when the Set no longer has this version, when other orders wait than those that Local named so, or when
// the context is done.
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
