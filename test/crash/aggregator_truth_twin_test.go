package crash

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/pkg/hit"
	"weir/pkg/rule"
	"weir/pkg/window"
)

func mustParse(t testing.TB, rules string) *rule.Set {
	t.Helper()
	set, _, err := rule.Parse("rules.yaml", []byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// The traffic covers everything that can happen to a key, and the truth's results are those of pkg/window, with guards and
// without.
func TestTheTruthOfTheTraffic(t *testing.T) {
	for seed := range uint64(number(t, "WEIR_TRUTH_SEEDS", 4)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			compareTraffic(t, seed, fireRules)
			w := compareTraffic(t, seed, guardedFireRules)
			if w.seen["guarded"] == 0 || w.seen["goes on"] == 0 || w.seen["enforced"] == 0 {
				t.Errorf("%v: the traffic shows too little", w.seen)
			}
		})
	}
}

// guardedFireRules are fireRules with guards, which hold blocks back at times.
var guardedFireRules = "guard: {most_new: 1/min}\n" + strings.ReplaceAll(fireRules, "mode: shadow", "mode: shadow, guard: off")

func compareTraffic(t *testing.T, seed uint64, text string) *truth {
	t.Helper()
	rules := mustParse(t, text)
	const partitions = 4
	f := newTraffic(t, seed, rules, 4000, partitions)
	f.from, f.to = 1_700_000_000_000, 1_700_000_000_000+5*hour
	w := newTruth(rules, partitions, 10*time.Minute, 10*time.Second)
	twin := newWindows(t, rules, partitions)
	for i := range 200 {
		for _, m := range f.cut(1000, float64(i)/200) {
			if err := w.record(m.Partition, int64(i), m.Value); err != nil {
				t.Fatal(err)
			}
			twin.record(t, m.Partition, m.Value)
		}
	}

	for of := range w.keys {
		if err := w.differs(of, twin.state(of), twin.policies[of.rule]); err != nil {
			t.Errorf("%v: %v", of, err)
		}
		if err := w.blockDiffers(of, twin.blocks[of]); err != nil {
			t.Errorf("%v: %v", of, err)
		}
	}

	for _, what := range []string{"applied", "resent", "conflict", "unblock", "unblocked", "lifted", "ahead", "late", "blocked", "counted", "broke", "again", "extended", "moved"} {
		if w.seen[what] == 0 {
			t.Errorf("%s: %d times: the traffic shows too little", what, w.seen[what])
		}
	}
	t.Logf("%d keys, %v", len(w.keys), w.seen)
	return w
}

// blockDiffers describes how a key's last block differs from the truth.
func (w *truth) blockDiffers(of pair, o window.Outcome) error {
	e := w.keys[of].entry
	if e == nil {
		if o != (window.Outcome{}) {
			return fmt.Errorf("blocked by %+v, and broke no limit", o)
		}
		return nil
	}
	limit := w.rules[of.rule].Limits[o.Limit].Text
	if o.From != e.From || o.Until != e.Until || limit != e.Limit || o.Count != e.Count || o.Level != e.Level {
		return fmt.Errorf("blocked by %+v, want %+v", o, e.Entry)
	}
	return nil
}

// Windows count like an aggregator that never ends.
type windows struct {
	policies  map[string]*window.Policy
	states    map[pair]*window.State
	blocks    map[pair]window.Outcome // that last began, moved or extended one
	positions []*hit.Positions
	guards    map[string]int64 // how many new blocks each partition enforces in a minute
	begun     map[begin]int64
	guarded   map[pair]bool // the last block is
}

func newWindows(t testing.TB, rules *rule.Set, partitions int) *windows {
	t.Helper()
	w := &windows{policies: map[string]*window.Policy{}, states: map[pair]*window.State{}, blocks: map[pair]window.Outcome{},
		guards: map[string]int64{}, begun: map[begin]int64{}, guarded: map[pair]bool{}}
	for _, r := range rules.Rules {
		policy, err := r.Policy(10*time.Minute, 0)
		if err != nil {
			t.Fatal(err)
		}
		w.policies[r.Name], w.guards[r.Name] = policy, r.Guard.Share(partitions)
	}
	for range partitions {
		w.positions = append(w.positions, hit.NewPositions(100, time.Hour))
	}
	return w
}

