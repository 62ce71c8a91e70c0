package crowdsec

import (
	"maps"
	"math"
)

const (
	// keepLines is for how long a connection is remembered by which a bouncer came, and maxLines how many of one bouncer.
	keepLines = 10 * 60 * 1000
	maxLines  = 16
)

// lines are the connections by which one bouncer came lately, and how far each of them has got.
//
// Two programs of one kind that share a key and an address look like one bouncer, and one would be given what the other has
// not got. Their connections tell them apart: one that is used again after another one was belongs to another program.
// From then on every connection has its own cursor, and one that is not known begins where the one behind the others is.
// Programs that connect again for each poll cannot be told apart.
type lines struct {
	of   map[string]cursor // by the address and port
	last string
	back int // how often a connection came again after another one
}

// sure is how often a connection has to come again before it is said that there are two: a program may have two connections.
const sure = 3

// farthestBack is how far the one has got that is behind the others.
func (l *lines) farthestBack() int64 {
	back := int64(math.MaxInt64)
	for at := range maps.Values(l.of) {
		back = min(back, at.Revision)
	}
	return back
}

// reached is how far a bouncer has got that comes by a connection.
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

// got remembers how far a bouncer has got by a connection, and says whether it is now sure that these are two.
func (t *table) got(who bouncer, line string, at cursor) (two bool) {
	l := t.lines[who]
	if l == nil {
		l = &lines{of: map[string]cursor{}}
		if before := t.bouncers[who]; before.Two { // before a restart
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
