// Package crowdsec gives the blocklist to CrowdSec's bouncers: it answers as CrowdSec's Local API does, so that they work
// unchanged.
//
// A bouncer that streams asks every few seconds what is new and what is over; one that asks live asks about each address.
// Decisions are what can be decided without a request (package outright), and their type is ban: addresses (scope Ip) and
// prefixes (Range), and when they are asked for by scope, users (username) and other fields under their own names. The
// scenario is the rule's name, manual for blocks by hand; the origin is weir, or manual.
//
// # What always holds
//
// A list is whole: what goes wrong before its first byte is an answer of 5xx, what goes wrong later ends the connection. While
// there is no whole blocklist the answer is 503, and bouncers keep what they have. No value is both new and deleted.
// Durations are whole seconds, at least one, in streams: the Lua bouncer holds others for ever. Live answers have a
// fraction below a minute, without which express-bouncer and old PHP clients cannot read them. Every object has its six
// fields; long answers are compressed for bouncers that ask for it.
//
// Once an answer was written without an error, the bouncer (its key, its address, its user agent and what it asks for) gets what changed since. That is
// kept on disk; of a bouncer that is not known, or knows less than is kept (200,000 changes, a day), the next answer is
// everything, with what ended lately. After a crash bouncers are told again what they may know, which none of them minds.
// A decision that lasts longer than bouncers were told is sent when that is known, and once more when what they were told is over:
// some take no notice before.
//
// # What it takes
//
// The list is compared with what bouncers were told when one asks, as often as takes a tenth of the time, or every 10 s: with a
// entries the answer is some seconds old. Where neither the list nor the rules changed and nothing has ended it is not compared. Until a bouncer asks nothing is held; then about 320 bytes an entry.
// Answers are bounded in number and in the time that a slow reader has. Run saves what is to be kept; nothing else
// starts a goroutine. Bouncers of one kind behind one address with
// one key are told apart by their connections, as far as they keep them.
package crowdsec

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/telemetry"
	"weir/pkg/enforcer/outright"
	"weir/pkg/rule"
)

// Config is what an API needs.
type Config struct {
	List  outright.List
	Rules func() *rule.Set // those in force; may give nil
	// Admit is the name of the key that a request bears, and whether it may read the list.
	Admit func(*http.Request) (name string, ok bool)
	// Addresses are the names of the keys whose bouncers drop masks: they are given single addresses only.
	Addresses []string
	Folder    string // where is kept what bouncers were told
	Logger    *slog.Logger
	Metrics   prometheus.Registerer
	Now       func() time.Time // time.Now unless given
}

// An API answers bouncers. It is safe for concurrent use.
type API struct {
	Config
	masks, single *table
	seen          *seen
	writing       chan struct{} // a place for each answer that is being written
	metrics       *metrics
	faults        *telemetry.Faults
	warned        sync.Map // what was warned of once, twice as many as there are keys
}

// maxWriting is how many lists are written at a time; who comes then is told to come again.
const maxWriting = 64

// Open reads what is kept in the folder, which is made. What cannot be read is said, and bouncers begin anew.
func Open(c Config) *API {
	if c.Now == nil {
		c.Now = time.Now
	}
	a := &API{Config: c, seen: newSeen(), writing: make(chan struct{}, maxWriting), faults: telemetry.NewFaults(c.Logger)}
	a.masks, a.single = newTable(whole, always), newTable(a.seen.spread, a.seen.added.Load)
	a.metrics = newMetrics(c.Metrics, a)
	for path, t := range a.files() {
		if err := t.load(path); err != nil {
			c.Logger.Warn("what CrowdSec's bouncers were told could not be read: they begin anew", "error", err)
		}
	}
	return a
}

func (a *API) files() map[string]*table {
	return map[string]*table{filepath.Join(a.Folder, "bouncers"): a.masks, filepath.Join(a.Folder, "bouncers-addresses"): a.single}
}

// saveEvery is how often what bouncers were told is saved.
const saveEvery = time.Minute

// Run saves what bouncers were told, once a minute and when the context ends; then it returns.
func (a *API) Run(ctx context.Context) error {
	ticker := time.NewTicker(saveEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return a.Save()
		case <-ticker.C:
			a.note("saving what bouncers were told", a.Save())
		}
	}
}

func (a *API) note(operation string, err error) {
	if err != nil {
		a.faults.Note(operation, err)
		return
	}
	a.faults.Over(operation)
}

// Save writes what is to be kept, where it changed.
func (a *API) Save() error {
	var errs []error
	for path, t := range a.files() {
		errs = append(errs, t.save(path, a.Now()))
	}
	return errors.Join(errs...)
}

// tableOf is the table that a key's bouncers are given, brought up to date and locked.
func (a *API) tableOf(key string) *table {
	t := a.masks
	if slices.Contains(a.Addresses, key) {
		t = a.single
	}
	t.mu.Lock()
	var rules *rule.Set
	if a.Rules != nil {
		rules = a.Rules()
	}
	t.refresh(a.List, rules, a.Now())
	return t
}
