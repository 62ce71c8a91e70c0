package follow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/origin"
	"weir/pkg/blocklist"
	"weir/test/wait"
)

// An enforcer is an upstream for tests, with a behaviour that can be changed.
type enforcer struct {
	*httptest.Server
	set *blocklist.Set

	mu    sync.Mutex
	serve func(w http.ResponseWriter, r *http.Request)
}

func newEnforcer(t *testing.T, set *blocklist.Set) *enforcer {
	e := &enforcer{set: set}
	e.serve = e.list
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		serve := e.serve
		e.mu.Unlock()
		serve(w, r)
	}))
	t.Cleanup(e.Close)
	return e
}

func (e *enforcer) now(serve func(http.ResponseWriter, *http.Request)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.serve = serve
}

func (e *enforcer) list(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("X-Api-Key") != "secret" || r.Header.Get("Accept") != blocklist.ContentBinary {
		http.Error(w, "who are you?", http.StatusForbidden)
		return
	}
	after, err := blocklist.ParseVersion(r.URL.Query().Get("after"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if wait, err := time.ParseDuration(r.URL.Query().Get("wait")); err == nil {
		ctx, cancel := context.WithTimeout(r.Context(), wait)
		defer cancel()
		e.set.Wait(ctx, after, r.URL.Query().Get("local"))
	}
	var b bytes.Buffer
	if err := e.set.WriteAfter(&b, after, at); errors.Is(err, blocklist.ErrNotYet) {
		http.Error(w, err.Error(), StatusNotYet)
		return
	}
	_, _ = w.Write(b.Bytes())
}

func wholeSet(t testing.TB, list blocklist.ListID, keys ...string) *blocklist.Set {
	t.Helper()
	p := newPaper()
	for _, key := range keys {
		p.entry(t, key, 1)
	}
	p.marked(t, list, 0)
	l := newSource(p, "")
	l.catchUp(t, p)
	return l.config.Set
}

// add puts one more entry into a list.
func add(t testing.TB, s *blocklist.Set, key string) {
	t.Helper()
	p := newPaper()
	p.start = s.Version().Offset + 1
	p.entry(t, key, 1)
	if err := s.Apply(at, p.records...); err != nil {
		t.Fatal(err)
	}
}

// following starts a follower, and ends it with the test.
func following(t *testing.T, e *enforcer, file string) *Follower {
	t.Helper()
	return followingAt(t, e, file, func() time.Time { return time.UnixMilli(at) })
}

func followingAt(t *testing.T, e *enforcer, file string, now func() time.Time) *Follower {
	t.Helper()
	f, err := NewFromUpstream(
		Config{Set: blocklist.NewSet(blocklist.Limits{}), File: file, Now: now},
		Upstream{URL: e.URL + "/", Key: func() (string, error) { return "secret", nil }, Client: e.Client(), Wait: 200 * time.Millisecond, Patience: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { f.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		e.Client().CloseIdleConnections()
	})
	return f
}

func same(f *Follower, s *blocklist.Set) func() bool {
	return func() bool { return f.config.Set.State() == s.State() }
}

func TestAnUpstreamIsFollowed(t *testing.T) {
	e := newEnforcer(t, wholeSet(t, listA, "1.1.1.1", "2.2.2.2"))
	f := following(t, e, "")
	wait.Until(t, "the snapshot", same(f, e.set))
	wantKeys(t, f.config.Set, "1.1.1.1", "2.2.2.2")
	add(t, e.set, "3.3.3.3")
	wait.Until(t, "the change", same(f, e.set))
	state := e.set.State()
	state.AsOf += 10_000
	e.set.Reach(state)
	add(t, e.set, "4.4.4.4")
	wait.Until(t, "the age", same(f, e.set))
	wantKeys(t, f.config.Set, "1.1.1.1", "2.2.2.2", "3.3.3.3", "4.4.4.4")
	o := &blocklist.Order{ID: "o", Kind: blocklist.OrderBlock, Scope: "ip", Value: "10.0.0.0/8", From: at, Until: blocklist.Never, By: "ann", Why: "x"}
	if err := e.set.Order(o, at); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the order that waits for the log", func() bool { return len(f.config.Set.Pending()) == 1 })
	wantTrouble(t, f, "")
}

// Errors of an upstream leave the list unchanged and are reported; when the upstream recovers, the list continues.
// A follower gets the entries again that it forgot while its clock was ahead.
func TestAClockThatWentBackAtAFollower(t *testing.T) {
	e := newEnforcer(t, wholeSet(t, listA, "1.1.1.1"))
	var ahead atomic.Int64
	f := followingAt(t, e, "", func() time.Time { return time.UnixMilli(at + ahead.Load()) })
	wait.Until(t, "it follows", same(f, e.set))

	ahead.Store(24 * time.Hour.Milliseconds())
	wait.Until(t, "the entry is forgotten", func() bool { return !blocked(f.config.Set, "1.1.1.1") })
	ahead.Store(0)
	wait.Until(t, "the entry is back", func() bool { return blocked(f.config.Set, "1.1.1.1") })
}

// An upstream that lost a manual entry before Kafka had it: its followers do not keep it either.
func TestAnUpstreamThatLostAnOrder(t *testing.T) {
	e := newEnforcer(t, wholeSet(t, listA, "1.1.1.1"))
	if err := e.set.Order(&blocklist.Order{ID: "b", Kind: blocklist.OrderBlock, Scope: "ip", Value: "9.9.9.9", From: at, Until: blocklist.Never, By: "ann", Why: "w"}, at); err != nil {
		t.Fatal(err)
	}
	f := following(t, e, "")
	refused := func() bool {
		asked := &blocklist.Asked{IP: netip.MustParseAddr("9.9.9.9")}
		return f.config.Set.Check(asked, at).Entry.Found()
	}
	wait.Until(t, "it follows", refused)
	lost := &enforcer{set: wholeSet(t, listA, "1.1.1.1")}
	e.now(lost.list)
	wait.Until(t, "the order is gone", func() bool { return !refused() })
	wantKeys(t, f.config.Set, "1.1.1.1")
}

func TestABadUpstreamChangesNothing(t *testing.T) {
	other := newEnforcer(t, wholeSet(t, blocklist.ListID{Name: "b", Epoch: 9}, "6.6.6.6"))
	back := newEnforcer(t, wholeSet(t, listA))
	for name, test := range map[string]struct {
		serve   func(w http.ResponseWriter, r *http.Request)
		trouble string
	}{
		"hangs":  {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "sends nothing"},
		"500":    {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "broken", http.StatusInternalServerError) }, "500"},
		"403":    {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) }, "403"},
		"a page": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>It works!</html>") }, "no list"},
		"empty":  {func(http.ResponseWriter, *http.Request) {}, "not complete"},
		"cut off": {func(w http.ResponseWriter, _ *http.Request) {
			var b bytes.Buffer
			_ = other.set.WriteAfter(&b, blocklist.Version{}, at)
			_, _ = w.Write(b.Bytes()[:b.Len()-1])
		}, "another list"},
		"hangs within": {func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, "weirlist")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, "sends nothing"},
		"another list": {other.list, "another list"},
		"back in time": {back.list, "not been reached"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnforcer(t, wholeSet(t, listA, "1.1.1.1"))
			f := following(t, e, "")
			wait.Until(t, "the snapshot", same(f, e.set))
			asked := make(chan struct{}, 1)
			e.now(func(w http.ResponseWriter, r *http.Request) {
				select {
				case asked <- struct{}{}:
				default:
				}
				test.serve(w, r)
			})
			<-asked // no request waits at the good list any more
			add(t, e.set, "2.2.2.2")
			wait.Until(t, "its trouble", func() bool { return f.Status().Trouble != "" && !f.Status().Since.IsZero() })
			wantTrouble(t, f, test.trouble)
			wantKeys(t, f.config.Set, "1.1.1.1")
			e.now(e.list)
			wait.Until(t, "the change", same(f, e.set))
			wait.Until(t, "its end", func() bool { return f.Status().Trouble == "" })
			wantKeys(t, f.config.Set, "1.1.1.1", "2.2.2.2")
		})
	}
}

