// Package plain gives the blocklist as plain files, for those with nothing but curl: a list of lines, files for nginx's geo
// and map, a map for HAProxy, and a script for nft.
//
//	GET /v1/blocklist.txt       a value a line
//	GET /v1/blocklist.nginx     addresses for geo: 203.0.113.0/24 per-ip; other scopes for map
//	GET /v1/blocklist.haproxy   203.0.113.0/24 per-ip, for map_ip; other scopes for map_str, after url_enc
//	GET /v1/blocklist.nft       for nft -f: two sets, filled anew at once; addresses only
//
// ?rule=NAME gives what that rule refuses (manual: blocks by hand), ?scope=user the users, or another field's values; the
// scope is ip unless given. Other parameters are refused, and rules that are not known: an empty list would
// refuse nobody.
//
// Lists carry who is refused whatever they ask for (package outright), prefixes that do not overlap (package cidr), in
// order, each value once, with the rule that refuses it longest. No value can be more than a value, whatever users call
// themselves: in text what cannot be printed is written as keys are, \xNN; nginx, whose maps do not tell
// upper case from lower, gets patterns of letters, digits and \xNN unless there is no letter in it; HAProxy gets values with
// all but unreserved characters percent-encoded, as its url_enc does.
//
// An answer is complete, with its length, or it is an error; while there is no whole list it is 503. ETags change only
// when the list does. A list is made anew as often as takes a tenth of the time, or every 10 s; one is made at a time, and at
// most 16 are kept. Nothing here starts a goroutine.
package plain

import (
	"errors"
	"net/http"
	"sync"
	"time"

	"weir/pkg/enforcer/outright"
	"weir/pkg/rule"
)

// Config is what Lists need.
type Config struct {
	List  outright.List
	Rules func() *rule.Set // those in force; may give nil
	// Guard lets through who may read the list.
	Guard func(http.Handler) http.Handler
	Now   func() time.Time // time.Now unless given
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

// path is that of all forms, but for what it ends in.
const path = "/v1/blocklist."

// Handle adds the paths of all forms.
func (l *Lists) Handle(mux *http.ServeMux) {
	for name, form := range forms {
		mux.Handle(path+name, l.Guard(l.handler(name, form)))
	}
}

// A wanted is what was asked for.
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
	// share of the time is what making one file again and again takes, but for where it would then be older than oldest.
	share  = 10
	oldest = 10 * time.Second
)

var errNotWhole = errors.New("there is no whole list yet")

// file is the list as it is, or was very lately.
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

	began := time.Now()
	made := forms[w.form].make(lines(l.List, rules, w, now.UnixMilli()), now.UnixMilli())
	made.made, made.took = now, time.Since(began)
	l.keep(w, made)
	return made, nil
}

// keep takes the place of the oldest file when there is no other.
func (l *Lists) keep(w wanted, made *file) {
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
}
