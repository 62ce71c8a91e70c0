// Package blocked has a list of blocked addresses that tests give to agents and change.
package blocked

import (
	"iter"
	"slices"
	"sync"
	"time"

	"weir/pkg/blocklist"
)

// A List blocks addresses by hand.
type List struct {
	mu      sync.Mutex
	entries []*blocklist.Entry
	orders  []*blocklist.Order
	part    bool
	asked   int // number of calls of Whole
	changed chan struct{}
	edits   uint64
}

// NewList returns a complete list. A block that lasts 0 has no end.
func NewList(lasts map[string]time.Duration) *List {
	l := &List{changed: make(chan struct{})}
	l.Set(lasts)
	return l
}

// Set replaces all blocks and allowed addresses.
func (l *List) Set(lasts map[string]time.Duration, allowed ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries, l.orders = nil, nil
	for address, d := range lasts {
		until := int64(blocklist.Never)
		if d > 0 {
			until = time.Now().Add(d).UnixMilli()
		}
		l.entries = append(l.entries, &blocklist.Entry{Rule: "manual", Source: blocklist.Manual, From: 1, Until: until, Fields: map[string]string{"ip": address}})
	}

	for _, address := range allowed {
		l.orders = append(l.orders, &blocklist.Order{Kind: blocklist.OrderAllow, Scope: "ip", Value: address, From: 1, Until: blocklist.Never})
	}

	l.edits++
	close(l.changed)
	l.changed = make(chan struct{})
}

// SetWhole says whether the list is complete.
func (l *List) SetWhole(whole bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.part = !whole
}

// Asked returns how often Whole was called.
func (l *List) Asked() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked
}

// All yields the active blocks.
func (l *List) All(now int64) iter.Seq[*blocklist.Entry] {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Values(slices.DeleteFunc(slices.Clone(l.entries), func(e *blocklist.Entry) bool { return e.Until <= now }))
}

// Orders yields the allowed addresses.
func (l *List) Orders(int64) iter.Seq[*blocklist.Order] {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Values(l.orders)
}

// Whole reports whether the list is complete.
func (l *List) Whole() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	return !l.part
}

// Edits returns how often Set was called.
func (l *List) Edits() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.edits
}

// Changed returns a channel that the next Set closes.
func (l *List) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}