func (w *windows) record(t testing.TB, partition int, value []byte) {
	t.Helper()
	var r hit.Reader
	if err := r.Reset(value); err != nil {
		t.Fatal(err)
	}
	if w.positions[partition].Judge(r.Header(), r.Checksum(), 0) != hit.Apply {
		return
	}
	for _, item := range r.Items() {
		p := r.Pairs()[item.Pair]
		of := pair{r.Rules()[p.Rule], string(p.Key)}
		if _, ok := r.Unblock(item); ok {
			w.policies[of.rule].Unblock(w.state(of), item.UnixMilli)
			delete(w.blocks, of)
			delete(w.guarded, of)
		} else if item.UnixMilli <= r.Header().Clock+10*second {
			w.hit(of, partition, item.UnixMilli, item.Cost)
		}
	}
}

// hit counts a hit as an aggregator does. A guarded block is waived a minute after it began, and one that is guarded again
// while it lasts is not published.
func (w *windows) hit(of pair, partition int, at, cost int64) {
	policy, s, last := w.policies[of.rule], w.state(of), w.blocks[of]
	if from, _, level, ok := s.Block(); ok && w.guarded[of] && from == last.From && level == last.Level && at >= min(from+minute, last.Until) {
		policy.Waive(s, min(from+minute, last.Until))
	}
	o := policy.Hit(s, at, cost)
	if o.Event != window.Broke && o.Event != window.Moved && o.Event != window.Extended {
		return
	}
	if o.Event != window.Extended {
		for _, other := range s.Others() {
			w.isGuarded(of, partition, other)
		}
	}
	if o.Event == window.Broke {
		guarded := w.isGuarded(of, partition, o)
		if guarded && w.guarded[of] && o.From < last.Until && len(s.Others()) == 0 {
			policy.Waive(s, o.From+minute)
			return
		}
		w.guarded[of] = guarded
	}
	w.blocks[of] = o
}

// isGuarded counts a block that begins, and says whether it is beyond the guard.
func (w *windows) isGuarded(of pair, partition int, o window.Outcome) bool {
	most, in := w.guards[of.rule], begin{of.rule, partition, o.From / minute}
	if o.Event != window.Broke || most == 0 {
		return false
	}
	before := in
	before.minute--
	w.begun[in]++
	return w.begun[in] > most || w.begun[before] > most
}

func (w *windows) state(of pair) *window.State {
	if w.states[of] == nil {
		w.states[of] = &window.State{}
	}
	return w.states[of]
}

// differs describes how a state differs from the truth: in its counts at its newest hit and before, or in its block.
func (w *truth) differs(of pair, s *window.State, policy *window.Policy) error {
	h := w.keys[of]
	if h == nil {
		h = &history{} // of a key without counted hits
	}
	if s.Newest() != h.newest {
		return fmt.Errorf("the newest hit is at %d, want %d", s.Newest(), h.newest)
	}
	for i, l := range w.rules[of.rule].Limits {
		for _, at := range []int64{h.newest, h.newest - 1, h.newest - 7*second, h.newest - 5*minute} {
			if got, want := policy.Count(s, i, at), h.within(at, l.Per.Milliseconds()); got != want {
				return fmt.Errorf("%s counts %d at %d, want %d", l.Text, got, at, want)
			}
		}
	}
	from, until, level, ok := s.Block()
	if h.waived {
		if ok {
			return fmt.Errorf("blocked from %d until %d at level %d, and it is waived", from, until, level)
		}
		return nil
	}
	if forgotten := h.until + w.rules[of.rule].Block.Forget.Milliseconds(); !ok && h.until > 0 && forgotten <= h.newest-w.late {
		return nil // swept away, before the key came back: no hit that still counts is of that time
	}
	if from != h.from || until != h.until || level != h.level {
		return fmt.Errorf("blocked from %d until %d at level %d, want %d, %d, %d", from, until, level, h.from, h.until, h.level)
	}
	return nil
}