// The status has a bound, whatever the upstream sends.
func TestTheTroubleOfAHostileUpstreamIsCutOff(t *testing.T) {
	long := strings.Repeat("\u202e", 20_000)
	for name, answer := range map[string]string{
		"status":   "HTTP/1.1 500 " + long + "\r\nContent-Length: 0\r\n\r\n",
		"redirect": "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/" + long + "\r\nContent-Length: 0\r\n\r\n",
	} {
		e := newEnforcer(t, wholeSet(t, listA))
		e.now(func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_, _ = io.WriteString(conn, answer)
				_ = conn.Close()
			}
		})
		f := following(t, e, "")
		wait.Until(t, "its trouble", func() bool { return f.Status().Trouble != "" })
		if got := f.Status().Trouble; len(got) > 5_000 || !strings.Contains(got, " bytes)") {
			t.Errorf("%s: %d bytes: %.100q", name, len(got), got)
		}
	}
}

func TestAFollowerStartsFromItsFile(t *testing.T) {
	e := newEnforcer(t, wholeSet(t, listA, "1.1.1.1"))
	file := t.TempDir() + "/list"
	if _, err := Save(file, e.set, at); err != nil {
		t.Fatal(err)
	}
	e.now(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "broken", http.StatusInternalServerError) })
	f := following(t, e, file)
	wantKeys(t, f.config.Set, "1.1.1.1")
	if got, want := f.config.Set.State(), e.set.State(); got != want {
		t.Fatalf("%+v, want %+v", got, want)
	}
	asked := make(chan string, 1)
	e.now(func(w http.ResponseWriter, r *http.Request) {
		select {
		case asked <- r.URL.Query().Get("after"):
		default:
		}
		e.list(w, r)
	})
	if got := <-asked; got != e.set.Version().String() {
		t.Errorf("it asked for what is after %q", got)
	}
}

