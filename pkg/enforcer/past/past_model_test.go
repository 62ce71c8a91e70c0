package past

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"weir/pkg/blocklist"
)

// A twin has all events in a slice, and looks at each of them for each question.
type twin struct {
	events []twinEvent
	same   map[string]bool
	last   map[string]int // of a unit, as an index of events
}

type twinEvent struct {
	*Event
	place
	is span
}

func (w *twin) add(e *Event) {
	if w.same[e.Identity()] {
		return
	}
	w.same[e.Identity()] = true
	one := twinEvent{Event: e, place: place{e.At, uint64(len(w.events))}}
	if unit := e.unit(); unit != "" {
		start := e.At
		if n, found := w.last[unit]; found {
			start = max(start, w.events[n].is.start)
			w.events[n].is.end = min(w.events[n].is.end, start)
		}
		one.is = e.span(start)
		w.last[unit] = len(w.events)
	}
	w.events = append(w.events, one)
}

func (w *twin) search(q Query, before int64) (lines []string) {
	var found []twinEvent
	for _, e := range w.events {
		if q.Matches(e.Event) && e.At >= before && (q.At == 0 || e.is.start <= q.At && q.At < e.is.end) {
			found = append(found, e)
		}
	}
	slices.SortFunc(found, func(a, b twinEvent) int { return newestFirst(a.place, b.place) })
	for _, e := range found {
		lines = append(lines, string(e.Line))
	}
	return lines
}

// history makes random events, many of them of few keys, some of them twice or with a time that went back.
type history struct {
	*rand.Rand
	now    int64
	blocks []blocklist.Entry
	past   []*Event
}

func (h *history) pick(texts ...string) string { return texts[h.IntN(len(texts))] }

func (h *history) address() string {
	switch h.IntN(8) {
	case 0:
		return fmt.Sprintf("2001:db8:%x::/64", h.IntN(4))
	case 1:
		return fmt.Sprintf("2001:db8:0:%x::/64", h.IntN(4))
	case 2:
		return fmt.Sprintf("2001:db8::%x", h.IntN(4))
	case 3:
		return h.pick("10.0.0.0/8", "10.1.0.0/16", "10.1.4.0/22", "0.0.0.0/0", "10.1.4.0/24", "2001:db8::/32", "2001:db8::/40", "::/0")
	}
	return fmt.Sprintf("10.%d.%d.%d", h.IntN(2), h.IntN(6), h.IntN(3))
}

func (h *history) key() (key string, fields map[string]string) {
	switch h.IntN(4) {
	case 0:
		user := h.pick("alice", "bob", "a\x00b", "a", "al")
		return user, map[string]string{"user": user}
	case 1:
		user, path := h.pick("alice", "bob"), h.pick("/login", "/")
		return user + " " + path, map[string]string{"user": user, "path": path}
	}
	ip := h.address()
	return ip, map[string]string{"ip": ip}
}

func (h *history) verdict(t testing.TB) *Event {
	if len(h.blocks) > 0 && h.IntN(2) == 0 {
		n := h.IntN(len(h.blocks))
		e := &h.blocks[n]
		switch h.IntN(4) {
		case 0:
			lifted := *e
			lifted.Ended = h.now
			h.blocks = slices.Delete(h.blocks, n, n+1)
			return event(t, h.pick("lifted", "ended"), h.now, lifted)
		case 1:
			e.From -= 5
			return event(t, "corrected", h.now, *e)
		}
		e.Until += int64(h.IntN(1000))
		return event(t, "extended", h.now, *e)
	}
	e := blocklist.Entry{Rule: h.pick("per-ip", "sign-in", "api"), From: h.now - 3, Until: h.now + 1 + int64(h.IntN(2000)), Decided: h.now,
		Limit: "10/min", Count: 11, Level: 1, By: "weir", Mode: blocklist.Mode(h.IntN(2))}
	e.Key, e.Fields = h.key()
	e.ID = blocklist.ID(e.Rule, e.Key, e.From, 1)
	h.blocks = append(h.blocks, e)
	return event(t, "blocked", h.now, e)
}

func (h *history) manual(t testing.TB) *Event {
	o := blocklist.Order{ID: fmt.Sprint("m", h.Int64()), Kind: blocklist.Kind(1 + h.IntN(4)), From: h.now, Until: blocklist.Never, By: h.pick("bob", "carol"), Why: "a try"}
	if h.IntN(2) == 0 {
		o.Until = h.now + 1 + int64(h.IntN(3000))
	}
	switch o.Kind {
	case blocklist.OrderPause:
		o.Rule = h.pick("*", "per-ip")
	case blocklist.OrderPardon:
		o.Rule, o.Pardons = "per-ip", "x"
		o.Key, _ = h.key()
	default:
		o.Scope, o.Value = "ip", h.address()
		if h.IntN(3) == 0 {
			o.Scope, o.Value = "user", h.pick("alice", "bob")
		}
	}
	what := "ordered"
	if h.IntN(4) == 0 {
		o.Ended, what = h.now, "lifted"
	}
	return event(t, what, h.now, *o.Entry())
}

