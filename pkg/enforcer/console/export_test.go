package console

import (
	"net/http"
	"time"

	"weir/internal/keys"
)

// Sessions are sessions, for tests.
type Sessions struct{ *sessions }

// NewSessions makes them.
func NewSessions(known *keys.File, now func() time.Time) Sessions {
	return Sessions{newSessions(known, now)}
}

// Begin begins one.
func (s Sessions) Begin(key keys.Key) (id string) { return s.begin(key, false) }

// Use uses one, and returns whether it lasts.
func (s Sessions) Use(id string) bool {
	r := &http.Request{Header: http.Header{"Cookie": {cookieName + "=" + id}}}
	return s.of(r, true) != nil
}

// Number is how many there are.
func (s Sessions) Number() int { return len(s.all) }
