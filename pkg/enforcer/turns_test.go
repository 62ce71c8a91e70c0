package enforcer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"weir/internal/limited"
	"weir/pkg/blocklist"
	"weir/pkg/enforcer/past"
)

// Answers with the worst entries are kept in memory, so only a few are made at a time.
func TestTopIsBounded(t *testing.T) {
	r := start(t, list(t, ofIP("203.0.113.7")), func(c *Config) { c.Keys = nil })
	leave := takeAll(t, r.finding)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	ask := func(query string) int {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/v1/blocklist"+query, http.NoBody).WithContext(gone))
		return w.Code
	}
	if got := ask("?top=100000"); got != http.StatusServiceUnavailable {
		t.Errorf("while others are answered: %d", got)
	}
	if got := ask(""); got != http.StatusOK {
		t.Errorf("the list: %d", got)
	}
	takeAll(t, r.listing)
	for query, want := range map[string]int{"": http.StatusServiceUnavailable, "?after=other-1.5": http.StatusServiceUnavailable, "?after=" + r.config.Set.Version().String(): http.StatusOK} {
		if got := ask(query); got != want {
			t.Errorf("%q, while %d lists are answered: %d, want %d", query, maxListing, got, want)
		}
	}
	leave()
	if got := ask("?top=100000"); got != http.StatusOK {
		t.Errorf("with a place: %d", got)
	}
}

// takeAll takes all places that are left, and returns the function that leaves one of them.
func takeAll(t *testing.T, places *limited.Places) (leave func()) {
	t.Helper()
	local := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	local.RemoteAddr = "127.0.0.1:1234"
	for places.Taken() < places.All() {
		var ok bool
		if leave, ok = places.TryTake(local); !ok {
			t.Fatal("no place")
		}
	}
	return leave
}

// A stream that begins with the complete list needs a place like other lists, and gives it back.
func TestStreamsThatBeginWithTheListAreBounded(t *testing.T) {
	r := start(t, list(t, ofIP("203.0.113.7")), func(c *Config) { c.Keys = nil })
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	watch := func() string {
		w := httptest.NewRecorder()
		request := httptest.NewRequest(http.MethodGet, "http://localhost/v1/blocklist?after=other-1.5", http.NoBody).WithContext(gone)
		request.Header.Set("Accept", eventStream)
		r.ServeHTTP(w, request)
		return w.Body.String()
	}
	if got := watch(); !strings.Contains(got, "event: reset") || !strings.Contains(got, "203.0.113.7") || !strings.Contains(got, "event: whole") {
		t.Errorf("with places: %q", got)
	}
	if r.listing.Taken() != 0 || len(r.turns) != 0 {
		t.Errorf("%d places and %d turns are kept", r.listing.Taken(), len(r.turns))
	}
	takeAll(t, r.listing)
	if got := watch(); strings.Contains(got, "203.0.113.7") {
		t.Errorf("without a place: %q", got)
	}
}

// A stuckWriter is a client that reads nothing of an answer until it is released.
type stuckWriter struct {
	*httptest.ResponseRecorder
	reached, let chan struct{}
}

func (s *stuckWriter) Write(b []byte) (int, error) {
	select {
	case s.reached <- struct{}{}:
	default:
	}
	<-s.let
	return s.ResponseRecorder.Write(b)
}

// However many clients read slowly, others get their list: a turn is given up while an answer is sent.
func TestASlowReaderKeepsNoTurn(t *testing.T) {
	var entries []*blocklist.Entry
	for i := range 3000 {
		entries = append(entries, ofIP(fmt.Sprintf("198.51.%d.%d", i/250, i%250)))
	}
	r := start(t, list(t, entries...), func(c *Config) { c.Keys = nil })
	let, ended := make(chan struct{}), make(chan struct{})
	slow := 3 * cap(r.turns)
	for range slow {
		w := &stuckWriter{httptest.NewRecorder(), make(chan struct{}, 1), let}
		go func() {
			defer func() { ended <- struct{}{} }()
			r.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/v1/blocklist", http.NoBody))
		}()
		<-w.reached
	}
	if got := r.get("/v1/blocklist"); got.status != 200 {
		t.Errorf("%d", got.status)
	}
	close(let)
	for range slow {
		<-ended
	}
	if len(r.turns) != 0 {
		t.Errorf("%d turns are kept", len(r.turns))
	}
}

// An answer that is not read in time ends with its connection, and gives its place back.
func TestAnswersOfFewPlacesAreHurried(t *testing.T) {
	w := httptest.NewRecorder()
	h := &hurried{w, time.Now().Add(time.Minute)}
	if n, err := h.Write(make([]byte, 200<<10)); n != 200<<10 || err != nil || w.Body.Len() != n {
		t.Errorf("in time: %d, %v", n, err)
	}
	defer func() {
		if err, _ := recover().(error); !errors.Is(err, http.ErrAbortHandler) {
			t.Errorf("too late: %v", err)
		}
	}()
	h.until = time.Now().Add(-time.Second)
	_, _ = h.Write([]byte("more"))
}

// An export lasts as long as its client reads it. Searches do not wait for exports, nor exports for searches.
func TestExportsHaveTheirOwnPlaces(t *testing.T) {
	r := start(t, list(t, ofIP("203.0.113.7")), func(c *Config) { c.Keys, c.Events = nil, new(past.Index) })
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	waits := func(path string) bool {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost"+path, http.NoBody).WithContext(gone))
		return w.Code == http.StatusServiceUnavailable && strings.Contains(w.Body.String(), "others")
	}
	for _, test := range []struct {
		taken            *limited.Places
		searches, export bool
	}{{r.finding, true, false}, {r.exporting, false, true}} {
		leave := takeAll(t, test.taken)
		for path, want := range map[string]bool{"/v1/find?key=203.0.113.7": test.searches, "/v1/events": test.searches, "/v1/events?format=csv": test.export} {
			if got := waits(path); got != want {
				t.Errorf("%s, searches wait %v: %v", path, test.searches, got)
			}
		}
		for range test.taken.All() {
			leave()
		}
	}
}

// Searches take turns of their own, so that checks keep half of the processors. Lists do not wait for them.
func TestSearchesTakeTurns(t *testing.T) {
	r := start(t, list(t, ofIP("203.0.113.7")), func(c *Config) { c.Keys = nil })
	for range cap(r.searches) {
		r.searches.acquire()
	}
	ended := make(chan string)
	for i, path := range []string{"/v1/find?key=203.0.113.7", "/v1/numbers?entries=1"} {
		go func() {
			w := httptest.NewRecorder()
			r.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost"+path, http.NoBody))
			ended <- fmt.Sprint(path, " ", w.Code)
		}()
		for r.finding.Taken() <= i {
			select {
			case one := <-ended:
				t.Fatal("it did not wait: " + one)
			default:
				runtime.Gosched()
			}
		}
	}
	if got := r.get("/v1/blocklist"); got.status != 200 {
		t.Errorf("the list: %d", got.status)
	}
	select {
	case one := <-ended:
		t.Error("it did not wait: " + one)
	default:
	}

	for range cap(r.searches) {
		r.searches.release()
	}
	for range 2 {
		if one := <-ended; !strings.HasSuffix(one, " 200") {
			t.Error(one)
		}
	}
	if len(r.searches) != 0 {
		t.Errorf("%d turns are kept", len(r.searches))
	}
}
