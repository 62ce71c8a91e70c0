package tables

import (
	"sync"
	"time"
)

const (
	silentFor = time.Second
	endsEvery = 2 * Patience
)

// A Silence tells when the connections that are open are to be ended. After a failover, those to a server that is gone
// may stay open without an answer, and each would cost a call its time, one after the other. A slow answer ends none.
type Silence struct {
	mu           sync.Mutex
	since, ended time.Time
}

// Answered notes an answer of the server, also one that is an error.
func (s *Silence) Answered() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since = time.Time{}
}

// Unanswered notes a call without an answer. It reports whether there was none for so long that the connections are to be
// ended. It does so rarely: those that are being made would end, too.
func (s *Silence) Unanswered() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.since.IsZero() {
		s.since = now
	}
	if now.Sub(s.since) < silentFor || now.Sub(s.ended) < endsEvery {
		return false
	}
	s.ended = now
	return true
}
