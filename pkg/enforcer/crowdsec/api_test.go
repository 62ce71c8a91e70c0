package crowdsec

import (
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/pkg/blocklist"
	"weir/pkg/rule"
)

// A list is a list for tests. Entries that have ended by the requested time are left out.
type list struct {
	mu      sync.Mutex
	entries map[string]*blocklist.Entry // by rule and key
	orders  map[string]*blocklist.Order
	part    bool // some of it is missing
	edits   uint64
	read    int // number of calls of All
}

func newList() *list {
	return &list{entries: map[string]*blocklist.Entry{}, orders: map[string]*blocklist.Order{}}
}

func (l *list) All(now int64) iter.Seq[*blocklist.Entry] {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.read++
	entries := slices.Collect(maps.Values(l.entries))
	return func(yield func(*blocklist.Entry) bool) {
		for _, e := range entries {
			if e.Until > now && !yield(e) {
				return
			}
		}
	}
}

func (l *list) Orders(now int64) iter.Seq[*blocklist.Order] {
	l.mu.Lock()
	defer l.mu.Unlock()
	orders := slices.Collect(maps.Values(l.orders))
	return func(yield func(*blocklist.Order) bool) {
		for _, o := range orders {
			if o.Until > now && !yield(o) {
				return
			}
		}
	}
}

func (l *list) Whole() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.part
}

func (l *list) Edits() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.edits
}

// block puts a verdict on the list.
func (l *list) block(name, scope, value string, until time.Time) *blocklist.Entry {
	e := &blocklist.Entry{ID: blocklist.ID(name, value, until.UnixMilli(), 1), Rule: name, Key: value, Fields: map[string]string{scope: value},
		Until: until.UnixMilli()}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.edits++
	l.entries[name+"/"+value] = e
	return e
}

func (l *list) lift(name, value string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.edits++
	delete(l.entries, name+"/"+value)
}

func (l *list) order(kind blocklist.Kind, scope, value string, until time.Time) {
	o := &blocklist.Order{ID: "o-" + value, Kind: kind, Scope: scope, Value: value, Until: until.UnixMilli()}
	if kind == blocklist.OrderPause {
		o.Rule, o.Scope, o.Value = value, "", ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.edits++
	l.orders[value] = o
}

var testRules = func() *rule.Set {
	set, _, err := rule.Parse("rules.yaml", []byte(`rules:
  - {name: per-ip, key: ip, limits: [10/min]}
  - {name: scans, key: ip, limits: [10/min]}
  - {name: per-net, key: ip/24, limits: [10/min]}
  - {name: per-user, key: user, limits: [10/min]}
  - {name: sign-in, key: ip, limits: [10/min], match: path == "/login", block: {covers: match}}
`))
	if err != nil {
		panic(err)
	}
	return set
}()

// A site is an API over a list, at a time that the test sets.
type site struct {
	*API
	list   *list
	folder string
	now    time.Time
	mux    *http.ServeMux
	asked  []string // the rules of the answers to live questions
	timed  bool     // whether the duration of a refresh matters: not on a machine that has other things to do
}

func newSite(t testing.TB, addresses ...string) *site {
	s := &site{list: newList(), folder: t.TempDir(), now: time.UnixMilli(1_800_000_000_000)}
	s.open(addresses...)
	return s
}

// open creates the API again from the files on disk.
func (s *site) open(addresses ...string) {
	s.API = Open(Config{List: s.list, Rules: func() *rule.Set { return testRules }, Admit: admit, Addresses: addresses, Folder: s.folder,
		Asked:  func(rule, entry string) { s.asked = append(s.asked, rule+" "+entry) },
		Logger: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Now: func() time.Time { return s.now }})
	s.mux = http.NewServeMux()
	s.Handle(s.mux)
}

func admit(r *http.Request) (string, bool) {
	name, ok := strings.CutPrefix(r.Header.Get("X-Api-Key"), "key-of-")
	return name, ok
}

func (s *site) after(d time.Duration) time.Time { return s.now.Add(d) }

func (s *site) ask(method, url, body string) *httptest.ResponseRecorder {
	return s.askAs("edge", "192.0.2.1:1234", method, url, body)
}

func (s *site) askAs(key, address, method, url, body string) *httptest.ResponseRecorder {
	if !s.timed {
		s.masks.took, s.single.took = 0, 0
	}
	r := httptest.NewRequest(method, url, strings.NewReader(body))
	r.Header.Set("X-Api-Key", "key-of-"+key)
	r.RemoteAddr = address
	w := httptest.NewRecorder()
	s.mux.ServeHTTP(w, r)
	return w
}

// A decision is in the form that a bouncer reads: all six fields are required.
type decision struct {
	Duration, Origin, Scenario, Scope, Type, Value *string
	ID                                             *int64
}

func (d *decision) lasts(t *testing.T) time.Duration {
	t.Helper()
	duration, err := time.ParseDuration(*d.Duration)
	if err != nil || duration%time.Second != 0 {
		t.Fatalf("the duration %s, %v", *d.Duration, err)
	}
	return duration
}

func (d *decision) String() string {
	return fmt.Sprintf("%s %s %s %s", *d.Scope, *d.Value, *d.Scenario, *d.Duration)
}

type streamed struct{ New, Deleted []decision }

// poll polls like a bouncer, and fails the test unless the answer meets every bouncer's needs.
func (s *site) poll(t *testing.T, query string) streamed {
	t.Helper()
	return read(t, s.ask("GET", "/v1/decisions/stream"+query, ""))
}

func read(t *testing.T, w *httptest.ResponseRecorder) streamed {
	t.Helper()
	body, _ := io.ReadAll(w.Body)
	var got streamed
	if err := json.Unmarshal(body, &got); err != nil || w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("%d %v: %s", w.Code, err, body)
	}
	gone := map[string]bool{}
	for _, d := range got.Deleted {
		gone[*d.Value] = true
		if d.lasts(t) >= 0 {
			t.Errorf("%s is deleted and lasts", &d)
		}
	}
	for _, d := range got.New {
		if gone[*d.Value] {
			t.Errorf("%s is both new and deleted", &d)
		}
		if d.lasts(t) < time.Second {
			t.Errorf("%s is new and over", &d)
		}
	}
	return got
}

func texts(decisions []decision) []string {
	all := make([]string, 0, len(decisions))
	for i := range decisions {
		all = append(all, decisions[i].String())
	}
	slices.Sort(all)
	return all
}

func (s *streamed) String() string {
	return strings.Join(texts(s.New), ", ") + " | " + strings.Join(texts(s.Deleted), ", ")
}

func (s *site) expect(t *testing.T, query, want string) {
	t.Helper()
	if got := s.poll(t, query); got.String() != want {
		t.Errorf("%s:\n got %s\nwant %s", query, got.String(), want)
	}
}

func mustAddr(text string) netip.Addr { return netip.MustParseAddr(text) }
