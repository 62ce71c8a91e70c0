package console

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"slices"
	"sync"
	"time"

	"weir/internal/keys"
	"weir/internal/limited"
)

// Bounds of sessions.
const (
	maxSessions = 1000
	idleEnd     = time.Hour      // without a request; a live list is none
	lastEnd     = 12 * time.Hour // after the log-in
	cookieName  = "weir_console"
	secretBytes = 32
)

// Sessions are the callers after their log-ins. They are only in memory: the end of the process ends them. A session is
// as good as its key: it ends when the file of keys no longer has that key, with that role.
type sessions struct {
	known *keys.File // nil: no one can log in
	now   func() time.Time

	mu  sync.Mutex
	all map[[sha256.Size]byte]*session // by the hash of their id, so that the time of a lookup says nothing about an id
}

// A session is a caller after a log-in.
type session struct {
	key    keys.Key
	local  bool              // without a key: of a user of this machine, or of a person whom the provider knows
	secret [secretBytes]byte // for the token of its forms
	began  time.Time
	used   time.Time // guarded by sessions.mu

	mu        sync.Mutex
	message   string // for its next page
	messageAt time.Time
}

func newSessions(known *keys.File, now func() time.Time) *sessions {
	return &sessions{known: known, now: now, all: map[[sha256.Size]byte]*session{}}
}

// begin makes a session for a key, or for a person without one, and returns its id.
func (s *sessions) begin(key keys.Key, local bool) (id string) {
	var random [secretBytes]byte
	_, _ = rand.Read(random[:]) // never fails
	id = hex.EncodeToString(random[:])
	one := &session{key: key, local: local, began: s.now(), used: s.now()}
	_, _ = rand.Read(one.secret[:])

	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetOld()
	s.all[sha256.Sum256([]byte(id))] = one
	return id
}

// forgetOld makes room for one more session: it forgets those that have ended. If there are too many, it forgets one of
// the key that has most, which was not used for the longest time: so one key ends no session of another.
func (s *sessions) forgetOld() {
	of := map[keys.Key]int{}
	for id, one := range s.all {
		if !s.lasts(one) {
			delete(s.all, id)
			continue
		}
		of[one.key]++
	}
	if len(s.all) < maxSessions {
		return
	}
	var last [sha256.Size]byte
	for id, one := range s.all {
		if than := s.all[last]; than == nil || of[one.key] > of[than.key] || of[one.key] == of[than.key] && one.used.Before(than.used) {
			last = id
		}
	}
	delete(s.all, last)
}

// lasts reports whether a session has not ended. The caller holds the lock.
func (s *sessions) lasts(one *session) bool {
	now := s.now()
	return now.Sub(one.began) < lastEnd && now.Sub(one.used) < idleEnd && (one.local || s.known != nil && slices.Contains(s.known.All(), one.key))
}

// of returns the session of a request, or nil. Looking alone does not count as using it.
func (s *sessions) of(r *http.Request, use bool) *session {
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return nil
	}
	id := sha256.Sum256([]byte(cookie.Value))
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.all[id]
	switch {
	case one == nil:
		return nil
	case !s.lasts(one):
		delete(s.all, id)
		return nil
	case use:
		one.used = s.now()
	}
	return one
}

// end ends the session of a request.
func (s *sessions) end(r *http.Request) {
	if cookie, err := r.Cookie(cookieName); err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.all, sha256.Sum256([]byte(cookie.Value)))
	}
}

// token returns the token of the session's forms. It differs each time, so that the length of a compressed page says
// nothing about it: random bytes, and the secret combined with them.
func (s *session) token() string {
	var both [2 * secretBytes]byte
	_, _ = rand.Read(both[:secretBytes])
	subtle.XORBytes(both[secretBytes:], both[:secretBytes], s.secret[:])
	return hex.EncodeToString(both[:])
}

// issued reports whether a token is one of the session's.
func (s *session) issued(token string) bool {
	both, err := hex.DecodeString(token)
	if err != nil || len(both) != 2*secretBytes {
		return false
	}
	var secret [secretBytes]byte
	subtle.XORBytes(secret[:], both[:secretBytes], both[secretBytes:])
	return subtle.ConstantTimeCompare(secret[:], s.secret[:]) == 1
}

// A visitor is somebody who may read.
type visitor struct {
	Name    string // empty where the API asks for no key
	Role    keys.Role
	session *session // nil without a log-in
	writes  bool
}

// LoggedIn reports whether there is a session to end.
func (v *visitor) LoggedIn() bool { return v.session != nil }

// Writes reports whether actions are offered.
func (v *visitor) Writes() bool { return v.writes }

// Token is the token of a form.
func (v *visitor) Token() string {
	if v.session == nil {
		return ""
	}
	return v.session.token()
}

// asking are the paths that a page asks by itself while it is open.
var asking = []string{root + "live", root + "refused"}

// visitor returns who sends a request, or an error for a request that may not read.
func (c *Console) visitor(r *http.Request) (*visitor, error) {
	if s := c.sessions.of(r, !slices.Contains(asking, r.URL.Path)); s != nil {
		limited.Showed(r.Context())
		return &visitor{Name: s.key.Name, Role: s.key.Role, session: s, writes: !c.config.ReadOnly && s.key.Role.May(keys.Write)}, nil
	}
	name, err := c.config.Admit(r)
	if err != nil {
		return nil, err
	}
	return &visitor{Name: name, Role: keys.Read}, nil
}
