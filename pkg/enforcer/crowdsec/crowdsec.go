// Package crowdsec serves the blocklist to CrowdSec's bouncers: it answers like CrowdSec's Local API, so that they work
// unchanged.
//
// A bouncer in stream mode polls every few seconds for new and deleted decisions; one in live mode asks about each
// address. Decisions are the entries that need no request (package outright), and their type is ban: addresses (scope
// Ip) and prefixes (Range), and, when a bouncer asks for their scope, users (username) and other fields under their own
// names. The scenario is the rule's name, manual for blocks by hand; the origin is weir, or manual.
//
// # Guarantees
//
// A list is complete. An error before its first byte is an answer of 5xx; a later error ends the connection. While
// there is no complete blocklist the answer is 503, and bouncers keep their decisions. No value is both new and
// deleted. Streams give durations in seconds without a fraction, at least one: the Lua bouncer would keep other
// decisions for ever.
// Live answers have a fraction below a minute, without which express-bouncer and old PHP clients cannot read them.
// Every object has its six fields; long answers are compressed for bouncers that ask for it.
//
// Once an answer was written without an error, the bouncer (its key, its address, its user agent and its filter) gets
// the changes since then. Its cursor is kept on disk. A bouncer that is unknown, or whose cursor is older than the kept
// changes (200,000 changes, a day), gets everything next, with lately ended decisions. Decisions are on disk before a
// bouncer gets them, so that it gets their end even after a crash. It then gets some changes again, which does no harm.
// While the disk fails, or takes longer than a second, bouncers get them all the same.
// A decision whose end moves to a later time is sent when that is known, and once more after its earlier end, because
// some bouncers ignore it before.
//
// # What it takes
//
// The list is compared with the table when a bouncer asks, in at most a tenth of the time, or every 10 s: with a
// million entries the answer is some seconds old. The comparison is skipped when neither the list nor the rules changed
// and nothing has ended. Until a bouncer asks the API keeps nothing in memory; then about 320 bytes an entry. Answers
// are bounded in number and in the time that a slow reader has. Run saves the tables. Besides, one goroutine for each of
// the two tables may write changes, and outlives the answer where the disk hangs.
// Bouncers of one kind behind one address with one key are distinguished by their connections, as long as they keep
// them.
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

	"weir/internal/limited"
	"weir/internal/telemetry"
	"weir/pkg/enforcer/outright"
	"weir/pkg/rule"
)

// Config configures an API.
type Config struct {
	List  outright.List
	Rules func() *rule.Set // the active rules; may return nil
	// Admit returns the name of the key that a request carries, and whether it may read the list.
	Admit func(*http.Request) (name string, ok bool)
	// Addresses are the names of the keys whose bouncers drop masks: they get only single addresses.
	Addresses []string
	// Asked is called when a bouncer asked about one address or value, with the rule and the id of the decision that lasts
	// longest; empty without one. It must not wait, and may be nil.
	Asked   func(rule, entry string)
	Folder  string // keeps the cursors and tables
	Logger  *slog.Logger
	Metrics prometheus.Registerer
	Now     func() time.Time // nil: time.Now
}

// An API answers bouncers. It is safe for concurrent use.
type API struct {
	Config
	masks, single *table
	refused       *refusedAddresses
	writing       *limited.Places // a place for each answer that is being written
	metrics       *metrics
	faults        *telemetry.Faults
	warned        sync.Map // the warnings that were logged once; at most twice as many as there are keys
}

// maxWriting is how many lists are written at a time; further bouncers are asked to come again.
const maxWriting = 64

// Open reads the tables in the folder, which it creates. A file that cannot be read is logged, and its bouncers begin
// again.
func Open(c Config) *API {
	if c.Now == nil {
		c.Now = time.Now
	}
	a := &API{Config: c, refused: newRefusedAddresses(), writing: limited.NewPlaces(maxWriting), faults: telemetry.NewFaults(c.Logger)}
	a.masks, a.single = newTable(unchanged, always), newTable(a.refused.spread, a.refused.added.Load)
	a.metrics = newMetrics(c.Metrics, a)
	for path, t := range a.files() {
		if err := t.load(path); err != nil {
			c.Logger.Warn("the state of CrowdSec's bouncers could not be read: they begin again with the complete list", "error", err)
		}
	}
	return a
}

func (a *API) files() map[string]*table {
	return map[string]*table{filepath.Join(a.Folder, "bouncers"): a.masks, filepath.Join(a.Folder, "bouncers-addresses"): a.single}
}

// saveEvery is the interval between saves.
const saveEvery = time.Minute

// Run saves the tables once a minute and when the context ends; then it returns.
func (a *API) Run(ctx context.Context) error {
	ticker := time.NewTicker(saveEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return a.Save()
		case <-ticker.C:
			a.note("saving the state of bouncers", a.Save())
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

// Save writes the tables that changed.
func (a *API) Save() error {
	var errs []error
	for path, t := range a.files() {
		errs = append(errs, t.save(path, a.Now()))
	}
	return errors.Join(errs...)
}

// tableOf returns the table for the bouncers of a key, refreshed and locked.
func (a *API) tableOf(key string) *table {
	t := a.masks
	if slices.Contains(a.Addresses, key) {
		t = a.single
	}
	t.mu.Lock()
	t.refresh(a.List, a.Rules(), a.Now())
	return t
}
