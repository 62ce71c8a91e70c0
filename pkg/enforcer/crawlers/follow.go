package crawlers

import (
	"iter"
	"net/netip"
	"time"

	"weir/pkg/blocklist"
)

// following is the place in the list up to which addresses were taken.
type following struct {
	version blocklist.Version
	next    func() (*blocklist.Entry, bool) // of a walk over the complete list; nil without one
	stop    func()
	walked  time.Time
	again   bool // addresses were dropped
}

// hasRoom reports whether addresses of the list may wait: refusals have the other half of the queue.
func (f *Finder) hasRoom() bool { return len(f.queue) < mostWaiting/2 }

// follow takes the addresses of some new entries, as long as there is room, and reports whether there may be more.
func (f *Finder) follow() (more bool) {
	const some = 256
	for range some {
		switch {
		case !f.on.Load() || !f.knows(f.now()):
			return false
		case !f.hasRoom():
			return true
		case f.list.next == nil:
			return f.followChanges(some)
		}
		entry, more := f.list.next()
		if !more {
			f.list.end()
			continue
		}
		f.takeEntry(entry)
	}
	return true
}

func (f *Finder) followChanges(most int) (more bool) {
	changes, version, known := f.config.Set.Changes(f.list.version, most)
	if !known {
		if !f.config.Set.Whole() || f.config.Now().Sub(f.list.walked) < every {
			return false // until the next tick
		}
		f.list.begin(f.config.Set, f.config.Now())
		return true
	}
	f.list.version = version
	for _, change := range changes {
		if record, err := blocklist.DecodeRecord(change.Key, change.Value); err == nil && record.Entry != nil {
			f.takeEntry(record.Entry)
		}
	}
	return len(changes) == most
}

// takeEntry looks up the address of an entry whose key has exactly one.
func (f *Finder) takeEntry(e *blocklist.Entry) {
	if e.Source != blocklist.Verdict || e.Mode != blocklist.Enforce || e.Ended != 0 || e.Until <= f.now() {
		return
	}
	if client, err := netip.ParseAddr(e.Fields["ip"]); err == nil && !f.offer(client, e.Until) {
		f.list.again = true
	}
}

func (l *following) begin(set *blocklist.Set, now time.Time) {
	l.version, l.walked, l.again = set.Version(), now, false // the walk has at least what that version has
	l.next, l.stop = iter.Pull(set.All(now.UnixMilli()))
}

func (l *following) end() {
	if l.next != nil {
		l.stop()
		l.next, l.stop = nil, nil
	}
}
