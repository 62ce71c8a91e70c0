package objects

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"weir/internal/bucket"
	"weir/internal/sleep"
)

var unreadMost = 100_000 // tests lower it

// A listing finds objects by listing the prefix.
type listing struct {
	log    *log
	unread []*object // in the order in which they are read
	others bool      // there are others
	next   time.Time // of the next listing
	took   time.Duration
	from   int64 // the position at the last listing

	open      map[uint64]*bucket.Object // objects that are being written, by hashes of their identities
	following bool                      // those are unread
	looked    time.Time                 // when the objects became unread; zero once they are read
	again     time.Time                 // when those that are being written are looked at again
}

// reset forgets what was found. If some of it was read, the next listing comes soon: what failed may be over by then.
func (g *listing) reset() {
	g.unread, g.others, g.following = nil, false, false
	if soon := time.Now().Add(g.took); g.log.position > g.from && soon.Before(g.next) {
		g.next = soon
	}
}

func (g *listing) look(ctx context.Context) error { return g.log.store.Look(ctx, g.log.prefix) }

func (g *listing) waiting() int64 {
	switch {
	case g.following: // most of them have nothing new
		return 0
	case g.others:
		return int64(len(g.unread)) + 1 // at least
	}
	return int64(len(g.unread))
}

func (g *listing) more() bool { return len(g.unread) > 0 || g.others }

// follow notes whether an object is being written. It is looked at between the listings then, under whatever name.
func (g *listing) follow(o *bucket.Object, open bool) {
	key := hashOf(o.Identity())
	if !open {
		delete(g.open, key)
		return
	}
	if g.open == nil {
		g.open = map[uint64]*bucket.Object{}
	}
	of := *o
	g.open[key] = &of
}

func (g *listing) find(ctx context.Context) (*object, error) {
	if len(g.unread) == 0 {
		now := time.Now()
		g.rest(now)
		switch {
		case len(g.open) > 0 && !now.Before(g.again): // first: the listings may come more often, and have no file that was moved away
			if err := g.lookAgain(ctx, now); err != nil {
				return nil, err
			}
			return g.take(), nil
		case !now.Before(g.next) || g.others:
		default:
			until := g.next
			if len(g.open) > 0 && g.again.Before(until) {
				until = g.again
			}
			sleep.For(ctx, min(waitFor, until.Sub(now)))
			return nil, nil
		}
		g.looked, g.from, g.log.failed = now, g.log.position, nil
		err := g.list(ctx)
		g.took = time.Since(now)
		// A listing of many objects is paid for, so it is not made all the time.
		g.next = now.Add(max(g.log.options.ListEvery, 10*g.took))
		if err != nil || len(g.unread) == 0 {
			return nil, err
		}
	}
	return g.take(), nil
}

func (g *listing) take() *object {
	first := g.unread[0]
	g.unread[0], g.unread = nil, g.unread[1:]
	return first
}

// rest ends a round. The next look at the objects that are being written is as long after the last one as that took, and a
// second.
func (g *listing) rest(now time.Time) {
	if g.looked.IsZero() {
		return
	}
	g.log.trouble, g.log.unready = g.log.unready, nil
	if g.following {
		g.again = now.Add(max(followEvery, now.Sub(g.looked)))
	}
	g.following, g.looked = false, time.Time{}
}

// lookAgain makes all objects unread that are being written.
func (g *listing) lookAgain(ctx context.Context, now time.Time) error {
	sent, err := g.log.memory.Sent(ctx)
	if err != nil {
		return err
	}
	if err := g.log.known.prune(ctx, sent); err != nil {
		return err
	}
	g.following, g.looked = true, now
	for key, o := range g.open {
		g.unread = append(g.unread, &object{Object: *o, when: o.Modified, was: g.log.known.byKey[key]})
	}
	slices.SortFunc(g.unread, inOrder)
	return nil
}

// A look is what a listing finds out.
type look struct {
	unread []*object
	more   bool            // there are more than those
	oldest int64           // Unix second of the oldest object that is not forgotten, and not sent
	days   map[int64]int64 // forgotten objects, by day
}

