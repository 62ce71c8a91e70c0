package crowdsec

import (
	"maps"
	"math"
)

const (
	// keepLines is how long a bouncer's connection is remembered, in milliseconds, and maxLines how many of one
	// bouncer.
	keepLines = 10 * 60 * 1000
	maxLines  = 16
)

// lines are the recent connections of one bouncer, and the cursor of each.
//
// Two programs of one kind that share a key and an address look like one bouncer, and each would miss the changes that
// the other got. Their connections distinguish them: a connection that is used again after another one belongs to
// another program. From then on every connection has its own cursor, and an unknown one begins at the oldest of them.
// Programs that connect again for each poll cannot be distinguished.
type lines struct {
	of   map[string]cursor // by the address and port
	last string
	back int // how often a connection was used again after another one
}

// sure is how often a connection has to be used again before two programs are reported: one program may have two
// connections.
const sure = 3

// farthestBack returns the oldest revision of the connections.
func (l *lines) farthestBack() int64 {
	back := int64(math.MaxInt64)
	for at := range maps.Values(l.of) {
		back = min(back, at.Revision)
	}
	return back
}

// reached returns the last revision that a bouncer got by a connection.
func (t *table) reached(who bouncer, line string) (revision int64, known bool) {
	at, known := t.bouncers[who]
	l := t.lines[who]
	if !known || l == nil {
		return at.Revision, known
	}
	if own, came := l.of[line]; came {
		return own.Revision, true
	}
	if l.back > 0 && len(l.of) > 0 {
		return l.farthestBack(), true
	}
	return at.Revision, true
}

// got stores the last revision that a bouncer got by a connection, and returns whether it has just become clear that
// there are two programs.
func (t *table) got(who bouncer, line string, at cursor) (two bool) {
	l := t.lines[who]
	if l == nil {
		l = &lines{of: map[string]cursor{}}
		if before := t.bouncers[who]; before.Two { // found before a restart
			l.of[""], l.back = before, 1
		}
		t.lines[who] = l
	}

	maps.DeleteFunc(l.of, func(_ string, before cursor) bool { return before.At < at.At-keepLines })
	_, came := l.of[line]
	if came && l.last != line {
		l.back++
		two = l.back == sure
	}

	if len(l.of) == 0 {
		l.back = 0
	}
	for other := range l.of {
		if len(l.of) < maxLines {
			break
		}
		delete(l.of, other)
	}

	l.of[line], l.last = at, line
	if at.Two = l.back > 0; at.Two {
		at.Revision = l.farthestBack()
	}

	t.bouncers.set(who, at)
	if len(t.lines) > len(t.bouncers) {
		maps.DeleteFunc(t.lines, func(who bouncer, _ *lines) bool { _, known := t.bouncers[who]; return !known })
	}
	return two
}
