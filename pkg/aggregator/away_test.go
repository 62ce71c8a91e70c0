package aggregator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/internal/store"
	"weir/pkg/aggregator/windows"
	"weir/pkg/blocklist"
	"weir/pkg/hit"
)

// A halting store goes away after some readings.
type halting struct {
	store.Store
	reads int
}

func (h *halting) Read(ctx context.Context, n int, space store.Space, keys [][]byte) ([][]byte, store.Fence, error) {
	if h.reads == 0 {
		return nil, store.Fence{}, errAway
	}
	h.reads--
	return h.Store.Read(ctx, n, space, keys)
}

// A hanging store answers when it is released, or not before the context ends.
type hanging struct {
	store.Store
	released chan struct{}
}

func (h *hanging) answers(ctx context.Context) error {
	select {
	case <-h.released:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *hanging) Read(ctx context.Context, n int, space store.Space, keys [][]byte) ([][]byte, store.Fence, error) {
	if err := h.answers(ctx); err != nil {
		return nil, store.Fence{}, err
	}
	return h.Store.Read(ctx, n, space, keys)
}

func (h *hanging) Write(ctx context.Context, n int, fence store.Fence, changes []store.Change) (store.Fence, error) {
	if err := h.answers(ctx); err != nil {
		return fence, err
	}
	return h.Store.Write(ctx, n, fence, changes)
}

func (h *hanging) Scan(ctx context.Context, n int, space store.Space, from store.Cursor, pairs int) (store.Page, error) {
	if err := h.answers(ctx); err != nil {
		return store.Page{}, err
	}
	return h.Store.Scan(ctx, n, space, from, pairs)
}

// While the store hangs, keys in memory are counted: a reading holds the partition for a moment, and only the first
// write or page of a sweep for as long as a call may take. When the store answers, the hits that waited count too.
func TestAStoreThatHangsHoldsNoKeysInMemory(t *testing.T) {
	for _, kind := range []string{"reading", "writing", "sweeping"} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, 1, newMemoryStore())
				p := l.takes()
				l.hits("192.0.2.2", 1)
				l.settle(p)
				l.start(labRules)
				p = l.takes()
				l.hits("192.0.2.1", 1)
				l.settle(p)
				hung := &hanging{l.store, make(chan struct{})}
				p.own.Store = hung
				switch kind {
				case "reading":
					l.hits("192.0.2.2", 1)
				case "writing":
					l.hits("192.0.2.1", 1)
					l.now = l.now.Add(time.Minute) // a checkpoint is due
				case "sweeping":
					l.now = l.now.Add(11 * time.Minute)
				}
				begun := time.Now()
				l.turn(p)
				held := time.Since(begun)
				for range 20 {
					l.hits("192.0.2.1", 1)
					l.turn(p)
					l.list.deliver(len(l.list.waiting))
				}
				l.want("few/192.0.2.1", func(e *blocklist.Entry) bool { return e.Count == 5 })
				if more := time.Since(begun) - held; more > time.Second || kind == "reading" && held > time.Second {
					t.Errorf("the partition was held for %v, then for %v", held, more)
				}

				time.Sleep(time.Minute)
				close(hung.released)
				time.Sleep(time.Minute)
				l.now = l.now.Add(time.Minute)
				l.hits("192.0.2.2", 4)
				l.settle(p)
				if kind == "reading" {
					l.want("few/192.0.2.2", func(e *blocklist.Entry) bool { return e.Count == 5 })
				}
				if p.own.Busy() || p.windows.Dirty() > 0 {
					t.Errorf("busy %v, %d windows are not written", p.own.Busy(), p.windows.Dirty())
				}
			})
		})
	}
}

// A store that comes back and goes away again while what waited is read: hits that come then count after those that
// wait, of keys that were read by then too.
func TestTheStoreGoesAwayAmidReading(t *testing.T) {
	l := newLab(t, 1, newMemoryStore())
	p := l.takes()
	many := func() {
		l.send("s", "few", func(w *hit.Writer) {
			for n := range windows.ReadKeys {
				w.Add(0, fmt.Appendf(nil, "2001:db8::%x", n), l.newest().UnixMilli(), 1)
			}
		})
	}
	l.hits("192.0.2.1", 3)
	many()
	l.settle(p)
	l.start(labRules)
	p = l.takes()
	p.own.Store = &halting{Store: l.store}
	l.hits("192.0.2.1", 1)
	many()
	for p.windows.Waiting() <= windows.ReadKeys {
		l.turn(p)
	}
	p.own.Store = &halting{Store: l.store, reads: 1}
	l.now = l.now.Add(tryAgain)
	l.hits("192.0.2.1", 1)
	l.turn(p)
	p.own.Store = l.store
	l.settle(p)
	l.want("few/192.0.2.1", func(e *blocklist.Entry) bool { return e.Count == 5 })
}

