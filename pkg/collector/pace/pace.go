// Package pace keeps logs together that read a backlog. A log does not send hits that are more than nine tenths of its
// lateness, in request time, ahead of the slowest log that still has something to read. Otherwise the hits of the slower
// ones would come too late to be counted. A log that waits may continue to read, within its own bounds. The package
// knows neither logs nor hits, only how far each member has got; it starts no goroutines.
//
// Hits within the lateness of now never wait, so live logs never do. The exception is a member that is catching up: it
// Waits until it has nothing more to read or no other member is behind, because the first one near now would leave the
// others behind. A member stops counting, with a warning, when it makes no progress for 30 s although it has something
// to read and waits for no other; it counts again with its next progress.
//
// A member that has nothing to read delays no other. Members that share a log, as partitions do, must also have been
// empty when the others began to read: a backlog that comes for all of them is not seen by all at the same moment.
package pace

import (
	"log/slog"
	"math"
	"sync"
	"time"
)

const (
	NoTime     = math.MinInt64    // no request time is known
	StallAfter = 30 * time.Second // without progress a member no longer counts
	disorder   = 10               // this part of the lateness is reserved for the disorder within a log
)

// A Group is the logs that wait for each other. Its methods and those of its members may be called from any goroutine,
// and do not block.
type Group struct {
	logger *slog.Logger
	now    func() time.Time

	mu      sync.Mutex
	members map[*Member]struct{}
	held    map[*Member]struct{} // those that want to send: few, where most have nothing to read
	doubted chan struct{}        // closed when a member waits for the confirmation that others have nothing to read
}

// A Member is a log that the group compares with others, in this process or in another (report).
type Member struct {
	group *Group
	name  string
	late  int64 // ms

	// Under group.mu:
	shares     bool      // it shares a log with others
	began      time.Time // when it began to have something to read
	empty      time.Time // when it is known to have had nothing to read, if it shares
	reached    int64     // all older hits were sent, or will never be; NoTime when nothing is known
	settled    int64     // all older hits are known to be in Kafka
	hasMore    bool      // there is something to read
	catchingUp bool      // it has read a backlog older than its lateness, and not all newer requests yet
	waiting    bool      // others stop it: missing progress is not its own problem
	wants      int64     // it is held, and wants to send up to this time; NoTime when it is not held
	wake       func()    // called when it may be possible to send
	keptBy     *Member   // the one that was last seen to keep it from that
	progressed time.Time
	gone       bool // it does not count in the comparison
}

// New makes a group without members. Its clock is now.
func New(logger *slog.Logger, now func() time.Time) *Group {
	return &Group{logger: logger, now: now, members: map[*Member]struct{}{}, held: map[*Member]struct{}{}, doubted: make(chan struct{})}
}

// Join makes a member that has something to read.
func (g *Group) Join(name string, late time.Duration) *Member {
	now := g.now()
	m := &Member{group: g, name: name, late: late.Milliseconds(), reached: NoTime, settled: NoTime, wants: NoTime, hasMore: true, began: now, progressed: now}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.members[m] = struct{}{}
	return m
}

// Share makes a member that shares a log with others.
func (g *Group) Share(name string, late time.Duration) *Member {
	m := g.Join(name, late)
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	m.shares, m.catchingUp = true, true
	return m
}

// Leave ends a membership.
func (m *Member) Leave() {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	delete(m.group.members, m)
	delete(m.group.held, m)
	for other := range m.group.members {
		if other.keptBy == m {
			other.keptBy = nil
		}
	}
	m.group.move(NoTime)
}

// Reach notes that all hits before a request time are sent.
func (m *Member) Reach(at int64) {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	m.progress(at)
}

// Idle notes whether there is nothing to read and nothing to send.
func (m *Member) Idle(idle bool) {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	if m.hasMore == !idle {
		return
	}
	m.hasMore, m.progressed = !idle, m.group.now()
	if m.hasMore {
		m.began = m.progressed
	} else {
		m.catchingUp = false
	}
	m.group.move(NoTime)
}

// WasEmpty notes that there was nothing to read at a moment.
func (m *Member) WasEmpty(at time.Time) {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	if at.After(m.empty) {
		m.empty = at
		m.group.move(NoTime)
	}
}

// Doubts returns a channel that is closed when a member waits for the confirmation that others have nothing to read.
func (g *Group) Doubts() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.doubted
}

// Settle notes that Kafka has all hits before a request time.
func (m *Member) Settle(at int64) {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	m.settled = max(m.settled, at)
}

// Wait notes whether others keep the member from reading.
func (m *Member) Wait(waiting bool) {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	if m.waiting && !waiting {
		m.progressed = m.group.now()
	}
	m.waiting = waiting
}

// Report notes the state of a member in another process: how far it has got, and whether it has more to read.
func (m *Member) Report(reached int64, reading bool) {
	m.Idle(!reading)
	m.Reach(reached)
}

// Standing returns how far the member has got, and how much of that is certainly in Kafka.
func (m *Member) Standing() (reached, settled int64) {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	return m.reached, m.settled
}

// Waits reports whether others keep the member from going on.
func (m *Member) Waits() bool {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	return m.waiting || m.wants != NoTime
}

// Held reports whether hits of the member wait because it is ahead of others.
func (m *Member) Held() bool {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	return m.wants != NoTime
}

