package inspect

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/weir/internal/ask"
	"weir/cmd/weir/internal/shown"
	"weir/pkg/blocklist"
	"weir/test/locked"
	"weir/test/running"
	"weir/test/wait"
)

// In a flood the first changes of a second have a line each, and the number of lines for the others is bounded.
func TestWatchFoldsAFlood(t *testing.T) {
	var out locked.Buffer
	fold, now := newWatchFold(&out), time.UnixMilli(running.Eight)
	var flood []watchChange
	for i := range 50_000 {
		e := running.BlockedNow("per-ip", fmt.Sprintf("10.%d.%d.%d", i/65536, i/256%256, i%256), nil)
		e.Fields = map[string]string{"ip": e.Key}
		flood = append(flood, watchChange{Entry: shown.Entry{Entry: *e}, what: blocklist.EventBlocked})
	}
	user := watchChange{Entry: shown.Entry{Entry: *running.BlockedNow("login", "alice", map[string]string{"user": "alice"})}, what: blocklist.EventBlocked}
	for range 3 {
		flood = append(flood, user)
	}
	if err := fold.add(now, flood); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(out.String(), "\n"); lines != foldFreely {
		t.Errorf("%d lines at once", lines)
	}
	if err := fold.flush(now); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	if lines := strings.Count(text, "\n"); lines != foldFreely+foldLines+1 {
		t.Errorf("%d lines in a second:\n%s", lines, text)
	}
	for _, piece := range []string{"blocked   256 more keys by per-ip in 10.0.1.0/24\n", "  and 47,423 more changes elsewhere\n"} {
		if !strings.Contains(text, piece) {
			t.Errorf("no %q in\n%s", piece, text)
		}
	}
	if err := fold.add(now, []watchChange{user}); err != nil || !strings.HasSuffix(out.String(), "11 hits broke 10/min\n") {
		t.Errorf("%v; the next second begins with\n%s", err, out.String()[len(text):])
	}
	if held := len(fold.groups); held != 0 {
		t.Errorf("%d groups are still held", held)
	}
}

func TestNetworkOf(t *testing.T) {
	for ip, want := range map[string]string{"203.0.113.7": "203.0.113.0/24", "10.0.0.0/8": "10.0.0.0/8", "2001:db8:1:2::/64": "2001:db8:1::/48", "2001:db8::/32": "2001:db8::/32", "": "", "alice": ""} {
		if got := networkOf(ip); got != want {
			t.Errorf("%s: %s, want %s", ip, got, want)
		}
	}
}

// Each change of an entry has one word; an entry that is published again unchanged has none.
func TestWatchSeen(t *testing.T) {
	seen := newWatchSeen()
	tell := func(want string, e *blocklist.Entry) {
		t.Helper()
		if got := seen.change(e).what; got != want {
			t.Errorf("%s, want %s: %+v", got, want, e)
		}
	}
	e := running.BlockedNow("per-ip", "203.0.113.7", map[string]string{"ip": "203.0.113.7"})
	again, longer, next, ended := *e, *e, *e, *e
	longer.Until += 1000
	tell("blocked", e)
	tell("", &again)
	tell("extended", &longer)
	shadow := longer
	shadow.Mode = blocklist.Shadow
	tell("blocked", &shadow)

	// An unblock and the end that an aggregator then publishes are shown once.
	pardon := &blocklist.Order{ID: "p", Kind: blocklist.OrderPardon, Rule: "per-ip", Key: e.Key, Pardons: e.ID, From: e.From, Until: e.Until, By: "alice", Why: "a mistake"}
	change := seen.change(pardon.Entry())
	if change.what != "lifted" || change.Rule != "per-ip" || change.Key != e.Key || change.WhyText() != "by alice: a mistake" {
		t.Errorf("%+v", change)
	}
	ended.Ended = e.From + 1
	if change := seen.change(&ended); change.what != "lifted" || !change.known {
		t.Errorf("%+v", change)
	}
	tell("", &ended)
	tell("", pardon.Entry())
	next.ID, next.Level = "next", 2
	tell("blocked", &next)
	next.Ended = next.From + 1
	tell("lifted", &next)

	// An allow replaces a block of the same target; its end has an id of its own.
	block := &blocklist.Order{ID: "b", Kind: blocklist.OrderBlock, Scope: "user", Value: "alice", From: e.From, Until: blocklist.Never, By: "bob", Why: "x"}
	allow := *block
	allow.ID, allow.Kind = "a", blocklist.OrderAllow
	end := allow
	end.ID, end.Ended = "e", e.From+1
	tell("ordered", block.Entry())
	tell("", block.Entry())
	tell("ordered", allow.Entry())
	tell("lifted", end.Entry())
	seen.round++
	if gone := seen.dropGone(e.From); gone != 0 {
		t.Errorf("%d are missed that were all taken off", gone)
	}
}

// A watchSeen forgets ended entries, so it has at most twice as many as the list, or its initial room.
func TestWatchSeenForgets(t *testing.T) {
	seen := newWatchSeen()
	seen.room = 100
	for i := range 10_000 {
		e := running.BlockedNow("per-ip", fmt.Sprint(i), nil)
		e.From, e.Decided, e.Until = int64(i), int64(i), int64(i+10)
		seen.change(e)
		if len(seen.of) > 101 {
			t.Fatalf("%d are held after %d", len(seen.of), i)
		}
	}
}

