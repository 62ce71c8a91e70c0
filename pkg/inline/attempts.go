package inline

import (
	"sync"
	"time"
)

// attempts are those that can be settled.
type attempts struct {
	settleable int64 // milliseconds
	logs       [shards]attemptLog
}

// An attemptLog has the attempts whose IDs end alike, in a ring: the oldest make room for new ones.
type attemptLog struct {
	mu    sync.Mutex
	most  int
	ring  []attempt
	next  int
	index map[ID]int32 // places in ring
	lost  int64        // replaced before their time
	_     [64]byte
}

// An attempt is what was counted of one.
type attempt struct {
	id    ID
	at    int64
	parts []part
}

// A part is what one Want has counted. An entry that was removed since is still there to be settled, and means nothing.
type part struct {
	entry *entry
	shard uint8
	at    int64
	cost  int64
}

func (a *attempts) open(most int, settleable time.Duration) {
	a.settleable = settleable.Milliseconds()
	for i := range a.logs {
		a.logs[i].most, a.logs[i].index = max(1, most/shards), map[ID]int32{}
	}
}

func (a *attempts) log(id ID) *attemptLog { return &a.logs[id[len(id)-1]] }

// maxParts bounds what one attempt has counted: an edge may name many requests alike.
const maxParts = 64

// add keeps what an attempt has counted, with what it had counted before. The caller has the log's lock.
func (a *attempts) add(l *attemptLog, v *Verdict, wants []Want, now int64) {
	one := l.find(v.Attempt, now-a.settleable)
	if one == nil || len(one.parts)+len(wants) > maxParts {
		one = l.place(v.Attempt, now-a.settleable)
		one.at, one.parts = now, one.parts[:0]
	}
	for i := range wants {
		if t := &v.Taken[i]; t.Admitted && wants[i].Cost > 0 {
			one.parts = append(one.parts, part{v.found[i].entry, v.found[i].shard, t.At, wants[i].Cost})
		}
	}
}

// place is the next place of the ring, which grows while its oldest attempt can still be settled. Attempts up to an
// instant cannot.
func (l *attemptLog) place(id ID, until int64) *attempt {
	if l.next == len(l.ring) {
		if len(l.ring) < l.most && (l.next == 0 || l.ring[0].at > until) {
			l.ring = append(l.ring, attempt{})
		} else {
			l.next = 0
		}
	}

	one := &l.ring[l.next]
	if one.id != (ID{}) {
		if l.index[one.id] == int32(l.next) { // not when the attempt was begun again
			delete(l.index, one.id)
		}
		if one.at > until {
			l.lost++
		}
	}
	one.id, l.index[id] = id, int32(l.next)
	l.next++
	return one
}

// find is an attempt that can be settled, or nil. Attempts up to an instant cannot.
func (l *attemptLog) find(id ID, until int64) *attempt {
	if i, known := l.index[id]; known && l.ring[i].at > until {
		return &l.ring[i]
	}
	return nil
}

// markKnown marks what an attempt has counted before, and reports whether the attempt can be settled. The caller has the
// log's lock.
func (a *attempts) markKnown(l *attemptLog, id ID, wants []Want, now int64) (known bool) {
	one := l.find(id, now-a.settleable)
	if one == nil {
		return false
	}
	for i := range wants {
		w := &wants[i]
		for j := range one.parts {
			w.Known = w.Known || one.parts[j].entry.isOf(w.Rule.Name, w.Key)
		}
	}
	return true
}

// settle calls do for all that an attempt has counted.
func (a *attempts) settle(id ID, now int64, do func(*part)) error {
	l := a.log(id)
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.find(id, now-a.settleable)
	if one == nil {
		return ErrUnknown
	}
	for j := range one.parts {
		do(&one.parts[j])
	}
	return nil
}

func (a *attempts) stats() (known int, lost int64) {
	for i := range a.logs {
		l := &a.logs[i]
		l.mu.Lock()
		known += len(l.index)
		lost += l.lost
		l.mu.Unlock()
	}
	return known, lost
}