// A verdict that was reached while the store was away is in its index only after the rules have changed. It is published again
// all the same.
func TestRecordsMissingInTheIndexArePublishedAgain(t *testing.T) {
	l := newLab(t, 1, newMemoryStore())
	p := l.takes()
	p.windows.WriteKeys = 1
	for n := range 2 * windows.SmallestSize / 3 {
		l.hits(fmt.Sprint("198.51.100.", n), 1)
	}
	l.settle(p)
	l.store.away = true
	for n := range 2 * windows.SmallestSize / 3 {
		l.hits(fmt.Sprint("198.51.100.", n), 1)
	}
	l.hits("198.51.100.0", 4)
	l.hits("198.51.100.9", 5)
	for p.position.At().Offset < int64(len(l.records)) {
		l.turn(p)
	}
	if err := l.agg.Reload(parseRules(t, strings.Replace(labRules, "name: few,", "name: few, mode: shadow,", 1))); err != nil {
		t.Fatal(err)
	}
	l.store.away = false
	for range 30 { // hits come all the time: a little is written back between them
		l.hits("198.51.100.3", 1)
		l.turn(p)
		l.list.deliver(len(l.list.waiting))
		l.events.deliver(len(l.events.waiting))
	}
	l.now = l.now.Add(time.Second)
	l.settle(p)
	for _, name := range []string{"few/198.51.100.0", "few/198.51.100.9"} {
		l.want(name, func(e *blocklist.Entry) bool { return e.Mode == blocklist.Shadow })
	}
}

// While a partition's goroutine waits, more records of others may come late than its channel can take. Then all is
// published again, what was lifted too: a compacted list does not keep what they stand in front of.
func TestRecordsThatCouldNotBeReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 1, newMemoryStore())
		p := l.takes()
		l.hits("192.0.2.1", 5)
		l.hits("192.0.2.3", 5)
		l.unblock("192.0.2.3")
		l.settle(p)
		l.agg.hold(p)
		sent := len(l.list.arrived)
		for range 256 + 1 {
			l.agg.superseded(t.Context(), 0, "few/192.0.2.2", nil)
		}
		for range 5 {
			l.turn(p)
		}
		l.settle(p)
		for key, live := range map[string]bool{"few/192.0.2.1": true, "few/192.0.2.3": false} {
			if e, ok := l.last(sent, key); !ok || (e.Ended == 0) != live {
				t.Errorf("%s is published again as %+v", key, e)
			}
		}
	})
}

// last is the last record of a name that arrived after some.
func (l *lab) last(after int, name string) (*blocklist.Entry, bool) {
	for _, m := range slices.Backward(l.list.arrived[after:]) {
		if string(m.Key) == name {
			return l.entry(m.Key, m.Value), true
		}
	}
	return nil, false
}

// hitsOf is how many hits of the rule few the metrics have of an outcome.
func (l *lab) hitsOf(outcome string) float64 {
	return testutil.ToFloat64(l.agg.metrics.hits.WithLabelValues("few", outcome))
}

// Hits that waited for the store are counted by the rules that are active when it is back, and the metrics have them.
func TestRulesChangeWhileHitsWait(t *testing.T) {
	for name, test := range map[string]struct {
		rules            string
		counted, unknown float64
		limit            string
	}{
		"another limit": {strings.Replace(labRules, "4/10s", "2/10s", 1), 1, 0, "2/10s"},
		"gone":          {strings.Replace(labRules, "few", "fewer", 1), 0, 3, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 1, newMemoryStore())
			p := l.takes()
			l.hits("192.0.2.1", 1)
			l.settle(p)
			l.start(labRules)
			p = l.takes()
			l.store.away = true
			l.hits("192.0.2.1", 3)
			l.turn(p)
			if p.windows.Waiting() != 3 {
				t.Fatalf("%d hits wait", p.windows.Waiting())
			}
			l.reload(test.rules)
			l.turn(p)
			l.store.away = false
			l.now = l.now.Add(tryAgain)
			l.settle(p)
			if counted, unknown := l.hitsOf("counted"), testutil.ToFloat64(l.agg.metrics.unruled); counted != test.counted || unknown != test.unknown {
				t.Errorf("%v counted, %v unknown", counted, unknown)
			}
			e := l.said()["few/192.0.2.1"]
			if test.limit == "" && e != nil || test.limit != "" && (e == nil || e.Limit != test.limit) {
				t.Errorf("the list says %+v", e)
			}
		})
	}
}

// A batch for which the rules are read again is counted with others that came before it, by what these had found: the
// metrics have both.
func TestRulesChangeWhileBatchesAreGathered(t *testing.T) {
	l := newLab(t, 1, newMemoryStore())
	p := l.takes()
	l.log.most = 10
	l.hits("192.0.2.1", 2)
	l.send("s", "new", func(w *hit.Writer) { w.Add(0, []byte("192.0.2.2"), l.newest().UnixMilli(), 1) })
	p.rules.reread = func() {
		l.reload(strings.Replace(labRules, "4/10s", "5/10s", 1) + "  - {name: new, key: ip, limits: [1/min]}\n")
	}
	l.settle(p)
	if counted := l.hitsOf("counted"); counted != 2 {
		t.Errorf("%v counted", counted)
	}
}

// A partition that is given up while it is being taken again has forgotten what it had counted: it writes no checkpoint of
// that.
func TestAPartitionThatIsNotTakenWritesNoCheckpoint(t *testing.T) {
	l := newLab(t, 1, newMemoryStore())
	p := l.takes()
	l.settle(p)
	l.save(p)
	l.hits("192.0.2.1", 3)
	l.turn(p)
	p.own.Store = &halting{Store: l.store}
	if err := p.take(t.Context()); err == nil {
		t.Fatal("it is taken")
	}
	p.own.Store = l.store
	p.finish()
	l.start(labRules)
	p = l.takes()
	l.hits("192.0.2.1", 2)
	l.settle(p)
	l.want("few/192.0.2.1", func(e *blocklist.Entry) bool { return e.Count == 5 })
}
