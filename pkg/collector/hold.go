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

// A hold keeps sources that are read from behind together: one does not read on while it is more than nine tenths of
// its lateness, in request time, ahead of the slowest that still has something to read, or the hits of the slower ones
// would come too late to be counted.
//
// A record within the lateness of now is never held, so live sources never are. A member that makes no progress for
// 30 s though it has something to read, and waits for nobody, leaves the comparison, loudly, until it makes some.
type hold struct {
	logger *slog.Logger

	mu      sync.Mutex
	members map[*member]struct{}
	moved   chan struct{} // closed when a limit may have changed
}

// A member is a log that is compared with the others, in this process or (report) in another.
type member struct {
	hold *hold
	name string
	late int64 // ms

	// Under hold.mu:
	reached    int64 // all that is older was sent, or will never be; noTime when nothing is known
	reading    bool  // there is something to read
	waiting    bool  // it is held, or those behind it are slow: no progress is no fault of its own
	progressed time.Time
	gone       bool // out of the comparison
}

func newHold(logger *slog.Logger) *hold {
	return &hold{logger: logger, members: map[*member]struct{}{}, moved: make(chan struct{})}
}

// join makes a member that has something to read.
func (h *hold) join(name string, late time.Duration) *member {
	m := &member{hold: h, name: name, late: late.Milliseconds(), reached: noTime, reading: true, progressed: time.Now()}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.members[m] = struct{}{}
	return m
}

// leave ends a membership.
func (m *member) leave() {
	m.hold.mu.Lock()
	defer m.hold.mu.Unlock()
	delete(m.hold.members, m)
	m.hold.move()
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
	m.hold.move()
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

// standing is how far the member has got, and whether it is kept from reading.
func (m *member) standing() (reached int64, waiting bool) {
	m.hold.mu.Lock()
	defer m.hold.mu.Unlock()
	return m.reached, m.waiting
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
	m.reached, m.progressed = at, time.Now()
	if m.gone {
		m.gone = false
		m.hold.logger.Info("a source goes on that had stopped; the others wait for it again", "log", m.name)
	}
	m.hold.move()
}

func (h *hold) move() {
	close(h.moved)
	h.moved = make(chan struct{})
}

// may says whether the member may read a request of that time now; up to which time it may in any case, until others
// begin to read; and what tells that the answer may have changed.
func (m *member) may(at int64) (may bool, newest int64, moved <-chan struct{}) {
	m.hold.mu.Lock()
	defer m.hold.mu.Unlock()
	now := time.Now()
	newest = math.MaxInt64
	for other := range m.hold.members {
		if other != m && other.counts(now) {
			newest = min(newest, after(other.reached, m.late-m.late/disorder))
		}
	}
	return at <= newest || at >= now.UnixMilli()-m.late, newest, m.hold.moved
}

// counts says whether others wait for the member.
func (m *member) counts(now time.Time) bool {
	if !m.reading {
		return false
	}
	if !m.gone && !m.waiting && now.Sub(m.progressed) >= stallAfter {
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
