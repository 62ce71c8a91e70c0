package collector

import (
	"log/slog"
	"math"
	"sync"
	"time"
)

const (
	noTime     = math.MinInt64
	stallAfter = 30 * time.Second
	disorder   = 10 // the part of the lateness that is left to what a log itself has out of order
)

// A hold keeps sources that are read from behind together: one does not send what is more than nine tenths of its
// lateness, in request time, ahead of the slowest that still has something to read, or the hits of the slower ones
// would come too late to be counted. It reads on meanwhile, as far as what is in flight may grow.
//
// What is within the lateness of now is not held, so live sources never are; but for members that are catching up, until
// they have nothing more to read or nobody is behind: or the first to come near now would leave the others behind. A member that makes no progress for
// 30 s though it has something to read, and waits for nobody, leaves the comparison, loudly, until it makes some.
//
// A member that has nothing to read holds nobody. For those that share a log with others, as partitions do, that has to
// have been so when the others began to read: what came for all of them at once is not seen by all of them at once.
type hold struct {
	logger *slog.Logger

	mu      sync.Mutex
	members map[*member]struct{}
	doubted chan struct{} // closed when one waits to hear whether others have nothing to read
}

// A member is a log that is compared with the others, in this process or (report) in another.
type member struct {
	hold *hold
	name string
	late int64 // ms

	// Under hold.mu:
	shares     bool      // a log, with others
	began      time.Time // to have something to read
	empty      time.Time // when it is known to have had nothing to read, if it shares
	reached    int64     // all that is older was sent, or will never be; noTime when nothing is known
	settled    int64     // of that, what Kafka is known to have
	reading    bool      // there is something to read
	catchingUp bool      // it has read what was older than its lateness, and not all that there is since
	waiting    bool      // those behind it are slow: no progress is no fault of its own
	wants      int64     // it is held, and would send up to there; noTime when it is not held
	wake       func()    // it, when that may be possible
	progressed time.Time
	gone       bool // out of the comparison
}

func newHold(logger *slog.Logger) *hold {
	return &hold{logger: logger, members: map[*member]struct{}{}, doubted: make(chan struct{})}
}

// join makes a member that has something to read.
func (h *hold) join(name string, late time.Duration) *member {
	now := time.Now()
	m := &member{hold: h, name: name, late: late.Milliseconds(), reached: noTime, settled: noTime, wants: noTime, reading: true, began: now, progressed: now}
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

// reach says that all before a request time is sent.
func (m *member) reach(at int64) {
	m.hold.mu.Lock()
	defer m.hold.mu.Unlock()
	m.progress(at)
}

// idle says whether there is nothing to read, nor anything to be sent.
func (m *member) idle(idle bool) {
	m.hold.mu.Lock()
	defer m.hold.mu.Unlock()
	if m.reading == !idle {
		return
	}
	m.reading, m.progressed = !idle, time.Now()
	if m.reading {
		m.began = m.progressed
	} else {
		m.catchingUp = false
	}
	m.hold.move(noTime)
}

// wasEmpty says that there was nothing to read at a moment.
func (m *member) wasEmpty(at time.Time) {
	m.hold.mu.Lock()
	defer m.hold.mu.Unlock()
	if at.After(m.empty) {
		m.empty = at
		m.hold.move(noTime)
	}
}

// doubts is closed when a member waits to hear of others that they have nothing to read.
func (h *hold) doubts() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.doubted
}

// settle says that Kafka has all before a request time.
func (m *member) settle(at int64) {
	m.hold.mu.Lock()
	defer m.hold.mu.Unlock()
	m.settled = max(m.settled, at)
}

// wait says that the member is kept from reading by others than itself, or no longer.
func (m *member) wait(waiting bool) {
	m.hold.mu.Lock()
	defer m.hold.mu.Unlock()
	if m.waiting && !waiting {
		m.progressed = time.Now()
	}
	m.waiting = waiting
}

// report is what is heard of a member in another process: how far it has got, and whether it has more to read.
func (m *member) report(reached int64, reading bool) {
	m.idle(!reading)
	m.reach(reached)
}

