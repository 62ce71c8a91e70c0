// Package console serves pages for people at /console/: the blocks of now and their reasons, one key, the rules, the
// parts, and all actions by their authors. Everything is in the binary; there is no build step.
//
// html/template writes every page completely, and every action is a form, so the pages work without scripts. Own ES
// modules only keep the list of Now up to date, by server-sent events, and write times in the reader's zone. Keys,
// agents, paths and reasons are hostile text: they go through keytext.Shown and html/template, and in scripts through
// textContent. The Content-Security-Policy allows scripts and styles of this origin only, and no HTML from scripts
// (trusted types).
//
// The console decides nothing. It reads the list from the Set, and sends everything else as requests to the enforcer's
// own HTTP interface, in the process, with the name and the role of the caller. So a page can do what the API can do.
//
// Callers log in with an API key, with an OpenID Connect provider (oidc), or users of this machine with a link that
// the socket gives them (once), and get a cookie with a random session (sessions). Without a session, a page shows the
// API's answer to the same request: on loopback without keys, with a client's certificate, and over the unix socket
// that is reading. Orders need a session, the session's token, and a request of the console's own pages.
//
// Bounds: 1,000 sessions, 16 log-ins that ask the provider at a time, 256 live lists, 4 searches at a time, 50 entries
// a page and a change of a live list, 4 changes a second. Half as many live lists as there are processors read the
// list at a time. A search looks at the complete list once; nothing of it is kept.
//
// Handle starts nothing, and no goroutine is started here.
package console

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime"
	"time"

	"weir/internal/keys"
	"weir/internal/limited"
	"weir/internal/telemetry"
	"weir/pkg/blocklist"
	"weir/pkg/enforcer/console/provider"
	"weir/pkg/rule"
)

// Config configures a Console.
type Config struct {
	Set   *blocklist.Set
	Rules func() *rule.Set // the active rules
	// Refuses reports whether refusals are active at all.
	Refuses func() bool

	// API is the enforcer's HTTP interface, and As makes a context for requests to it of a caller with a session.
	API http.Handler
	As  func(ctx context.Context, name string, role keys.Role) context.Context
	// Admit returns the name of a caller without a session who may read, or an error with the reason.
	Admit func(r *http.Request) (name string, err error)
	// Turn waits for a turn to look through the list, and returns the function that ends it. It may be nil.
	Turn func() (end func())
	// Client returns the address that log-ins are logged with.
	Client func(r *http.Request) netip.Addr
	// Person returns the user of this machine who sends a request over the enforcer's socket; nil where there is no socket.
	Person func(r *http.Request) (name string, ok bool)
	// Keys are the API keys to log in with; nil: no one can log in.
	Keys *keys.File
	// Provider is the OpenID Connect provider to log in with; nil: none. It leads back to Redirect, which ends in
	// ReturnPath.
	Provider *provider.Provider
	Redirect string
	// Refused returns how many requests an entry with that id has refused; nil: the list does not show it.
	Refused func(id string) int64
	// ReadOnly offers no actions.
	ReadOnly bool

	Parts   []Part          // what the page of parts asks, and the counts of keys
	Ending  <-chan struct{} // closed when live lists have to end; nil is never
	Version string

	Logger *slog.Logger
	Now    func() time.Time // nil: the wall clock
}

// A Part is a part of Weir that can be asked over HTTP.
type Part struct {
	Name    string // collector, aggregator or enforcer
	Address string // for people
	// Get asks for a path such as /status.
	Get func(ctx context.Context, path string) (status int, body []byte, err error)
}

// A Console serves the pages. It is safe for concurrent use.
type Console struct {
	config   Config
	mux      *http.ServeMux
	sessions *sessions
	links    *links
	delayed  chan struct{} // answers to failed log-ins
	faults   *telemetry.Faults

	asking    *limited.Places // log-ins that ask the provider
	searching *limited.Places
	streaming *limited.Places
	following chan struct{} // live lists that read changes
	totals    totals
	figures   hour
}

const (
	root         = "/console/"
	maxSearching = 4
	maxStreaming = 256
)

// New makes a console.
func New(c Config) *Console {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Turn == nil {
		c.Turn = func() func() { return func() {} }
	}
	console := &Console{config: c, mux: http.NewServeMux(), sessions: newSessions(c.Keys, c.Now), links: &links{now: c.Now, all: map[[sha256.Size]byte]link{}}, delayed: make(chan struct{}, maxDelayed), faults: telemetry.NewFaults(c.Logger),
		asking: limited.NewPlaces(maxAsking), searching: limited.NewPlaces(maxSearching), streaming: limited.NewPlaces(maxStreaming), following: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))}
	console.routes()
	return console
}

// Handle adds the console's paths.
func (c *Console) Handle(mux *http.ServeMux) {
	mux.Handle(root, c)
	mux.Handle("/console", http.RedirectHandler(root, http.StatusMovedPermanently))
}

// routes are all pages. Those that need no log-in are apart.
func (c *Console) routes() {
	c.mux.HandleFunc("GET "+root+"assets/{version}/{name}", c.asset)
	c.mux.HandleFunc("GET "+root+"login", c.loginPage)
	c.mux.HandleFunc("POST "+root+"login", c.login)
	c.mux.HandleFunc("POST "+root+"logout", c.logout)
	c.mux.HandleFunc("POST "+root+"once", c.once)
	if c.config.Provider != nil {
		c.mux.HandleFunc("GET "+beginPath, c.beginOIDC)
		c.mux.HandleFunc("GET "+ReturnPath, c.endOIDC)
	}
	c.mux.HandleFunc("POST "+root+"act", c.act)
	for path, page := range map[string]page{
		"GET " + root + "{$}":     c.now,
		"GET " + root + "live":    c.live,
		"GET " + root + "refused": c.refused,
		"GET " + root + "key":     c.key,
		"GET " + root + "rules":   c.rules,
		"GET " + root + "whatif":  c.whatIf,
		"GET " + root + "parts":   c.parts,
		"GET " + root + "audit":   c.audit,
		"GET " + root + "events":  c.export,
	} {
		c.mux.HandleFunc(path, c.read(page))
	}
	c.mux.HandleFunc(root, c.read(func(http.ResponseWriter, *http.Request, *visitor) error {
		return problem{http.StatusNotFound, "There is no such page."}
	}))
}

// ServeHTTP answers one request.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	for name, value := range safe {
		header.Set(name, value)
	}
	c.mux.ServeHTTP(w, r)
}

// safe are the header fields of all answers. The referrer policy is not no-referrer: with that, browsers send no Origin
// with forms.
var safe = map[string]string{
	"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; " +
		"require-trusted-types-for 'script'; trusted-types 'none'",
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
	"Referrer-Policy":              "same-origin",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Cache-Control":                "no-store",
}

// A page answers a request of a visitor who may read.
type page func(w http.ResponseWriter, r *http.Request, v *visitor) error

// A problem is an error page.
type problem struct {
	status int
	text   string
}

// Error is the text for people.
func (p problem) Error() string { return p.text }

// read answers visitors who may read, and sends others to the log-in.
func (c *Console) read(next page) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := c.visitor(r)
		if err != nil {
			c.sendToLogin(w, r, err)
			return
		}
		if err := next(w, r, v); err != nil {
			c.fail(w, r, v, err)
		}
	}
}
