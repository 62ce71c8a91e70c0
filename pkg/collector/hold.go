package collector

import (
	"log/slog"
	"math"
	"sync"
	"time"
)

const (
	noTime     = math.MinInt64 // no request time is known
	stallAfter = 30 * time.Second
	disorder   = 10 // this part of the lateness is reserved for the disorder within a log
)

// A hold keeps sources together that read a backlog. A source does not send hits that are more than nine tenths of its
// lateness, in request time, ahead of the slowest source that still has something to read. Otherwise the hits of the
// slower ones would come too late to be counted. A held source continues to read, within the bounds of its stream.
//
// Hits within the lateness of now are not held, so live sources never are. The exception is a member that is catching
// up: it is held until it has nothing more to read or no other member is behind, because the first one near now would
// leave the others behind. A member stops counting, with a warning, when it makes no progress for 30 s although it has
// something to read and waits for no other; it counts again with its next progress.
//
// A member that has nothing to read holds no other. Members that share a log, as partitions do, must also have been
// empty when the others began to read: a backlog that comes for all of them is not seen by all at the same moment.
type hold struct {
	logger *slog.Logger

	mu      sync.Mutex
	members map[*member]struct{}
	doubted chan struct{} // closed when a member waits for the confirmation that others have nothing to read
}

// A member is a log that the hold compares with others, in this process or in another (report).
type member struct {
	hold *hold
	name string
	late int64 // ms

	// Under hold.mu:
	shares     bool      // it shares a log with others
	began      time.Time // when it began to have something to read
	empty      time.Time // when it is known to have had nothing to read, if it shares
	reached    int64     // all older hits were sent, or will never be; noTime when nothing is known
	settled    int64     // all older hits are known to be in Kafka
	hasMore    bool      // there is something to read
	catchingUp bool      // it has read a backlog older than its lateness, and not all newer requests yet
	waiting    bool      // others stop it: missing progress is not its own problem
	wants      int64     // it is held, and wants to send up to this time; noTime when it is not held
	wake       func()    // called when it may be possible to send
	progressed time.Time
	gone       bool // it does not count in the comparison
}

func newHold(logger *slog.Logger) *hold {
	return &hold{logger: logger, members: map[*member]struct{}{}, doubted: make(chan struct{})}
}

// join makes a member that has something to read.
func (h *hold) join(name string, late time.Duration) *member {
	now := time.Now()
	m := &member{hold: h, name: name, late: late.Milliseconds(), reached: noTime, settled: noTime, wants: noTime, hasMore: true, began: now, progressed: now}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.members[m] = struct{}{}
	return m
}

// share makes a member that shares a log with others.
func (h *hold) share(name string, late time.Duration) *member {
	m := h.join(name, late)
	m.hold.mu.Lock()
	defer m.hold.mu.Unlock()
	m.shares, m.catchingUp = true, true
	return m
}

// leave ends a membership.
func (m *member) leave() {
	m.hold.mu.Lock()
	defer m.hold.mu.Unlock()
	delete(m.hold.members, m)
	m.hold.move(noTime)
}

// reach notes that all hits before a request time are sent.
func (m *member) reach(at int64) {
	m.hold.mu.Lock()
	defer m.hold.mu.Unlock()
	m.progress(at)
}

// idle notes whether there is nothing to read and nothing to send.
func (m *member) idle(idle bool) {
	m.hold.mu.Lock()
	defer m.hold.mu.Unlock()
	if m.hasMore == !idle {
		return
	}
	m.hasMore, m.progressed = !idle, time.Now()
	if m.hasMore {
		m.began = m.progressed
	} else {
		m.catchingUp = false
	}
	m.hold.move(noTime)
}

// wasEmpty notes that there was nothing to read at a moment.
func (m *member) wasEmpty(at time.Time) {
	m.hold.mu.Lock()
	defer m.hold.mu.Unlock()
	if at.After(m.empty) {
		m.empty = at
		m.hold.move(noTime)
	}
}

// doubts returns a channel that is closed when a member waits for the confirmation that others have nothing to read.
func (h *hold) doubts() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.doubted
}

// settle notes that Kafka has all hits before a request time.
func (m *member) settle(at int64) {
	m.hold.mu.Lock()
	defer m.hold.mu.Unlock()
	m.settled = max(m.settled, at)
}

// wait notes whether others keep the member from reading.
func (m *member) wait(waiting bool) {
	m.hold.mu.Lock()
	defer m.hold.mu.Unlock()
	if m.waiting && !waiting {
		m.progressed = time.Now()
	}
	m.waiting = waiting
}

// report notes the state of a member in another process: how far it has got, and whether it has more to read.
func (m *member) report(reached int64, reading bool) {
	m.idle(!reading)
	m.reach(reached)
}

// standing returns how far the member has got, and how much of that is certainly in Kafka.
func (m *member) standing() (reached, settled int64) {
	m.hold.mu.Lock()
	defer m.hold.mu.Unlock()
	return m.reached, m.settled
}

