package enforcer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/pkg/inline"
	"weir/pkg/inline/inlinetest"
	"weir/pkg/inline/stored"
	"weir/test/wait"
)

// A ledger is a store with a history, in memory.
type ledger struct {
	*inlinetest.Memory
	mu    sync.Mutex
	rows  []stored.Attempt
	fails bool // to add
}

func newLedger() *ledger { return &ledger{Memory: inlinetest.NewMemory(nil)} }

func (l *ledger) Commit(ctx context.Context, c *stored.Commit) (stored.Result, error) {
	r, err := l.Memory.Commit(ctx, c)
	if err == nil && r.Done {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.rows = append(l.rows, c.Attempts...)
	}
	return r, err
}

func (l *ledger) Add(_ context.Context, rows []stored.Attempt) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fails {
		return errors.New("it is away")
	}
	l.rows = append(l.rows, rows...)
	return nil
}

func (l *ledger) setFails(fails bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fails = fails
}

func (l *ledger) all() []stored.Attempt {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.rows)
}

func (l *ledger) in(c *Config) {
	c.InlineStore = &InlineStore{Backend: l, Name: "ledger", Budget: time.Second, History: l}
}

// Every attempt has a row of each rule, once: from the commit that counted it, or afterwards.
func TestRowsOfAttempts(t *testing.T) {
	l := newLedger()
	r := atOnce(t, func(c *Config) {
		l.in(c)
		c.Ruling.RequestID = "X-Weir-Request"
	})
	for n := range 4 {
		r.checks("203.0.113.8", "X-User", "alice", "X-Weir-Request", fmt.Sprint("request", n/2*n)) // the second is the first again
	}
	r.take(`{"rules": [{"rule": "quota", "fields": {"user": "bob"}}, {"rule": "tokens", "fields": {"user": "bob", "model": "large"}, "cost": 400}]}`)
	r.take(`{"rules": [{"rule": "quota", "fields": {"user": "bob"}}, {"rule": "tokens", "fields": {"user": "bob", "model": "large"}, "cost": 700}]}`)
	r.take(`{"rules": [{"rule": "quota", "fields": {"user": "twice"}, "cost": 5}, {"rule": "quota", "fields": {"user": "twice"}, "cost": 6}]}`)
	r.take(`{"rule": "quota", "fields": {"user": "carol"}, "cost": 0}`)
	l.Before = func(*stored.Commit) error { return errors.New("it is away") }
	r.take(`{"rule": "quota", "fields": {"user": "dave"}}`)
	r.stop()

	var got []string
	ids := map[inline.ID]int{}
	for _, row := range l.all() {
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %d %s %s %d part %d %s", row.Rule, row.Key, row.Cost, row.Verdict, row.Limit, row.Remaining, row.Part, row.Store)))
		if ids[row.ID]++; row.ID == (inline.ID{}) || row.At < time.Now().Add(-time.Minute).UnixMilli() {
			t.Errorf("%+v", row)
		}
	}
	slices.Sort(got)
	want := []string{
		"quota alice 0 known 3/min 2 part 0",
		"quota alice 1 admitted 3/min 0 part 0",
		"quota alice 1 admitted 3/min 1 part 0",
		"quota alice 1 admitted 3/min 2 part 0",
		"quota bob 1 admitted 3/min 2 part 0",
		"quota bob 1 other 3/min 2 part 0",
		"quota carol 0 admitted 3/min 3 part 0",
		"quota dave 1 failed  0 part 0 allow",
		"quota twice 5 refused 3/min 3 part 0",
		"quota twice 6 refused 3/min 3 part 1",
		"tokens bob large 400 admitted 1000/min 600 part 0",
		"tokens bob large 700 refused 1000/min 600 part 0",
		"tried 203.0.113.8 0 known 1/min 0 part 0",
		"tried 203.0.113.8 1 admitted 1/min 0 part 0",
		"tried 203.0.113.8 1 shadow 1/min 0 part 0",
		"tried 203.0.113.8 1 shadow 1/min 0 part 0",
	}
	if !slices.Equal(got, want) {
		t.Errorf("there are\n%s\nand not\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// While rows cannot be written, requests are answered all the same. Lost rows are counted, and the rest comes later.
func TestAFullHistoryOfRows(t *testing.T) {
	l, metrics := newLedger(), prometheus.NewRegistry()
	l.setFails(true)
	r := atOnce(t, func(c *Config) {
		l.in(c)
		c.Metrics = metrics
	})
	if got := r.post("/v1/take", `{"rule": "quota", "fields": {"user": "bob"}, "cost": 100}`); got.status != http.StatusTooManyRequests {
		t.Errorf("%d %s", got.status, got.body)
	}
	row := stored.Attempt{ID: inline.ID{1}, Rule: "quota", Key: "bob", Verdict: "refused"}
	const wants = historyLines + 2000
	for range wants {
		r.rows.put(row)
	}
	wait.Until(t, "a batch that cannot be written makes room", func() bool { return testutil.ToFloat64(r.rows.dropped) >= 2000 })
	l.setFails(false)
	wait.Until(t, "the rest is written", func() bool { return r.rows.held.Load() == 0 })
	r.stop()
	if n, lost := len(l.all()), int(testutil.ToFloat64(r.rows.dropped)); n+lost != wants+1 {
		t.Errorf("%d are there and %d lost, of %d", n, lost, wants+1)
	}
	for _, name := range []string{"weir_queue_depth", "weir_queue_capacity", "weir_queue_dropped_total"} {
		if n, err := testutil.GatherAndCount(metrics, name); n == 0 || err != nil {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
}
