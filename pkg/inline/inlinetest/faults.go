package inlinetest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/pkg/inline"
	"weir/pkg/inline/stored"
	"weir/pkg/window"
)

// load has callers take with a budget while do runs, and a little longer. It returns how many were admitted, and how many
// more may have counted without an answer: one of each caller in do, and all that failed at another time.
func load(t *testing.T, p *BackendPlace, rule *inline.Rule, do func()) (admitted, unanswered int64) {
	t.Helper()
	var n, failed atomic.Int64
	var doing, stopped atomic.Bool
	var running sync.WaitGroup
	for range 3 {
		s := p.store(t, Options{})
		untilOne(t, s, of(rule, "a", 0))
		for range 8 {
			running.Go(func() {
				for !stopped.Load() {
					within := doing.Load()
					v, err := try(s, of(rule, "a", 1))
					if err == nil && v.Admitted {
						n.Add(1)
					}
					if err != nil && !within {
						failed.Add(1)
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
	}
	time.Sleep(100 * time.Millisecond)
	doing.Store(true)
	do()
	doing.Store(false)
	time.Sleep(100 * time.Millisecond)
	stopped.Store(true)
	running.Wait()
	return n.Load(), failed.Load() + 3*8
}

// killed: attempts that were admitted before count afterwards, and the attempts whose answers were lost count at most once.
func killed(t *testing.T, p *BackendPlace) {
	if p.Kill == nil {
		t.Skip("it cannot be restarted")
	}
	rule := perHour(t, "quota", 1_000_000)
	admitted, unanswered := load(t, p, rule, func() { p.Kill()() })
	v := untilOne(t, p.store(t, Options{}), of(rule, "a", 0))
	if counted := 1_000_000 - v.Taken[0].Remaining; counted < admitted || counted > admitted+unanswered {
		t.Errorf("%d were admitted, %d had no answer, and %d are counted", admitted, unanswered, counted)
	}
}

// hangs: no call waits longer than its context, and attempts that were given up count nothing when the database goes on.
func hangs(t *testing.T, p *BackendPlace) {
	if p.Pause == nil {
		t.Skip("it cannot be paused")
	}
	rule, s := perHour(t, "quota", 100), p.store(t, Options{})
	untilOne(t, s, of(rule, "a", 1))
	remain := untilOne(t, s, of(rule, "a", 0)).Taken[0].Remaining // not 99 if an answer was lost on a busy machine
	resume := p.Pause()
	for range 20 {
		if v, err := try(s, of(rule, "a", 1)); err == nil {
			t.Errorf("while it hangs: %+v", v)
		}
	}
	time.Sleep(100 * time.Millisecond) // longer than a commit may be old
	resume()
	if v := untilOne(t, s, of(rule, "a", 0)); v.Taken[0].Remaining != remain {
		t.Errorf("%d remained, and attempts that were given up have counted: %+v", remain, v)
	}
}

func forgets(t *testing.T, p *BackendPlace) {
	if p.Forget == nil {
		t.Skip("it prepares nothing")
	}
	rule, s := perHour(t, "quota", 100), p.store(t, Options{})
	for n := range int64(10) {
		if v := askFor(t, s, of(rule, "a", 1)); v.Taken[0].Remaining != 99-n {
			t.Errorf("%d: %+v", n, v)
		}
		p.Forget()
	}
}

// Shifted is a Backend whose clock is another.
type Shifted struct {
	stored.Backend
	By *atomic.Int64 // microseconds
}

// Commit commits at another time.
func (s Shifted) Commit(ctx context.Context, c *stored.Commit) (stored.Result, error) {
	by, other := s.By.Load(), *c
	other.At -= by
	other.Changes = append([]stored.Change(nil), c.Changes...)
	for i := range other.Changes {
		other.Changes[i].Expires -= by / 1000
	}
	r, err := s.Backend.Commit(ctx, &other)
	r.Now += by
	return r, err
}

// Read tells another time.
func (s Shifted) Read(ctx context.Context, group uint16, names []string) ([]stored.Cell, int64, error) {
	cells, now, err := s.Backend.Read(ctx, group, names)
	return cells, now + s.By.Load(), err
}

// clockSteps: a clock that goes on by less than a window lets no more pass, and one that goes back stands still.
func clockSteps(t *testing.T, p *BackendPlace) {
	const hits = 20
	rule := NewRule(t, "quota", window.Sliding, window.Limit{Hits: hits, Per: time.Minute})
	var by atomic.Int64
	all := []inline.Store{newStore(t, Shifted{p.Open(t), &by}, Options{}), newStore(t, Shifted{p.Open(t), &by}, Options{})}
	var s seen
	last := int64(0)
	for n, step := range []time.Duration{0, 10 * time.Second, -30 * time.Second, 15 * time.Second, 20 * time.Second, -5 * time.Second, 70 * time.Second, -time.Hour} {
		by.Add(step.Microseconds())
		for i := range 12 {
			v := askFor(t, all[(n+i)%2], of(rule, "a", 1))
			s.add(&v)
			if !v.Admitted {
				continue
			}
			if v.Taken[0].At < last {
				t.Errorf("the time of the key goes back from %d to %d", last, v.Taken[0].At)
			}
			last = v.Taken[0].At
		}
	}
	s.check(t, hits, 60_000)
	if len(s.admitted) < 2*hits || len(s.refused) < hits {
		t.Errorf("%d admitted, %d refused: the traffic shows too little", len(s.admitted), len(s.refused))
	}
}

// losesWrites: after a failover to a database without the last writes, those who remember them go on with what is
// there. So no more are admitted again than were lost.
func losesWrites(t *testing.T, p *BackendPlace) {
	const hits, lost = 30, 10
	rule := perHour(t, "quota", hits)
	name := "kquota\x00a"
	b := p.Open(t)
	all := []inline.Store{newStore(t, b, Options{}), newStore(t, p.Open(t), Options{})}
	take := func(n int) (admitted int) {
		for i := range n {
			if askFor(t, all[i%2], of(rule, "a", 1)).Admitted {
				admitted++
			}
		}
		return admitted
	}
	take(hits - lost - 5)
	before, now, err := b.Read(ctx, stored.GroupOf(name), []string{name})
	if err != nil {
		t.Fatal(err)
	}
	take(lost)
	then, _, err := b.Read(ctx, stored.GroupOf(name), []string{name})
	if err != nil {
		t.Fatal(err)
	}
	back := stored.Change{Name: name, Decided: then[0].Version, Next: before[0].Version, State: before[0].State, Expires: window.MaxTime}
	if r, err := b.Commit(ctx, &stored.Commit{Group: stored.GroupOf(name), At: now, Slack: time.Minute.Microseconds(), Changes: []stored.Change{back}}); err != nil || !r.Done {
		t.Fatalf("%+v, %v", r, err)
	}
	if n := take(2 * hits); n != 5+lost {
		t.Errorf("%d are admitted; 5 remained, and %d were lost", n, lost)
	}
}