// Behind reports whether the member reads requests that are older than its lateness.
func (m *Member) Behind() bool {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	return m.hasMore && m.reached < m.group.now().UnixMilli()-m.late
}

func (m *Member) progress(at int64) {
	if at <= m.reached {
		return
	}
	was := m.reached
	m.reached, m.progressed = at, m.group.now()
	if m.gone {
		m.gone = false
		m.group.logger.Info("a source that had stopped continues; the others wait for it again", "log", m.name)
	}
	m.group.move(was)
}

// Slack is how far the member may be ahead of others, in ms.
func (m *Member) Slack() int64 { return m.late - m.late/disorder }

// Lateness is the lateness of the member, in ms.
func (m *Member) Lateness() int64 { return m.late }

// Span is how much request time the member may send at once: as much as it may be ahead of others, if there are any.
func (m *Member) Span() int64 {
	if m.Newest() == math.MaxInt64 {
		return math.MaxInt64
	}
	return m.Slack()
}

// move wakes the members that are no longer held, after a member has moved on from a request time; NoTime stands for
// any change.
func (g *Group) move(was int64) {
	now := g.now()
	for m := range g.held {
		if after(was, m.Slack()) < m.wants && !m.isKept(now) {
			m.wake()
		}
	}
}

// isKept reports whether a member keeps m from sending what it wants to. Each step of each member asks this for all
// that are held, so the member that was last seen to do so is asked first.
func (m *Member) isKept(now time.Time) bool {
	if m.keptBy != nil && m.keptBy.keeps(m, now) {
		return true
	}
	for other := range m.group.members {
		if other.keeps(m, now) {
			m.keptBy = other
			m.doubt()
			return true
		}
	}
	m.keptBy = nil
	return false
}

// keeps reports whether m keeps a member that is held from sending. If it does so because it has stalled, it is taken
// out of the comparison.
func (m *Member) keeps(held *Member, now time.Time) bool {
	if m == held || after(m.reached, held.Slack()) >= held.wants || !m.holds(held.began) {
		return false
	}
	m.dropIfStalled(held.began, now)
	return !m.gone
}

// Newest is the request time up to which the member may send now.
func (m *Member) Newest() int64 {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	m.dropStalled(m.group.now())
	return m.limit()
}

// Count returns how many members have something to read, and how many wait for others.
func (g *Group) Count() (reading, waiting int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for m := range g.members {
		if m.hasMore {
			reading++
		}
		if m.waiting || m.wants != NoTime {
			waiting++
		}
	}
	return reading, waiting
}

// Ask asks to send hits up to a request time, and reports whether the member may. If not, the group calls wake when it
// may. Time alone can change that too, so the member has to ask again after a second.
func (m *Member) Ask(at int64, wake func()) bool {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	now := m.group.now()

	live := at >= now.UnixMilli()-m.late
	if live && m.catchingUp {
		m.dropStalled(now)
		m.catchingUp = m.limit() < now.UnixMilli()
	} else {
		m.catchingUp = !live
	}

	was := m.wants
	m.wants, m.wake = at, wake
	if live && !m.catchingUp || !m.isKept(now) {
		m.wants = was
		m.free()
		return true
	}
	m.doubt()
	m.group.held[m] = struct{}{}
	return false
}

// limit is the request time up to which the member may send: NoTime when it waits for a member of unknown time, beyond
// all times when it waits for none.
func (m *Member) limit() int64 {
	newest := int64(math.MaxInt64)
	for other := range m.group.members {
		if other != m && other.holds(m.began) {
			newest = min(newest, after(other.reached, m.Slack()))
		}
	}
	return newest
}

// doubt asks for a check of the members that have nothing to read if one of them keeps m.
func (m *Member) doubt() {
	if !m.keptBy.hasMore {
		close(m.group.doubted)
		m.group.doubted = make(chan struct{})
	}
}

// Released notes that the member has nothing more to send.
func (m *Member) Released() {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	m.free()
}

func (m *Member) free() {
	delete(m.group.held, m)
	m.wake = nil // it refers to all that the log has in memory
	if m.wants != NoTime {
		m.wants, m.progressed = NoTime, m.group.now()
	}
}

// holds reports whether m, unless it has stalled, keeps back a member that has had something to read since began.
func (m *Member) holds(began time.Time) bool {
	return !m.gone && (m.hasMore || m.shares && m.empty.Before(began))
}

// dropStalled takes the members out of the comparison that hold m and have made no progress for StallAfter.
func (m *Member) dropStalled(now time.Time) {
	for other := range m.group.members {
		if other != m && other.holds(m.began) {
			other.dropIfStalled(m.began, now)
		}
	}
}

// dropIfStalled takes m out of the comparison if it has made no progress for StallAfter while another member, which has
// had something to read since began, waits for it. A member that waits for others has not stalled.
func (m *Member) dropIfStalled(began, now time.Time) {
	if m.waiting || m.wants != NoTime {
		return
	}
	since := m.progressed
	if !m.hasMore && began.After(since) {
		since = began
	}
	if now.Sub(since) >= StallAfter {
		m.gone = true
		m.group.logger.Warn("a source has made no progress; the others no longer wait for it, and its later hits may come too late to be counted",
			"log", m.name, "for", StallAfter)
	}
}

func after(at, late int64) int64 {
	if at == NoTime {
		return NoTime
	}
	return at + late
}
