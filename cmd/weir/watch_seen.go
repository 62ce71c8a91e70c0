package main

import (
	"hash/maphash"

	"weir/pkg/blocklist"
)

// A watchChange is what became of an entry or an order.
type watchChange struct {
	shownEntry
	what string // in the words of the topic events; empty when nothing has
	told bool   // a pardon, or the end that follows it, of which the other was told: people need not read it twice
}

// A watchSeen knows what was seen on the list, so that what is published once more is not told again. It holds about
// 70 bytes an entry, and forgets what is over.
type watchSeen struct {
	seed  maphash.Seed
	of    map[uint64]seenEntry // by the hash of rule and key; among a million two share one once in 30 million lists
	room  int                  // when there are so many, those that are over are forgotten
	round int                  // of whole lists
}

type seenEntry struct {
	id    uint64 // its hash
	until int64
	mode  blocklist.Mode
	ended endedBy
	round int // in which it was seen
}

// An endedBy says what told that an entry was taken off.
type endedBy uint8

const (
	byPardon endedBy = 1 << iota
	byItself
)

func newWatchSeen() *watchSeen {
	return &watchSeen{seed: maphash.MakeSeed(), of: map[uint64]seenEntry{}, room: 1 << 16}
}

// change takes an entry or an order in and says what it is.
func (s *watchSeen) change(e *blocklist.Entry) watchChange {
	change := watchChange{shownEntry: shownEntry{*e}}
	ended, id := endedBy(0), e.ID
	if e.Ended != 0 {
		ended = byItself
	}
	if e.Order == blocklist.OrderPardon { // tells that another one was lifted, by whom and why
		ended, id, change.Rule, change.Key = byPardon, e.Fields["pardons"], e.Fields["rule"], e.Fields["key"]
	}

	key := s.keyOf(&change.Entry)
	before := s.of[key]
	now := seenEntry{maphash.String(s.seed, id), e.Until, e.Mode, ended, s.round}
	s.of[key] = now
	same := before.id == now.id
	if same {
		change.told = ended != 0 && before.ended != 0
		now.ended |= before.ended
		s.of[key] = now
	}

	switch {
	case same && before.ended == now.ended && (ended != 0 || before.until == now.until && before.mode == now.mode):
	case ended != 0:
		change.what = blocklist.EventLifted
	case same && before.mode == now.mode && before.until > now.until:
		change.what = blocklist.EventCorrected
	case same && before.mode == now.mode:
		change.what = blocklist.EventExtended
	case e.Source == blocklist.Manual:
		change.what = blocklist.EventOrdered
	default:
		change.what = blocklist.EventBlocked
	}

	if len(s.of) > s.room {
		s.forget(e.Decided)
	}
	return change
}

// keyOf is the same for what takes each other's place: blocks of a rule and key; a block and an allow of one target.
func (s *watchSeen) keyOf(e *blocklist.Entry) uint64 {
	key := e.Rule + "/" + e.Key
	if e.Source == blocklist.Manual && e.Order != blocklist.OrderPardon {
		for name := range e.Fields {
			key += "/" + name
		}
	}
	return maphash.String(s.seed, key)
}

// forget leaves out what was over at a time.
func (s *watchSeen) forget(at int64) {
	for key, e := range s.of {
		if e.until < at {
			delete(s.of, key)
		}
	}
	s.room = max(s.room, 2*len(s.of))
}

// gone is how many were on the list before the last whole one, should be on it still, and are not.
func (s *watchSeen) gone(now int64) (n int) {
	for key, e := range s.of {
		if e.round == s.round {
			continue
		}
		if e.ended == 0 && e.until > now {
			n++
		}
		delete(s.of, key)
	}
	return n
}
