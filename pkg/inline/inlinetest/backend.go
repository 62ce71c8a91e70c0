package inlinetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"testing"
	"time"

	"weir/pkg/inline"
	"weir/pkg/inline/stored"
	"weir/pkg/window"
)

// A BackendPlace is a database of one test, which is new and empty. A function that it does not have is nil, and not tried.
type BackendPlace struct {
	Open   func(t testing.TB) stored.Backend // each as of another process; the test's end closes it
	Name   string                            // by which a process opens it in Child; empty if none can
	Kill   func() (start func())             // kills the database; it loses nothing
	Pause  func() (resume func())            // the database hangs
	Forget func()                            // it forgets what it has prepared, as scripts
	Brief  bool                              // the same database was tested at length in another form
}

// store is a Store as of another process. It has found the database's clock.
func (p *BackendPlace) store(t testing.TB, o Options) *stored.Store {
	return newStore(t, p.Open(t), o)
}

func newStore(t testing.TB, b stored.Backend, o Options) *stored.Store {
	s := stored.New(stored.Config{Backend: b, Rule: o.Rule, Settle: o.Settle})
	t.Cleanup(s.Close)
	return s
}

// RunBackend runs all tests of a Backend, each in a new Place whose clock is that of this machine, and those of Run.
func RunBackend(t *testing.T, open func(t *testing.T) *BackendPlace) {
	for _, one := range []struct {
		name string
		run  func(*testing.T, *BackendPlace)
	}{
		{"commits", commits},
		{"a commit has a time", commitTimes},
		{"several cells are one step", severalCells},
		{"cells expire", cellsExpire},
		{"any bytes", anyBytes},
		{"cells are listed", cellsAreListed},
		{"keys are listed", keysAreListed},
		{"two write at the same time", twoWrite},
		{"killed", killed},
		{"hangs", hangs},
		{"away under load", away},
		{"several processes", severalProcesses},
		{"forgets", forgets},
		{"its clock steps", clockSteps},
		{"it loses its last writes", losesWrites},
	} {
		t.Run(one.name, func(t *testing.T) { one.run(t, open(t)) })
	}
	Run(t, func(t *testing.T) *Place {
		p := open(t)
		attempts := 1500
		if p.Brief {
			attempts = 500
		}
		return &Place{Open: func(o Options) inline.Store { return p.store(t, o) }, Attempts: attempts, Brief: p.Brief}
	})
}

// A writer commits at the database's time.
type writer struct {
	testing.TB
	b stored.Backend
}

func (w *writer) now() int64 {
	w.Helper()
	_, now, err := w.b.Read(ctx, 0, nil)
	if err != nil {
		w.Fatal(err)
	}
	return now
}

func (w *writer) commit(changes ...stored.Change) stored.Result {
	w.Helper()
	return w.commitAt(w.now(), time.Minute.Microseconds(), changes...)
}

func (w *writer) commitAt(at, slack int64, changes ...stored.Change) stored.Result {
	w.Helper()
	r, err := w.b.Commit(ctx, &stored.Commit{Group: 7, At: at, Slack: slack, Changes: changes})
	if err != nil {
		w.Fatal(err)
	}
	if !r.Done && len(r.Cells) != len(changes) {
		w.Fatalf("%d cells come back of %d changes", len(r.Cells), len(changes))
	}
	return r
}

// is checks what a cell has, as it is read and as a commit returns it. Version 0 is no cell.
func (w *writer) is(name string, version uint64, state string) {
	w.Helper()
	cells, _, err := w.b.Read(ctx, 7, []string{name})
	if err != nil {
		w.Fatal(err)
	}
	r := w.commit(stored.Change{Name: name, Decided: 1 << 60, Next: 5, Expires: window.MaxTime})
	for _, cell := range []stored.Cell{cells[0], r.Cells[0]} {
		if r.Done || cell.Version != version || string(cell.State) != state {
			w.Errorf("%q is %d %q, not %d %q", name, cell.Version, cell.State, version, state)
		}
	}
}

func set(name string, decided, next uint64, state string) stored.Change {
	return stored.Change{Name: name, Decided: decided, Next: next, State: []byte(state), Expires: window.MaxTime}
}

const largest = 1<<64 - 1

func commits(t *testing.T, p *BackendPlace) {
	w := writer{t, p.Open(t)}
	w.is("a", 0, "")
	for _, step := range []struct {
		change stored.Change
		done   bool
		then   uint64
		state  string
	}{
		{set("a", 3, 4, "none is there"), false, 0, ""},
		{set("a", 0, largest, "first"), true, largest, "first"},
		{set("a", 0, 8, "one is there"), false, largest, "first"},
		{set("a", 3, 8, "another is there"), false, largest, "first"},
		{set("a", largest, 2, "second"), true, 2, "second"},
		{stored.Change{Name: "a", Decided: 2}, true, 2, "second"},
		{stored.Change{Name: "a", Decided: largest}, false, 2, "second"},
		{set("a", 2, 3, ""), true, 3, ""},
		{stored.Change{Name: "a", Decided: 3, Next: 4}, true, 0, ""}, // it has expired
		{stored.Change{Name: "a"}, true, 0, ""},
		{set("a", 0, 9, "again"), true, 9, "again"},
	} {
		if r := w.commit(step.change); r.Done != step.done {
			t.Errorf("%+v: %+v", step.change, r)
		}
		w.is("a", step.then, step.state)
	}
	w.b = p.Open(t)
	w.is("a", 9, "again")
}