func (h *history) next(t testing.TB) *Event {
	h.now += int64(h.IntN(40))
	if h.IntN(50) == 0 {
		h.now -= int64(h.IntN(300))
	}
	var e *Event
	switch {
	case len(h.past) > 0 && h.IntN(10) == 0:
		e = h.past[h.IntN(len(h.past))]
	case h.IntN(3) == 0:
		e = h.manual(t)
	default:
		e = h.verdict(t)
	}
	h.past = append(h.past, e)
	return e
}

func (h *history) query(began int64) Query {
	var q Query
	if h.IntN(2) == 0 {
		key, _ := h.key()
		q.Key = h.pick(h.address(), h.address(), key, "user:alice", "path:/login", "10.1.*", "a*", "*", "10.1.4.0/23", "10.0.0.0/7", "2001:db8::/36", "10.0.0.0/12",
			"2001:db8:0:2::/63", "::/3", "0.0.0.0/0", "per-ip/*", "nobody", "rule:per-ip", "128.0.0.0/1")
	}
	if h.IntN(3) == 0 {
		q.Rule = h.pick("per-ip", "sign-in", "manual", "none")
	}
	if h.IntN(4) == 0 {
		q.By = h.pick("weir", "bob", "carol")
	}
	if h.IntN(4) == 0 {
		q.Event = h.pick(Events...)
	}
	if h.IntN(5) == 0 {
		q.Order = h.pick(Orders...)
	}
	some := func() int64 { return began + h.Int64N(h.now-began+1) }
	if h.IntN(3) == 0 {
		q.At = some()
		return q
	}
	if h.IntN(3) == 0 {
		q.Since = some()
	}
	if h.IntN(3) == 0 {
		q.Until = some()
	}
	return q
}

// The index answers every question as a program does that looks at all events, page by page, also while it grows, after
// it was closed, and when old events were deleted.
func TestTheIndexAnswersAsItsTwin(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		h := &history{Rand: rand.New(rand.NewPCG(seed, 16)), now: 1_700_000_000_000}
		began, before := h.now, int64(0)
		_, f := opens(t, t.TempDir())
		slow := &twin{same: map[string]bool{}, last: map[string]int{}}
		for range 12 {
			for range 3 {
				var batch []*Event
				for range h.IntN(25) {
					e := h.next(t)
					batch = append(batch, e)
					slow.add(e)
				}
				adds(t, f, batch...)
			}
			for range 40 {
				q := h.query(began)
				want := slow.search(q, before)
				if got := pages(t, f.Index, q, 1+h.IntN(9)); !slices.Equal(got, want) {
					t.Fatalf("seed %d, %+v:\n%s\nnot\n%s", seed, q, strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			}
		}
		if f.progress.Count != int64(len(slow.events)) {
			t.Fatalf("%d events, not %d", f.progress.Count, len(slow.events))
		}

		// Nothing is left of deleted events.
		for _, before = range []int64{began + (h.now-began)/2, h.now + 1_000_000} {
			for deleted := 1; deleted > 0; {
				var err error
				if deleted, err = f.delete(t.Context(), before, 100); err != nil {
					t.Fatal(err)
				}
			}
			for range 40 {
				q := h.query(began)
				want := slow.search(q, before)
				if got := pages(t, f.Index, q, 1+h.IntN(9)); !slices.Equal(got, want) {
					t.Fatalf("seed %d, from %d on, %+v:\n%s\nnot\n%s", seed, before, q, strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			}
		}
		left := keysOf(t, f)
		delete(left, "m")
		if len(left) > 0 || f.progress.Count != 0 {
			t.Fatalf("seed %d: %v are left, %d events", seed, left, f.progress.Count)
		}
	}
}

// pages asks for all pages.
func pages(t testing.TB, x *Index, q Query, limit int) (lines []string) {
	t.Helper()
	q.Limit = limit
	for {
		page, err := x.Search(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Events) > limit || page.Next != "" && len(page.Events) < limit {
			t.Fatalf("%+v: a page of %d", q, len(page.Events))
		}
		for _, line := range page.Events {
			lines = append(lines, string(line))
		}
		if q.After = page.Next; q.After == "" {
			return lines
		}
	}
}