// A watching is a feed that a test reads.
type watching struct {
	t       *testing.T
	feed    *watchFeed
	stderr  locked.Buffer
	changes chan []watchChange
	ended   chan error
	stop    func()
}

// watchAt watches the enforcer that the flags name.
func watchAt(t *testing.T, flags ...string) *watching {
	t.Helper()
	t.Setenv("HOME", t.TempDir())
	c, at := &cobra.Command{}, ask.Flags{}
	at.Add(c)
	if err := c.ParseFlags(flags); err != nil {
		t.Fatal(err)
	}
	client, err := at.Connect()
	if err != nil {
		t.Fatal(err)
	}
	w := &watching{t: t, changes: make(chan []watchChange), ended: make(chan error, 1)}
	w.feed = &watchFeed{enforcer: client, query: url.Values{}, stderr: &w.stderr, seen: newWatchSeen()}
	if err := w.feed.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { w.ended <- w.feed.run(ctx, w.changes) }()
	w.stop = func() {
		cancel()
		for range w.changes {
		}
		if err := <-w.ended; err != nil {
			t.Error(err)
		}
		client.Close()
	}
	return w
}

// wants waits for changes, each written as "what key", in any order.
func (w *watching) wants(all ...string) {
	w.t.Helper()
	missing := map[string]bool{}
	for _, one := range all {
		missing[one] = true
	}
	for deadline := time.After(time.Minute); len(missing) > 0; {
		select {
		case some := <-w.changes:
			for _, c := range some {
				if one := c.word() + " " + c.Target(); missing[one] {
					delete(missing, one)
				} else {
					w.t.Errorf("unwanted: %s", one)
				}
			}
		case <-deadline:
			w.t.Fatalf("never told: %v; stderr %s", missing, w.stderr.String())
		}
	}
}

// A front passes requests to one of several enforcers.
type front struct {
	*httptest.Server
	behind atomic.Pointer[httputil.ReverseProxy]
}

func newFront(t *testing.T, behind *running.Enforcer) *front {
	f := &front{}
	f.to(behind)
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.behind.Load().ServeHTTP(w, r) }))
	t.Cleanup(f.Close)
	return f
}

func (f *front) to(behind *running.Enforcer) {
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: behind.Address()})
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	f.behind.Store(proxy)
}

// A feed returns verdicts and manual entries as they come. When its enforcer is gone it reports that, and goes on with the
// changes that it missed. When the enforcer does not know what followed its version, it returns the new entries of the list
// and reports how many are gone.
func TestWatchFeed(t *testing.T) {
	first, err := running.StartEnforcer(running.Folder(t), nil, running.List(1, running.SampleList()...))
	if err != nil {
		t.Fatal(err)
	}
	front := newFront(t, first)
	w := watchAt(t, "--url", front.URL)
	defer w.stop()
	wait.Text(t, &w.stderr, "weir: 3 keys on the list of "+front.URL+"; changes from now on:\n")
	verdict := running.BlockedNow("per-ip", "198.51.100.9", map[string]string{"ip": "198.51.100.9"})
	first.Put(verdict)
	w.wants("blocked 198.51.100.9")
	longer := *verdict
	longer.Until += 60_000
	first.Put(&longer, &longer)
	w.wants("extended 198.51.100.9")
	order := &blocklist.Order{ID: "o", Kind: blocklist.OrderBlock, Scope: "user", Value: "eve", From: verdict.From, Until: blocklist.Never, By: "bob", Why: "x"}
	if err := first.Set.Order(order, verdict.From); err != nil { // and Kafka does not have it
		t.Fatal(err)
	}
	w.wants("block user:eve")

	if err := first.Close(); err != nil {
		t.Error(err)
	}
	wait.Text(t, &w.stderr, "which is not an answer of an enforcer; trying again\n")
	second, err := running.StartEnforcer(running.Folder(t), nil, running.List(2, &longer, running.BlockedNow("per-ip", "192.0.2.1", map[string]string{"ip": "192.0.2.1"})))
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	front.to(second)
	w.wants("blocked 192.0.2.1")
	for _, said := range []string{"the enforcer does not have the changes after tests-1.", "4 keys left the list meanwhile, before their end\n", "answers again; changes are shown from where it was lost\n"} {
		wait.Text(t, &w.stderr, said)
	}
}

// A lost enforcer is found again at its place, though meanwhile another place answered with a refusal.
func TestWatchComesBackToTheSocket(t *testing.T) {
	folder := running.Folder(t)
	first, err := running.StartEnforcer(folder, nil, running.List(1))
	if err != nil {
		t.Fatal(err)
	}
	barred := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer barred.Close()
	w := watchAt(t, "--set", "enforcer.socket="+filepath.Join(folder, "weir.sock"), "--set", "enforcer.listen="+barred.Listener.Addr().String())
	defer w.stop()
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	wait.Text(t, &w.stderr, barred.URL+" answers 401 Unauthorized, which is not an answer of an enforcer; trying again\n")
	second, err := running.StartEnforcer(folder, nil, running.List(2, running.BlockedNow("per-ip", "192.0.2.1", map[string]string{"ip": "192.0.2.1"})))
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	w.wants("blocked 192.0.2.1")
}
