package aggregator

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/internal/store"
	"weir/internal/store/disk"
	"weir/internal/store/redis"
	"weir/internal/store/redis/redistest"
	"weir/pkg/aggregator/windows"
	"weir/pkg/blocklist"
	"weir/pkg/hit"
	"weir/pkg/rule"
	"weir/pkg/window"
)

// A twin counts a log from its beginning to its end, in one go.
type twin struct {
	policies map[string]*window.Policy
	limits   map[string][]string
	values   map[string]uint64
	states   map[string]*window.State
	verdicts map[string]*windows.Verdict
	ids      map[string]bool // name, from, level of all that were decided
	guards   map[string]rule.Guard
	begun    map[string]int64          // blocks by rule and minute
	held     map[string]windows.Beyond // as ids: those that are guarded
	goneOn   int                       // guarded blocks that were guarded again
	enforced int                       // and those that were not
	last     map[string]int64          // by name, the offset of the last batch
	judged   int                       // blocks that began when time had passed
	reached  int64                     // the newest time of hits
	guard    windows.Guard             // of rules that bound the share of keys: pkg/aggregator/windows compares it with an exact count
}

func (l *lab) twin() *twin {
	w := &twin{policies: map[string]*window.Policy{}, limits: map[string][]string{}, values: map[string]uint64{}, states: map[string]*window.State{}, verdicts: map[string]*windows.Verdict{}, ids: map[string]bool{}, last: map[string]int64{}, guards: map[string]rule.Guard{}, begun: map[string]int64{}, held: map[string]windows.Beyond{}}
	w.guard = *windows.NewGuard(l.agg.seed)
	for _, r := range parseRules(l.t, l.rules).Rules {
		w.guards[r.Name] = r.Guard
		policy, err := r.Policy(labLate, 0)
		if err != nil {
			l.t.Fatal(err)
		}
		w.policies[r.Name], w.values[r.Name] = policy, r.ValuesOf()
		for _, limit := range r.Limits {
			w.limits[r.Name] = append(w.limits[r.Name], limit.Text)
		}
	}
	positions := hit.NewPositions(1000, 48*time.Hour)
	for _, record := range l.records {
		var reader hit.Reader
		if reader.Reset(record.Value) != nil {
			continue
		}
		if positions.Judge(reader.Header(), reader.Checksum(), record.Time.UnixMilli()) == hit.Apply {
			w.batch(&reader, record.Offset)
		}
	}
	for name, state := range w.states {
		rule, _, _ := strings.Cut(name, "/")
		w.judge(rule, name, state, w.reached)
	}
	return w
}

// judge decides what the partition's time has decided.
func (w *twin) judge(rule, name string, state *window.State, passed int64) {
	if o := w.policies[rule].Judge(state, passed); o.Event == window.Broke {
		w.verdicts[name] = &windows.Verdict{From: o.From, Until: o.Until, Count: o.Count, Level: o.Level, Limit: w.limits[rule][o.Limit], Offset: w.last[name], Listed: true}
		w.ids[fmt.Sprint(name, o.From, o.Level)] = true
		w.judged++
	}
}

func (w *twin) batch(reader *hit.Reader, offset int64) {
	passed := w.reached
	for _, item := range reader.Items() {
		pair := reader.Pairs()[item.Pair]
		rule := reader.Rules()[pair.Rule]
		if _, ok := reader.Unblock(item); !ok && item.UnixMilli <= reader.Header().Clock+10_000 && w.guards[rule].MostShare > 0 {
			w.guard.Sees(rule, string(pair.Key), item.UnixMilli)
		}
	}
	for _, pair := range reader.Pairs() {
		rule := reader.Rules()[pair.Rule]
		name := rule + "/" + string(pair.Key)
		if w.states[name] == nil {
			w.states[name] = &window.State{}
		}
		w.judge(rule, name, w.states[name], passed)
		w.last[name] = offset
	}
	for _, item := range reader.Items() {
		pair := reader.Pairs()[item.Pair]
		rule := reader.Rules()[pair.Rule]
		name := rule + "/" + string(pair.Key)
		if item.Cost > 0 && item.UnixMilli <= reader.Header().Clock+10_000 {
			w.reached = max(w.reached, item.UnixMilli)
		}
		if _, ok := reader.Unblock(item); ok {
			w.policies[rule].Unblock(w.states[name], item.UnixMilli)
			if v := w.verdicts[name]; v != nil && v.Ended == 0 {
				v.Ended, v.Lifted, v.Offset = 1, true, offset
			}
			continue
		}
		if item.UnixMilli > reader.Header().Clock+10_000 {
			continue
		}
		if reader.Of(pair.Rule) != w.values[rule] {
			continue
		}
		w.countAgain(name, rule, item.UnixMilli)
		var o window.Outcome
		if w.values[rule] == 0 {
			o = w.policies[rule].Hit(w.states[name], item.UnixMilli, item.Cost)
		} else {
			o = w.policies[rule].HitValue(w.states[name], item.UnixMilli, reader.Value(item))
		}
		switch o.Event {
		case window.Broke, window.Extended, window.Moved:
			if o.Event != window.Extended {
				for _, other := range w.states[name].Others() {
					w.guarded(rule, other, w.verdicts[name])
				}
			}
			v := &windows.Verdict{From: o.From, Until: o.Until, Count: o.Count, Level: o.Level, Limit: w.limits[rule][o.Limit], Offset: offset, Listed: true}
			if o.Event == window.Moved && (o.First != o.From || o.FirstLevel != o.Level) {
				v.First, v.FirstLevel = o.First, o.FirstLevel
			}
			was := w.verdicts[name]
			v.Guarded = w.guarded(rule, o, was)
			if o.Event == window.Broke && v.Guarded != 0 && was != nil && was.Guarded != 0 && was.Ended == 0 && o.From < was.Until && len(w.states[name].Others()) == 0 {
				w.policies[rule].Waive(w.states[name], o.From+60_000) // the same offence goes on
				w.goneOn++
				continue
			}
			if was != nil && was.Guarded != 0 && v.Guarded == 0 && o.From < was.Until {
				w.enforced++
			}
			w.verdicts[name] = v
			w.ids[fmt.Sprint(name, o.From, o.Level)] = true
			w.held[fmt.Sprint(name, o.From, o.Level)] = v.Guarded
		}
	}
}