func TestAnUpstreamNeedsAURL(t *testing.T) {
	for _, url := range []string{"", "kafka", "ftp://x", "http://", "://"} {
		if _, err := NewFromUpstream(Config{Set: blocklist.NewSet(blocklist.Limits{})}, Upstream{URL: url}); err == nil {
			t.Errorf("%q was taken", url)
		}
	}
}

// The key is not sent to the target of a redirect, whatever client is used.
func TestTheKeyIsNotSentAfterARedirect(t *testing.T) {
	leaked := make(chan string, 1)
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case leaked <- r.Header.Get("X-Api-Key"):
		default:
		}
	}))
	defer other.Close()
	e := newEnforcer(t, blocklist.NewSet(blocklist.Limits{}))
	e.now(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, http.StatusFound) })
	for _, client := range []*http.Client{nil, {}} {
		f, err := NewFromUpstream(Config{Set: blocklist.NewSet(blocklist.Limits{})}, Upstream{URL: e.URL, Client: client, Key: func() (string, error) { return "secret", nil }})
		if err != nil {
			t.Fatal(err)
		}
		err = f.from.(*upstreamSource).poll(t.Context())
		if !errors.Is(err, origin.ErrRedirect) || len(leaked) > 0 {
			t.Errorf("%v, and %d keys went elsewhere", err, len(leaked))
		}
	}
}

func TestAnUpstreamWithAPasswordIsRefused(t *testing.T) {
	_, err := NewFromUpstream(Config{Set: blocklist.NewSet(blocklist.Limits{})}, Upstream{URL: "https://me:secret@enforcer.example:7421"})
	if !errors.Is(err, origin.ErrUser) || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
}

// A list without an end. Each record is right.
func TestAListWithoutAnEnd(t *testing.T) {
	want := map[string]error{"entries": blocklist.ErrFull, "ended": blocklist.ErrLarge}
	for name, until := range map[string]int64{"entries": blocklist.Never, "ended": at - 1} {
		t.Run(name, func(t *testing.T) {
			e := newEnforcer(t, wholeSet(t, listA, "1.1.1.1"))
			set := blocklist.NewSet(blocklist.Limits{Entries: 100, Bytes: 1 << 20})
			f, err := NewFromUpstream(Config{Set: set, Now: func() time.Time { return time.UnixMilli(at) }},
				Upstream{URL: e.URL, Client: e.Client(), Key: func() (string, error) { return "secret", nil }})
			if err != nil {
				t.Fatal(err)
			}
			source := f.from.(*upstreamSource)
			if err := source.poll(t.Context()); err != nil {
				t.Fatal(err)
			}
			e.now(func(w http.ResponseWriter, r *http.Request) { endless(w, r, until) })
			if err := source.poll(t.Context()); !errors.Is(err, want[name]) {
				t.Error(err)
			}
			wantKeys(t, set, "1.1.1.1")
		})
	}
}

// endless writes a list until the client or the test has had enough.
func endless(w http.ResponseWriter, r *http.Request, until int64) {
	list := blocklist.NewWriter(w, blocklist.Header{Version: blocklist.Version{List: listA, Offset: 1 << 20}, After: -1, Snapshot: true})
	for i := 0; i < 1<<20 && r.Context().Err() == nil; i++ {
		entry := &blocklist.Entry{ID: "e", Rule: "r", Key: fmt.Sprint(i), Fields: map[string]string{"user": fmt.Sprint(i)}, From: at - 2, Until: until, Decided: at, By: "weir"}
		value, err := entry.Append(nil)
		if err != nil {
			panic(err)
		}
		list.Record(blocklist.Change{Key: blocklist.RecordKey("r", entry.Key), Value: value})
	}
	_ = list.Close()
}

type answers func(*http.Request) (*http.Response, error)

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

// An upstream, or a cache in front of it, that answers at once although nothing has changed.
func TestAnUpstreamThatDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		asked := 0
		client := &http.Client{Transport: answers(func(*http.Request) (*http.Response, error) {
			if asked++; asked == 1000 {
				cancel()
			}
			return &http.Response{StatusCode: http.StatusNotModified, Body: http.NoBody}, nil
		})}
		f, err := NewFromUpstream(Config{Set: blocklist.NewSet(blocklist.Limits{})}, Upstream{URL: "http://a", Client: client})
		if err != nil {
			t.Fatal(err)
		}
		f.Run(ctx)
		if asked < 50 || asked > 101 {
			t.Errorf("%d requests in 10 s", asked)
		}
	})
}
