package console

import (
	"net/http"
	"net/netip"
	"time"

	"weir/internal/keys"
)

// Failures are failed log-ins, for tests.
type Failures struct{ *failures }

// NewFailures makes them.
func NewFailures(now func() time.Time) Failures { return Failures{newFailures(now)} }

// Wait is how long an address waits.
func (f Failures) Wait(ip netip.Addr) time.Duration { return f.wait(ip) }

// Note counts a failure.
func (f Failures) Note(ip netip.Addr) { f.note(ip) }

// Addresses is how many are remembered.
func (f Failures) Addresses() int { return len(f.all) }

// Sessions are sessions, for tests.
type Sessions struct{ *sessions }

// NewSessions makes them.
func NewSessions(known *keys.File, now func() time.Time) Sessions {
	return Sessions{newSessions(known, now)}
}

// Begin begins one.
func (s Sessions) Begin(key keys.Key) (id string) { return s.begin(key) }

// Use uses one, and returns whether it lasts.
func (s Sessions) Use(id string) bool {
	r := &http.Request{Header: http.Header{"Cookie": {cookieName + "=" + id}}}
	return s.of(r, true) != nil
}

// Number is how many there are.
func (s Sessions) Number() int { return len(s.all) }