// countAgain has a guarded block end a minute after it began.
func (w *twin) countAgain(name, rule string, at int64) {
	v := w.verdicts[name]
	if v == nil || v.Guarded == 0 || at < min(v.From+60_000, v.Until) {
		return
	}
	if from, _, level, ok := w.states[name].Block(); ok && from == v.From && level == v.Level {
		w.policies[rule].Waive(w.states[name], min(v.From+60_000, v.Until))
	}
}

// guarded is the bound of the guard of its rule that a block is beyond: it begins in a minute, or after one, with more than
// may.
func (w *twin) guarded(name string, o window.Outcome, before *windows.Verdict) windows.Beyond {
	guard := w.guards[name]
	switch {
	case o.Event == window.Moved || o.Event == window.Extended && before != nil && before.From == o.From:
		if before != nil {
			return before.Guarded
		}
		return 0
	case o.Event == window.Extended || guard.Off():
		return 0
	case guard.MostShare > 0:
		return w.guard.Begins(name, guard, 1, windows.Beginning{From: o.From, Again: before.BeganWith(o.From)})
	}
	minute := func(n int64) string { return fmt.Sprint(name, " ", o.From/60_000+n) }
	w.begun[minute(0)]++
	if w.begun[minute(0)] > guard.MostNew || w.begun[minute(-1)] > guard.MostNew {
		return windows.MostNew
	}
	return 0
}

// beyond is the bound that an entry is guarded by.
func beyond(e *blocklist.Entry) windows.Beyond {
	switch {
	case e.ByShare:
		return windows.MostShare
	case e.Guarded:
		return windows.MostNew
	}
	return 0
}

// compare holds what is in the store and on the list against the twin.
func (l *lab) compare(p *partition) *twin {
	l.t.Helper()
	w, said := l.twin(), l.said()
	for name, state := range w.states {
		values, _, err := l.store.Store.Read(context.Background(), 0, store.Windows, [][]byte{[]byte(name)})
		if err != nil {
			l.t.Fatal(err)
		}
		rule, _, _ := strings.Cut(name, "/")
		policy := w.policies[rule]
		if values[0] == nil && policy.Clear(state) <= p.counter.reached-labLate.Milliseconds() {
			continue // it was swept
		}
		record, err := windows.ReadRecord(values[0])
		if err != nil {
			l.t.Fatalf("%s: %v", name, err)
		}
		if want := policy.Append(nil, state); !bytes.Equal(record.State, want) && !sweptBefore(policy, len(w.limits[rule]), record.State, state) {
			l.t.Errorf("%s: the state is\n%x, want\n%x", name, record.State, want)
		}
		l.compareVerdict(name, record.Verdict, w.verdicts[name])
		e := said[name]
		if v := record.Verdict; v != nil && (e == nil || e.From != v.From || e.Until != v.Until || e.Ended != v.Ended || e.Level != v.Level || e.Offset != v.Offset || beyond(e) != v.Guarded) {
			l.t.Errorf("%s: the list says %+v of %+v", name, e, v)
		}
	}
	for _, m := range l.list.arrived {
		e := l.entry(m.Key, m.Value)
		if e == nil {
			continue
		}
		if id := fmt.Sprint(string(m.Key), e.From, e.Level); !w.ids[id] {
			l.t.Errorf("the list has %+v, which never was", e)
		} else if want := w.held[id]; beyond(e) != want {
			l.t.Errorf("guarded is %v, want %v of %+v", beyond(e), want, e)
		}
	}
	if len(w.ids) == 0 || len(l.records) > 1000 && w.judged < 10 && w.policies["errors"] != nil {
		l.t.Errorf("%d blocks, %d of them when time had passed", len(w.ids), w.judged)
	}
	return w
}

