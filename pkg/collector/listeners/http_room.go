package listeners

import (
	"sync"
	"time"
)

// A room is the memory for the bodies of a source. Senders share it: a sender is a key or a client certificate, and
// without them a connection.
//
// One sender may use all of it while no other needs it. When a body finds no room, others give theirs up: first the
// bodies that have stalled, then the largest body of the sender that holds most, if that is more than the asking sender
// would hold. So a sender always finds an equal share, however many bodies another one sends or leaves unfinished. A
// body that gives up its room is answered with 429, and none of it is counted. A body that is being counted keeps its
// room.
//
// Room is counted for what has arrived, not for what was announced. A room may be used by several goroutines at once.
type room struct {
	stall     time.Duration // without progress after which a body has stalled
	mostPosts int           // of one sender
	now       func() time.Time
	all       int64 // bytes

	mu      sync.Mutex
	freed   sync.Cond // a body has left or has to leave
	left    int64     // bytes that are free
	leaving int64     // bytes of bodies that have to leave and have not yet
	senders map[string]*sender
}

// A sender has bodies in a room.
type sender struct {
	held  int64
	posts map[*post]struct{}
}

// progressBytes have to arrive for a body to make progress.
const progressBytes = 64 << 10

func newRoom(l httpLimits, now func() time.Time) *room {
	m := &room{now: now, all: l.memoryBytes, left: l.memoryBytes, stall: l.stall, mostPosts: l.posts / 2, senders: map[string]*sender{}}
	m.freed.L = &m.mu
	return m
}

// enter makes a post one of its sender's. It returns false if these are too many. Each post that has entered has to be
// released.
func (m *room) enter(p *post) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.senders[p.sender]
	if s == nil {
		s = &sender{posts: map[*post]struct{}{}}
		m.senders[p.sender] = s
	}
	if len(s.posts) >= m.mostPosts {
		return false
	}
	s.posts[p] = struct{}{}
	p.progressed(m.now())
	return true
}

// rest is how many further bytes a post could get if there were no others.
func (m *room) rest(p *post) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.all - p.held
}

// reserve takes bytes for a post that arrives. It may wait for bodies that have to leave; they are interrupted.
func (m *room) reserve(p *post, n int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.left < n && p.state.Load() != postGone {
		if m.leaving >= n-m.left {
			m.freed.Wait()
			continue
		}
		v := m.victim(p, n)
		if v == nil {
			return false
		}
		m.drop(v)
	}
	if p.state.Load() == postGone {
		return false
	}

	m.left -= n
	p.held += n
	m.senders[p.sender].held += n
	return true
}

// victim returns the post that has to leave for a further n bytes of another one, or nil. The caller holds the lock.
func (m *room) victim(asks *post, n int64) (most *post) {
	before := m.now().Add(-m.stall).UnixNano()
	fair := m.senders[asks.sender].held + n
	for _, s := range m.senders {
		for p := range s.posts {
			if p == asks || p.held == 0 {
				continue
			}
			switch p.state.Load() {
			case postArrives:
				if p.progress.Load() < before {
					return p
				}
			case postWaits:
			default:
				continue
			}
			if s.held > fair && (most == nil || m.heavier(p, most)) {
				most = p
			}
		}
	}
	return most
}

// heavier compares the senders of two posts, then the posts.
func (m *room) heavier(p, q *post) bool {
	of, than := m.senders[p.sender].held, m.senders[q.sender].held
	return of > than || of == than && p.held > q.held
}

// drop makes a post leave. If it is arriving, its goroutine releases it. The caller holds the lock.
func (m *room) drop(p *post) {
	switch {
	case p.state.CompareAndSwap(postArrives, postGone):
		p.leaves = true
		m.leaving += p.held
		m.freed.Broadcast() // its goroutine may be waiting for room
		p.interrupt()
	case p.state.CompareAndSwap(postWaits, postGone):
		m.remove(p)
		p.done <- counting{err: errFull}
	}
}

// release returns all bytes of a post that has entered.
func (m *room) release(p *post) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remove(p)
}

// remove returns the bytes of a post, once. The caller holds the lock.
func (m *room) remove(p *post) {
	s := m.senders[p.sender]
	if s == nil {
		return
	}
	if _, in := s.posts[p]; !in {
		return
	}

	delete(s.posts, p)
	if len(s.posts) == 0 {
		delete(m.senders, p.sender)
	}
	s.held -= p.held
	m.left += p.held
	if p.leaves {
		m.leaving -= p.held
	}
	p.body, p.held = nil, 0
	m.freed.Broadcast()
}
