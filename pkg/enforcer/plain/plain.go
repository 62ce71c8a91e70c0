// Package plain serves the blocklist as plain files, for clients with nothing but curl: a list of lines, files for
// nginx's geo and map, a map for HAProxy, and a script for nft.
//
//	GET /v1/blocklist.txt       a value a line
//	GET /v1/blocklist.nginx     addresses for geo: 203.0.113.0/24 per-ip; other scopes for map
//	GET /v1/blocklist.haproxy   203.0.113.0/24 per-ip, for map_ip; other scopes for map_str, after url_enc
//	GET /v1/blocklist.nft       for nft -f: two sets, replaced at once; addresses only
//
// ?rule=NAME returns only the entries of that rule (manual: blocks by hand), ?scope=user the users, or another field's
// values; the default scope is ip. Other parameters and unknown rules are refused, because an empty list would let
// every client in.
//
// Lists contain the values that are refused outright (package outright), as disjoint prefixes (package cidr), sorted,
// each value once, with the rule that refuses it longest. No value can break out of its place in the file, whatever
// names users choose. In text, bytes that cannot be printed are written as in keys, \xNN. The maps of nginx ignore
// case, so nginx gets a pattern of letters, digits and \xNN for each value with a letter. HAProxy gets values with all
// but unreserved characters percent-encoded, as its url_enc does.
//
// An answer is complete, with its length, or it is an error; while there is no complete list it is 503. ETags change
// only when the list does. Making lists takes at most a tenth of the time, or happens every 10 s; one list is made at a
// time, and at most 16 are kept. Nothing here starts a goroutine.
package plain

import (
	"errors"
	"net/http"
	"sync"
	"time"

	"weir/pkg/enforcer/outright"
	"weir/pkg/rule"
)

// Config configures Lists.
type Config struct {
	List  outright.List
	Rules func() *rule.Set // the active rules; may return nil
	// Guard passes on requests that may read the list.
	Guard func(http.Handler) http.Handler
	Now   func() time.Time // nil: time.Now
}

// Lists are the plain lists. They are safe for concurrent use.
type Lists struct {
	Config

	mu    sync.Mutex
	files map[wanted]*file
}

// New makes them.
func New(c Config) *Lists {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Lists{Config: c, files: map[wanted]*file{}}
}

// path is the common beginning of the paths of all forms.
const path = "/v1/blocklist."

// Handle adds the paths of all forms.
func (l *Lists) Handle(mux *http.ServeMux) {
	for name, form := range forms {
		mux.Handle(path+name, l.Guard(l.handler(name, form)))
	}
}

// A wanted is the query of a request.
type wanted struct{ form, rule, scope string }

// A file is a list in one form.
type file struct {
	body []byte
	tag  string
	made time.Time
	took time.Duration
}

const (
	maxFiles = 16
	// At most 1/share of the time goes into making one file again and again, unless it would then be older than oldest.
	share  = 10
	oldest = 10 * time.Second
)

var errNotWhole = errors.New("there is no complete list yet")

// file returns the list as it is, or was very lately.
func (l *Lists) file(w wanted, rules *rule.Set) (*file, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.List.Whole() {
		return nil, errNotWhole
	}

	now := l.Now()
	if known := l.files[w]; known != nil && now.Sub(known.made) < min(share*known.took, oldest) {
		return known, nil
	}

	// Made under the lock: of many edges that ask at the same time one makes the file, and the others wait for it.
	began := time.Now()
	made := forms[w.form].make(lines(l.List, rules, w, now.UnixMilli()), now.UnixMilli())
	made.made, made.took = now, time.Since(began)

	// Store a file, in the place of the oldest one when there is no room.
	if l.files[w] == nil && len(l.files) >= maxFiles {
		var first wanted
		for key, f := range l.files {
			if known := l.files[first]; known == nil || f.made.Before(known.made) {
				first = key
			}
		}
		delete(l.files, first)
	}
	l.files[w] = made

	return made, nil
}
