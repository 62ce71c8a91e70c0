package crowdsec

import (
	"maps"
	"math"
)

const (
	// keepConnections is how long a bouncer's connection is remembered, in milliseconds, and maxConnections how many of
	// one bouncer.
	keepConnections = 10 * 60 * 1000
	maxConnections  = 16
)

// connections are the recent connections of one bouncer, and the cursor of each.
//
// Two programs of one kind that share a key and an address look like one bouncer, and each would miss the changes that
// the other got. Their connections distinguish them: a connection that is used again after another one belongs to
// another program. From then on every connection has its own cursor, and an unknown one begins at the oldest of them.
// Programs that connect again for each poll cannot be distinguished.
type connections struct {
	of   map[string]cursor // by the address and port
	last string
	back int // how often a connection was used again after another one
}

// sure is how often a connection has to be used again before two programs are reported: one program may have two
// connections.
const sure = 3

// farthestBack returns the oldest revision of the connections.
func (l *connections) farthestBack() int64 {
	back := int64(math.MaxInt64)
	for at := range maps.Values(l.of) {
		back = min(back, at.Revision)
	}
	return back
}

// reached returns the last revision that a bouncer got by a connection.
func (t *table) reached(who bouncer, connection string) (revision int64, known bool) {
	at, known := t.bouncers[who]
	l := t.connections[who]
	if !known || l == nil {
		return at.Revision, known
	}
	if own, came := l.of[connection]; came {
		return own.Revision, true
	}

	// It is not known which of the programs this is. The oldest cursor sends it too much, and never too little.
	if l.back > 0 && len(l.of) > 0 {
		return l.farthestBack(), true
	}
	return at.Revision, true
}

// got stores the last revision that a bouncer got by a connection, and returns whether it has just become clear that
// there are two programs.
func (t *table) got(who bouncer, connection string, at cursor) (two bool) {
	l := t.connections[who]
	if l == nil {
		l = &connections{of: map[string]cursor{}}
		if before := t.bouncers[who]; before.Two { // found before a restart
			l.of[""], l.back = before, 1
		}
		t.connections[who] = l
	}

	maps.DeleteFunc(l.of, func(_ string, before cursor) bool { return before.At < at.At-keepConnections })
	_, came := l.of[connection]
	// A single program rarely comes back to a connection after using another one (see sure).
	if came && l.last != connection {
		l.back++
		two = l.back == sure
	}

	// All connections were quiet for long: it may be one program again.
	if len(l.of) == 0 {
		l.back = 0
	}
	for other := range l.of {
		if len(l.of) < maxConnections {
			break
		}
		delete(l.of, other)
	}

	l.of[connection], l.last = at, connection
	// The file keeps one cursor only, so after a restart both programs begin at the older one.
	if at.Two = l.back > 0; at.Two {
		at.Revision = l.farthestBack()
	}

	t.bouncers.set(who, at)
	if len(t.connections) > len(t.bouncers) {
		maps.DeleteFunc(t.connections, func(who bouncer, _ *connections) bool { _, known := t.bouncers[who]; return !known })
	}
	return two
}