// standing is how far the member has got, and how much of that Kafka has for certain.
func (m *member) standing() (reached, settled int64) {
	m.hold.mu.Lock()
	defer m.hold.mu.Unlock()
	return m.reached, m.settled
}

// waits says whether others keep the member from going on.
func (m *member) waits() bool {
	m.hold.mu.Lock()
	defer m.hold.mu.Unlock()
	return m.waiting || m.wants != noTime
}

// held says whether something of the member waits to be sent because it is ahead of others.
func (m *member) held() bool {
	m.hold.mu.Lock()
	defer m.hold.mu.Unlock()
	return m.wants != noTime
}

// behind says whether the member reads what is older than its lateness.
func (m *member) behind() bool {
	m.hold.mu.Lock()
	defer m.hold.mu.Unlock()
	return m.reading && m.reached < time.Now().UnixMilli()-m.late
}

func (m *member) progress(at int64) {
	if at <= m.reached {
		return
	}
	was := m.reached
	m.reached, m.progressed = at, time.Now()
	if m.gone {
		m.gone = false
		m.hold.logger.Info("a source goes on that had stopped; the others wait for it again", "log", m.name)
	}
	m.hold.move(was)
}

// slack is how far the member may be ahead of others.
func (m *member) slack() int64 { return m.late - m.late/disorder }

// span is how much request time the member may send at once: as much as it may be ahead of others, if there are any.
func (m *member) span() int64 {
	m.hold.mu.Lock()
	defer m.hold.mu.Unlock()
	if m.limit(time.Now()) == math.MaxInt64 {
		return math.MaxInt64
	}
	return m.slack()
}

// move wakes the members that are held no longer now that one has gone on from a request time, or noTime for any change.
func (h *hold) move(was int64) {
	now := time.Now()
	for m := range h.members {
		if m.wants != noTime && after(was, m.slack()) < m.wants && m.wants <= m.limit(now) {
			m.wake()
		}
	}
}

// may says whether the member may send what reaches up to a request time. If it may not, wake is called when it may; as
// time too can change that, the member has to ask again after a second.
func (m *member) may(at int64, wake func()) bool {
	m.hold.mu.Lock()
	defer m.hold.mu.Unlock()
	now := time.Now()
	limit, live := m.limit(now), at >= now.UnixMilli()-m.late
	m.catchingUp = !live || m.catchingUp && limit < now.UnixMilli()
	if live && !m.catchingUp || at <= limit {
		m.free()
		return true
	}
	m.wants, m.wake = at, wake
	m.doubt(now)
	return false
}

// limit is the request time up to which the member may send: noTime when nothing is known of one that it waits for,
// beyond all times when it waits for none.
func (m *member) limit(now time.Time) int64 {
	newest := int64(math.MaxInt64)
	for other := range m.hold.members {
		if other != m && other.counts(now, m.began) {
			newest = min(newest, after(other.reached, m.slack()))
		}
	}
	return newest
}

// doubt says, where the member waits for one that has nothing to read, that this should be looked at.
func (m *member) doubt(now time.Time) {
	for other := range m.hold.members {
		if other != m && !other.reading && after(other.reached, m.slack()) < m.wants && other.counts(now, m.began) {
			close(m.hold.doubted)
			m.hold.doubted = make(chan struct{})
			return
		}
	}
}

// released says that nothing of the member wants to be sent any more.
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

// counts says whether one that began to read at a time waits for the member.
func (m *member) counts(now, began time.Time) bool {
	since := m.progressed
	if !m.reading {
		if !m.shares || !m.empty.Before(began) {
			return false
		}
		if began.After(since) {
			since = began
		}
	}

	if !m.gone && !m.waiting && m.wants == noTime && now.Sub(since) >= stallAfter {
		m.gone = true
		m.hold.logger.Warn("a source has made no progress; the others wait for it no longer, and what it brings later may come too late to be counted",
			"log", m.name, "for", stallAfter)
	}

	return !m.gone
}

func after(at, late int64) int64 {
	if at == noTime {
		return noTime
	}
	return at + late
}