// waits reports whether others keep the member from going on.
func (m *member) waits() bool {
	m.hold.mu.Lock()
	defer m.hold.mu.Unlock()
	return m.waiting || m.wants != noTime
}

// held reports whether hits of the member wait because it is ahead of others.
func (m *member) held() bool {
	m.hold.mu.Lock()
	defer m.hold.mu.Unlock()
	return m.wants != noTime
}

// behind reports whether the member reads requests that are older than its lateness.
func (m *member) behind() bool {
	m.hold.mu.Lock()
	defer m.hold.mu.Unlock()
	return m.hasMore && m.reached < time.Now().UnixMilli()-m.late
}

func (m *member) progress(at int64) {
	if at <= m.reached {
		return
	}
	was := m.reached
	m.reached, m.progressed = at, time.Now()
	if m.gone {
		m.gone = false
		m.hold.logger.Info("a source that had stopped continues; the others wait for it again", "log", m.name)
	}
	m.hold.move(was)
}

// slack is how far the member may be ahead of others, in ms.
func (m *member) slack() int64 { return m.late - m.late/disorder }

// lateness is the lateness of the member, in ms.
func (m *member) lateness() int64 { return m.late }

// span is how much request time the member may send at once: as much as it may be ahead of others, if there are any.
func (m *member) span() int64 {
	if m.newest() == math.MaxInt64 {
		return math.MaxInt64
	}
	return m.slack()
}

// move wakes the members that are no longer held, after a member has moved on from a request time; noTime stands for
// any change.
func (h *hold) move(was int64) {
	now := time.Now()
	for m := range h.members {
		if m.wants == noTime || after(was, m.slack()) >= m.wants {
			continue
		}
		m.dropStalled(now)
		if m.wants <= m.limit() {
			m.wake()
		}
	}
}

// newest is the request time up to which the member may send now.
func (m *member) newest() int64 {
	m.hold.mu.Lock()
	defer m.hold.mu.Unlock()
	m.dropStalled(time.Now())
	return m.limit()
}

// count returns how many members have something to read, and how many wait for others.
func (h *hold) count() (reading, waiting int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for m := range h.members {
		if m.hasMore {
			reading++
		}
		if m.waiting || m.wants != noTime {
			waiting++
		}
	}
	return reading, waiting
}

// ask asks to send hits up to a request time, and reports whether the member may. If not, the hold calls wake when it
// may. Time alone can change that too, so the member has to ask again after a second.
func (m *member) ask(at int64, wake func()) bool {
	m.hold.mu.Lock()
	defer m.hold.mu.Unlock()
	now := time.Now()

	m.dropStalled(now)
	limit, live := m.limit(), at >= now.UnixMilli()-m.late
	m.catchingUp = !live || m.catchingUp && limit < now.UnixMilli()
	if live && !m.catchingUp || at <= limit {
		m.free()
		return true
	}

	m.wants, m.wake = at, wake
	m.doubt()
	return false
}

// limit is the request time up to which the member may send: noTime when it waits for a member of unknown time, beyond
// all times when it waits for none.
func (m *member) limit() int64 {
	newest := int64(math.MaxInt64)
	for other := range m.hold.members {
		if other != m && other.holds(m.began) {
			newest = min(newest, after(other.reached, m.slack()))
		}
	}
	return newest
}

// doubt asks for a check of the members that have nothing to read if the member waits for one of them.
func (m *member) doubt() {
	for other := range m.hold.members {
		if other != m && !other.hasMore && after(other.reached, m.slack()) < m.wants && other.holds(m.began) {
			close(m.hold.doubted)
			m.hold.doubted = make(chan struct{})
			return
		}
	}
}

// released notes that the member has nothing more to send.
func (m *member) released() {
	m.hold.mu.Lock()
	defer m.hold.mu.Unlock()
	m.free()
}

func (m *member) free() {
	if m.wants != noTime {
		m.wants, m.wake, m.progressed = noTime, nil, time.Now()
	}
}

// holds reports whether m, unless it has stalled, keeps back a member that has had something to read since began.
func (m *member) holds(began time.Time) bool {
	return !m.gone && (m.hasMore || m.shares && m.empty.Before(began))
}

// dropStalled takes the members out of the comparison that hold m and have made no progress for stallAfter. A member
// that waits for others has not stalled.
func (m *member) dropStalled(now time.Time) {
	for other := range m.hold.members {
		if other == m || !other.holds(m.began) || other.waiting || other.wants != noTime {
			continue
		}
		since := other.progressed
		if !other.hasMore && m.began.After(since) {
			since = m.began
		}

		if now.Sub(since) >= stallAfter {
			other.gone = true
			m.hold.logger.Warn("a source has made no progress; the others no longer wait for it, and its later hits may come too late to be counted",
				"log", other.name, "for", stallAfter)
		}
	}
}

func after(at, late int64) int64 {
	if at == noTime {
		return noTime
	}
	return at + late
}