// sweptBefore says that a state is what hits have made since a sweep, and the same as the one that was never swept in
// all that can still be asked.
func sweptBefore(policy *window.Policy, limits int, stored []byte, whole *window.State) bool {
	var since window.State
	if policy.Read(stored, &since) != nil || since.Newest() != whole.Newest() {
		return false
	}
	_, until, level, blocked := since.Block()
	_, wantUntil, wantLevel, wantBlocked := whole.Block()
	if blocked != wantBlocked || until != wantUntil || level != wantLevel {
		return false
	}
	for limit := range limits {
		for at := since.Newest() - labLate.Milliseconds(); at <= since.Newest(); at += 500 {
			if policy.Count(&since, limit, at) != policy.Count(whole, limit, at) {
				return false
			}
		}
	}
	return true
}

func (l *lab) compareVerdict(name string, got, want *windows.Verdict) {
	l.t.Helper()
	if got == nil || want == nil {
		if got != nil || want != nil {
			l.t.Errorf("%s: %+v, want %+v", name, got, want)
		}
		return
	}
	g := *got
	g.Generation, g.Decided = 0, 0
	if g.Ended != 0 {
		g.Ended = 1
	}
	if g != *want {
		l.t.Errorf("%s: %+v, want %+v", name, g, *want)
	}
}

// torment has processes count traffic, one after another, each killed, cut off or left behind at some step.
func (l *lab) torment(lives int, goBack func()) {
	l.t.Helper()
	var zombie *partition
	for range lives {
		l.traffic(l.r.IntN(120))
		p := l.partition()
		switch l.r.IntN(4) {
		case 0:
			l.store.killIn = l.r.IntN(60)
		case 1:
			l.list.killIn = l.r.IntN(20)
		case 2:
			if !l.steady {
				l.store.loseReply = 0.1
			}
		}
		turns := 1 + l.r.IntN(60)
		if l.live(p, turns/2) {
			l.kill()
			continue
		}
		l.store.away = l.r.IntN(4) == 0 && !l.steady
		dead := l.live(p, turns/8)
		l.store.away = false
		if !dead && zombie != nil && zombie.windows != nil {
			l.wake(zombie)
		}
		goBack()
		if !dead {
			dead = l.live(p, turns/2)
		}
		zombie = p
		if dead { // in the midst of something: it does not wake again
			zombie = nil
		}
		l.kill()
	}
}

// wake lets a former owner go on, who does not know that it was replaced.
func (l *lab) wake(zombie *partition) {
	killIn, list, events := l.store.killIn, *l.list, *l.events
	l.store.killIn, l.list.killIn, l.events.killIn = -1, -1, -1
	_ = zombie.turn(context.Background())                     // the fence keeps it from writing
	l.store.killIn, *l.list, *l.events = killIn, list, events // what it sends never arrives
}

func TestKilledAtEveryStep(t *testing.T) {
	lives, seeds := 40, uint64(30)
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("memory/", seed), func(t *testing.T) {
			cold := newMemoryStore()
			l := newLab(t, seed, cold)
			if seed%2 == 1 { // nothing is evicted, so checkpoints wait
				l.hotKeys = 1000
				l.start(labRules)
			}
			var before *memoryPart
			l.torment(lives, func() {
				switch l.r.IntN(6) {
				case 0:
					before = cold.copyOf(0)
				case 1:
					if before != nil { // the store loses its last writes, the fence included
						cold.parts[0], before = before, nil
					}
				}
			})
			p := l.takes()
			l.settle(p)
			l.compare(p)
		})
	}
	tormentOnStores(t, labRules)
}

// tormentOnStores torments a lab on each of the real stores. Where rules have a guard, the store is never away: which blocks
// are guarded depends on the order of counting.
func tormentOnStores(t *testing.T, rules string) {
	t.Helper()
	onStores(t, func(t *testing.T, cold store.Store) { tormentOn(t, cold, rules) })
}

// onStores runs a test on each store that keeps what it has.
func onStores(t *testing.T, test func(t *testing.T, cold store.Store)) {
	t.Helper()
	t.Run("disk", func(t *testing.T) {
		cold, err := disk.Open(t.Context(), disk.Options{Folder: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cold.Close() })
		test(t, cold)
	})
	t.Run("redis", func(t *testing.T) {
		server := redistest.Start(t)
		cold, err := redis.Open(t.Context(), redis.Options{URL: "redis://" + server.Addr})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cold.Close() })
		test(t, cold)
	})
}

func tormentOn(t *testing.T, cold store.Store, rules string) {
	l := newLab(t, 99, cold)
	l.rules, l.steady = rules, rules != labRules
	l.start(l.rules)
	l.torment(60, func() {})
	p := l.takes()
	l.settle(p)
	l.compare(p)
}