func commitTimes(t *testing.T, p *BackendPlace) {
	w := writer{t, p.Open(t)}
	const second = 1_000_000
	now := w.now()
	if off := time.Since(time.UnixMicro(now)); off.Abs() > time.Minute {
		t.Errorf("the time is %v off", off)
	}
	for _, one := range []struct {
		at, slack int64
		done      bool
	}{{now + 60*second, 20_000, false}, {now - 60*second, 20_000, false}, {0, 20_000, false}, {now - 60*second, 120 * second, true}} {
		r := w.commitAt(one.at, one.slack, set("a", 0, 1, "x"))
		if r.Done != one.done || r.Now < now || r.Now > now+60*second {
			t.Errorf("%+v at %d: %+v", one, now, r)
		}
	}
}

func severalCells(t *testing.T, p *BackendPlace) {
	w := writer{t, p.Open(t)}
	if r := w.commit(set("b", 0, 1, "b1"), set("a", 0, 2, "a1"), set("c", 0, 3, "c1")); !r.Done {
		t.Fatalf("%+v", r)
	}
	r := w.commit(set("b", 1, 4, "b2"), set("a", 7, 5, "a2"), set("d", 0, 6, "d2"), stored.Change{Name: "c", Decided: 3})
	if r.Done || r.Cells[0].Version != 1 || string(r.Cells[1].State) != "a1" || r.Cells[2].Version != 0 || string(r.Cells[3].State) != "c1" {
		t.Errorf("%+v", r)
	}
	w.is("b", 1, "b1")
	w.is("d", 0, "")
	var many []stored.Change
	for n := range stored.MaxChanges {
		many = append(many, set(fmt.Sprint("many", n), 0, uint64(n+1), "x"))
	}
	if r := w.commit(many...); !r.Done {
		t.Error("MaxChanges are too many")
	}
}

func cellsExpire(t *testing.T, p *BackendPlace) {
	w := writer{t, p.Open(t)}
	short := set("a", 0, 1, "x")
	short.Expires = w.now()/1000 + 100
	if r := w.commit(short, set("b", 0, 1, "y")); !r.Done {
		t.Fatalf("%+v", r)
	}
	for w.now()/1000 <= short.Expires+20 { // another server's time may be a little behind
		time.Sleep(10 * time.Millisecond)
	}
	w.is("a", 0, "")
	w.is("b", 1, "y")
	if r := w.commit(set("a", 0, 2, "again")); !r.Done {
		t.Errorf("%+v", r)
	}
	w.is("a", 2, "again")
}

func anyBytes(t *testing.T, p *BackendPlace) {
	w := writer{t, p.Open(t)}
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	long := string(bytes.Repeat(all, stored.MaxName/256))
	names := []string{long[:stored.MaxName-1] + "\x01", long[:stored.MaxName-1] + "\x02", "A", "a", "a ", "a\x00", "ä", "\xe4", "\xff", "'{\"%_\\"}
	for i, name := range names {
		state := string(bytes.Repeat(all, 1+i*100))
		if r := w.commit(set(name, 0, uint64(i+1), state)); !r.Done {
			t.Fatalf("%q: another name is taken for it", name)
		}
	}
	for i, name := range names {
		w.is(name, uint64(i+1), string(bytes.Repeat(all, 1+i*100)))
	}
}

// twoWrite: many count in two cells, from several processes, and none is lost. The cells are named in both orders.
func twoWrite(t *testing.T, p *BackendPlace) {
	const writers, times = 8, 40
	names := []string{"a", "b"}
	var running sync.WaitGroup
	for i := range writers {
		w := writer{t, p.Open(t)}
		running.Go(func() {
			cells := make([]stored.Cell, 2)
			for n := range times {
				for done := false; !done; {
					now := w.now()
					var changes []stored.Change
					for j := range cells {
						of := (i + j) % 2
						var count [8]byte
						if cells[j].Version != 0 {
							copy(count[:], cells[j].State)
						}
						binary.LittleEndian.PutUint64(count[:], binary.LittleEndian.Uint64(count[:])+1)
						changes = append(changes, set(names[of], cells[j].Version, uint64(1+i+writers*(n+1+times*int(count[0])+1<<20*int(count[1]))), string(count[:])))
					}
					r, err := w.b.Commit(ctx, &stored.Commit{Group: 7, At: now, Slack: time.Minute.Microseconds(), Changes: changes})
					if err != nil {
						t.Error(err)
						return
					}
					if done = r.Done; !done {
						cells = r.Cells
						continue
					}
					for j := range cells {
						cells[j] = stored.Cell{Version: changes[j].Next, State: changes[j].State}
					}
				}
			}
		})
	}
	running.Wait()
	w := writer{t, p.Open(t)}
	cells, _, err := w.b.Read(ctx, 7, names)
	for _, cell := range cells {
		if got := binary.LittleEndian.Uint64(cell.State); err != nil || got != writers*times {
			t.Errorf("%d were counted of %d, %v", got, writers*times, err)
		}
	}
}

// try takes with a budget, as the caller of a request does.
func try(s inline.Store, wants ...inline.Want) (v inline.Verdict, err error) {
	within, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	return v, s.Take(within, &v, wants)
}

func trySettle(s inline.Store, id inline.ID, cost int64) error {
	within, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	return s.Settle(within, id, cost)
}

// untilOne takes until the database answers.
func untilOne(t *testing.T, s inline.Store, w inline.Want) (v inline.Verdict) {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		v, err := try(s, w)
		if err == nil {
			return v
		}
		if time.Since(begin) > time.Minute {
			t.Fatal(err)
		}
	}
}
