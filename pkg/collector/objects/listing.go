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
	more   bool      // there are others
	next   time.Time // of the next listing
}

func (g *listing) reset() { g.unread, g.more = nil, false }

func (g *listing) look(ctx context.Context) error { return g.log.bucket.Look(ctx, g.log.prefix) }

func (g *listing) waiting() int64 {
	if g.more {
		return int64(len(g.unread)) + 1 // at least
	}
	return int64(len(g.unread))
}

func (g *listing) find(ctx context.Context) (*object, error) {
	if len(g.unread) == 0 {
		now := time.Now()
		if now.Before(g.next) && !g.more {
			sleep.For(ctx, min(waitFor, g.next.Sub(now)))
			return nil, nil
		}
		err := g.list(ctx)
		// A listing of many objects is paid for, so it is not made all the time.
		g.next = now.Add(max(g.log.options.ListEvery, 10*time.Since(now)))
		if err != nil || len(g.unread) == 0 {
			return nil, err
		}
	}
	first := g.unread[0]
	g.unread[0], g.unread = nil, g.unread[1:]
	return first, nil
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
	if err := l.bucket.List(ctx, l.prefix, func(o bucket.Object) error { g.see(&seen, &o); return nil }); err != nil {
		return err
	}

	if err := k.write(ctx); err != nil {
		return err
	}
	for _, e := range k.byKey {
		if e.end > sent {
			seen.oldest = min(seen.oldest, e.modified-1)
		}
	}
	seen.sort()
	g.unread, g.more = seen.unread, seen.more
	return g.advance(ctx, &seen)
}

// see looks at one listed object.
func (g *listing) see(seen *look, o *bucket.Object) {
	k, modified := &g.log.known, o.Modified.Unix()
	if !IsLog(o.Key, o.Size) {
		return
	}
	was := k.byKey[hashOf(o.Key)]
	switch {
	case was != nil:
		was.listed = true
		if modified > was.modified { // it was written again, so it is remembered longer
			was.modified = modified
			k.dirty[was.record] = true
		}
		if was.etag == hashOf(o.ETag) || was.etag == missedHash(o) {
			return
		}
	case modified <= k.frontier.At:
		seen.days[modified/secondsADay]++
		return
	}

	seen.oldest = min(seen.oldest, modified-1)
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
	slices.SortFunc(s.unread, func(a, b *object) int {
		return cmp.Or(a.when.Compare(b.when), a.Modified.Compare(b.Modified), cmp.Compare(a.Key, b.Key))
	})
	if len(s.unread) > unreadMost {
		clear(s.unread[unreadMost:])
		s.unread, s.more = s.unread[:unreadMost], true
	}
}

// advance counts late objects, and moves the frontier up to the oldest object that is needed.
func (g *listing) advance(ctx context.Context, seen *look) error {
	k := &g.log.known
	late := int64(0)
	for day, n := range seen.days {
		if k.frontier.Days != nil {
			late += max(0, n-k.frontier.Days[day])
		}
	}
	if late > 0 {
		g.log.missed += late
		g.log.why = fmt.Sprintf("%d objects appeared later than the delay of %s after they were written, or had been read and were written again with the time of before; they are not read", late, g.log.options.Delay)
	}

	to := frontier{max(seen.oldest, k.frontier.At), seen.days}
	old := false
	for _, e := range k.byKey {
		if e.modified > to.At {
			continue
		}
		old = true
		if e.listed {
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
	k.forget()
	return nil
}
