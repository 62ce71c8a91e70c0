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
	mu   sync.Mutex
	most int
	ring []attempt
	// The attempts are the count places from the oldest on.
	oldest, count int
	index         map[ID]int32 // places in ring
	lost          int64        // replaced before their time
	_             [64]byte
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
	ended bool // it has been settled
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

// add keeps what an attempt has counted, with what it had counted before if it may be known. The caller has the log's
// lock.
func (a *attempts) add(l *attemptLog, v *Verdict, wants []Want, now int64, known bool) {
	var one *attempt
	if known {
		one = l.find(v.Attempt, now-a.settleable)
	}
	if one == nil || len(one.parts)+len(wants) > maxParts {
		one = l.place(v.Attempt, now-a.settleable)
		one.at, one.parts = now, one.parts[:0]
	}
	for i := range wants {
		if t := &v.Taken[i]; t.Admitted && wants[i].Cost > 0 {
			one.parts = append(one.parts, part{v.found[i].entry, v.found[i].shard, t.At, wants[i].Cost, false})
		}
	}
}

// place is the next place of the ring, which grows when all its attempts can still be settled. Attempts up to an instant
// cannot.
func (l *attemptLog) place(id ID, until int64) *attempt {
	switch {
	case l.count < len(l.ring):
	case l.count > 0 && l.ring[l.oldest].at <= until:
		l.drop()
	case len(l.ring) < l.most:
		l.grow()
	default:
		l.drop()
		l.lost++
	}

	next := (l.oldest + l.count) % len(l.ring)
	l.count++
	one := &l.ring[next]
	one.id, l.index[id] = id, int32(next)
	return one
}

// drop gives the oldest attempt up.
func (l *attemptLog) drop() {
	if id := l.ring[l.oldest].id; l.index[id] == int32(l.oldest) { // not when the attempt was begun again
		delete(l.index, id)
	}
	l.oldest, l.count = (l.oldest+1)%len(l.ring), l.count-1
}

// grow makes a ring that is full larger.
func (l *attemptLog) grow() {
	ring := make([]attempt, min(l.most, max(8, 2*len(l.ring))))
	for i := range l.count {
		from := (l.oldest + i) % len(l.ring)
		if ring[i] = l.ring[from]; l.index[ring[i].id] == int32(from) {
			l.index[ring[i].id] = int32(i)
		}
	}
	l.ring, l.oldest = ring, 0
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
