package inspect

import (
	"hash/maphash"

	"weir/cmd/weir/internal/shown"
	"weir/pkg/blocklist"
)

// A watchChange is a change of an entry.
type watchChange struct {
	shown.Entry
	what  string // in the words of the topic events; empty when nothing changed
	known bool   // an unblock and the end of its entry are two changes; the second one is known already, and not shown to people
}

// A watchSeen remembers the entries on the list, so that an entry that is published again is not shown again. It uses
// about 70 bytes an entry, and forgets entries after their end.
type watchSeen struct {
	seed  maphash.Seed
	of    map[uint64]seenEntry // by the hash of rule and key; two of a million entries share a hash in one of 30 million lists
	room  int                  // with more entries than this, ended ones are forgotten
	round int                  // number of complete lists that were read
}

type seenEntry struct {
	id    uint64 // its hash
	until int64
	mode  blocklist.Mode
	ended endedBy
	round int // of the list that contained it last
}

// An endedBy is a set of the changes that reported an entry's end.
type endedBy uint8

const (
	byPardon endedBy = 1 << iota
	byItself
)

func newWatchSeen() *watchSeen {
	return &watchSeen{seed: maphash.MakeSeed(), of: map[uint64]seenEntry{}, room: 1 << 16}
}

// change remembers an entry and returns what changed.
func (s *watchSeen) change(e *blocklist.Entry) watchChange {
	change := watchChange{Entry: shown.Entry{Entry: *e}}
	ended, id := endedBy(0), e.ID
	if e.Ended != 0 {
		ended = byItself
	}
	if e.Order == blocklist.OrderPardon { // reports who lifted another entry, and why
		ended = byPardon
		id = e.Fields["pardons"]
		change.Rule = e.Fields["rule"]
		change.Key = e.Fields["key"]
	}

	// The id shows whether this is the known entry of the key or a new one.
	key := s.keyOf(&change.Entry.Entry)
	before := s.of[key]
	now := seenEntry{maphash.String(s.seed, id), e.Until, e.Mode, ended, s.round}
	s.of[key] = now
	same := before.id == now.id
	if same {
		change.known = ended != 0 && before.ended != 0
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

// keyOf returns the same hash for entries that replace each other: blocks of a rule and key; a block and an allow of one
// target.
func (s *watchSeen) keyOf(e *blocklist.Entry) uint64 {
	key := e.Rule + "/" + e.Key
	if e.Source == blocklist.Manual && e.Order != blocklist.OrderPardon {
		for name := range e.Fields {
			key += "/" + name
		}
	}
	return maphash.String(s.seed, key)
}

// forget removes the entries that had ended at a time.
func (s *watchSeen) forget(at int64) {
	for key, e := range s.of {
		if e.until < at {
			delete(s.of, key)
		}
	}
	s.room = max(s.room, 2*len(s.of))
}

// dropGone forgets the entries that the last complete list does not contain, and returns how many of them had not reached
// their end.
func (s *watchSeen) dropGone(now int64) (n int) {
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
