package console

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"net/url"
	"sync"
	"time"

	"weir/internal/keys"
)

// Bounds of links that log in once.
const (
	onceLasts = time.Minute
	maxOnce   = 16
)

// Links are those that log a user of this machine in, once. They are only in memory.
type links struct {
	now func() time.Time

	mu  sync.Mutex
	all map[[sha256.Size]byte]link // by the hash of their secret
}

type link struct {
	name  string
	until time.Time
}

// begin makes a link for a user, and returns its secret. If there are too many, the oldest one ends.
func (l *links) begin(name string) (secret string, until time.Time) {
	secret, until = rand.Text()+rand.Text(), l.now().Add(onceLasts)

	l.mu.Lock()
	defer l.mu.Unlock()
	var oldest [sha256.Size]byte
	var at time.Time
	for id, one := range l.all {
		if !one.until.After(l.now()) {
			delete(l.all, id)
		} else if at.IsZero() || one.until.Before(at) {
			oldest, at = id, one.until
		}
	}
	if len(l.all) >= maxOnce {
		delete(l.all, oldest)
	}
	l.all[sha256.Sum256([]byte(secret))] = link{name, until}
	return secret, until
}

// use ends a link, and returns its user.
func (l *links) use(secret string) (name string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := sha256.Sum256([]byte(secret))
	one, ok := l.all[id]
	delete(l.all, id)
	return one.name, ok && one.until.After(l.now())
}

// once answers a user of this machine, over the enforcer's socket, with a link for a browser.
func (c *Console) once(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/problem+json")
	name, ok := "", false
	if c.config.Person != nil {
		name, ok = c.config.Person(r)
	}
	if !ok {
		w.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(w).Encode(map[string]any{"title": "Forbidden", "status": http.StatusForbidden, "detail": "links to log in are given only over the enforcer's socket"}) // fails only when the client has gone
		return
	}
	secret, until := c.links.begin(name)
	c.config.Logger.Info("made a link to log in at the console", "name", name)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"path": root + "login?" + url.Values{"once": {secret}}.Encode(), "name": name, "until": until.UTC()}) // likewise
}

// keyOfLink returns what a user of this machine may do in a session.
func (c *Console) keyOfLink(secret string) (key keys.Key, why string) {
	name, ok := c.links.use(secret)
	if !ok {
		return key, "This link has been used, or is older than a minute. Make another one with weir console."
	}
	return keys.Key{Name: name, Role: keys.Write}, ""
}