// list lists all objects, and forgets those that are old enough.
func (g *listing) list(ctx context.Context) error {
	l, k := g.log, &g.log.known
	began := l.options.Now()
	sent, err := l.memory.Sent(ctx)
	if err != nil {
		return err
	}
	seen := look{oldest: began.Add(-l.options.Delay).Unix(), days: map[int64]int64{}}
	for _, e := range k.byKey {
		e.listed = false
	}
	if err := l.store.List(ctx, l.prefix, func(o bucket.Object) error { g.see(&seen, &o); return nil }); err != nil {
		return err
	}

	if err := k.prune(ctx, sent); err != nil {
		return err
	}
	for key, e := range k.byKey {
		if e.end > sent {
			seen.oldest = min(seen.oldest, e.modified-1)
		}
		if e.open() && !e.listed && g.open[key] == nil { // it was deleted or moved away while it was not followed
			moved := *e
			moved.etag, moved.modified = movedAway, began.Unix() // it may come back within the delay
			if err := k.add(&moved); err != nil {
				return err
			}
		}
	}
	if err := k.write(ctx); err != nil {
		return err
	}
	seen.sort()
	g.unread, g.others = seen.unread, seen.more
	return g.advance(ctx, &seen, sent)
}

// see looks at one listed object.
func (g *listing) see(seen *look, o *bucket.Object) {
	k, modified := &g.log.known, o.Modified.Unix()
	mayGrow := g.log.options.Open && o.Size == 0 // of a file that is being written, the length comes late
	if !IsLog(o.Key, o.Size) && !mayGrow {
		return
	}
	was := k.byKey[hashOf(o.Identity())]
	switch {
	case was != nil:
		was.listed, was.empty = true, mayGrow
		if modified > was.modified { // it was written again, so it is remembered longer
			was.modified = modified
			k.dirty[was.record] = true
		}
		if was.etag == hashOf(o.ETag) || was.etag == missedHash(o) {
			return
		}
	case modified <= k.frontier.At:
		if !mayGrow {
			seen.days[modified/secondsADay]++
		}
		return
	}

	if was == nil || !was.open() {
		seen.oldest = min(seen.oldest, modified-1)
	}
	when, ok := TimeOf(o.Key)
	if !ok {
		when = o.Modified
	}
	o.Key = strings.Clone(o.Key)
	seen.unread = append(seen.unread, &object{Object: *o, when: when, was: was})
	if len(seen.unread) >= 2*unreadMost {
		seen.sort()
	}
}

// sort puts the objects into the order in which they are read, and keeps the first ones.
func (s *look) sort() {
	slices.SortFunc(s.unread, inOrder)
	if len(s.unread) > unreadMost {
		clear(s.unread[unreadMost:])
		s.unread, s.more = s.unread[:unreadMost], true
	}
}

// inOrder is the order in which objects are read.
func inOrder(a, b *object) int {
	return cmp.Or(a.when.Compare(b.when), a.Modified.Compare(b.Modified), cmp.Compare(a.Key, b.Key))
}

// advance counts late objects, and moves the frontier up to the oldest object that is needed.
func (g *listing) advance(ctx context.Context, seen *look, sent int64) error {
	k := &g.log.known
	late := int64(0)
	for day, n := range seen.days {
		if k.frontier.Days != nil {
			late += max(0, n-k.frontier.Days[day])
		}
	}
	to := frontier{max(seen.oldest, k.frontier.At), seen.days}
	old := false
	for _, e := range k.byKey {
		if e.modified > to.At || e.open() {
			continue
		}
		old = true
		if e.listed && !e.empty {
			to.Days[e.modified/secondsADay]++
		}
	}
	if !old && maps.Equal(to.Days, k.frontier.Days) && k.frontier.Days != nil {
		return nil
	}
	k.frontier = to
	if err := k.keepFrontier(ctx); err != nil {
		return err
	}
	if late > 0 {
		g.log.noted.add(late, fmt.Sprintf("%d objects appeared later than the delay of %s after they were written, or had been read and were written again with the time of before; they are not read", late, g.log.options.Delay))
	}
	for _, e := range k.forget(sent) {
		g.log.noted.add(1, fmt.Sprintf("a file that was being written: it was deleted or moved out of the path while no collector ran, and did not come back: what follows after its first %d bytes is not read", e.bytes))
	}
	return nil
}
