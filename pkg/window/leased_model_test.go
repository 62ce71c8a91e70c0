package window

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// leasedTwin is Take, Settle and End of a policy with limits at once, slow and obvious: the other limits are those of a
// takeTwin, and what attempts occupy is a list.
type leasedTwin struct {
	plain    *takeTwin
	c        Config
	occupied []moment
}

func newLeasedTwin(c Config) *leasedTwin {
	plain := c
	plain.Limits = nil
	for i, l := range c.Limits {
		if !slices.Contains(c.AtOnce, i) {
			plain.Limits = append(plain.Limits, l)
		}
	}
	return &leasedTwin{plain: newTakeTwin(plain), c: c}
}

// admits reports whether the i-th limit of all admits an attempt.
func (w *leasedTwin) admits(i int, at, cost int64) bool {
	if l := w.c.Limits[i]; slices.Contains(w.c.AtOnce, i) {
		return hitsWithin(append(slices.Clone(w.occupied), moment{at, cost}), at, l.Per.Milliseconds()) <= l.Hits
	}
	before := 0
	for _, j := range w.c.AtOnce {
		if j < i {
			before++
		}
	}
	return w.plain.admits(i-before, at, cost)
}

func (w *leasedTwin) all(at, cost int64) bool {
	for i := range w.c.Limits {
		if !w.admits(i, at, cost) {
			return false
		}
	}
	return true
}

func (w *leasedTwin) take(now, cost int64) bool {
	if now = max(now, w.plain.newest); !w.all(now, cost) {
		return false
	}
	w.plain.add(now, cost)
	w.occupied = append(w.occupied, moment{now, cost})
	return true
}

func (w *leasedTwin) end(now int64, m moment) {
	i := slices.Index(w.occupied, m)
	w.occupied = slices.Delete(w.occupied, i, i+1)
	w.plain.newest = max(w.plain.newest, now)
}

// check compares the parts of an answer with the definition.
func (w *leasedTwin) check(t *testing.T, got Taken, cost int64) {
	t.Helper()
	switch {
	case got.Remaining > 0 && !w.admits(got.Limit, got.At, got.Remaining), w.admits(got.Limit, got.At, got.Remaining+1):
		t.Fatalf("%+v %+v: %d do not remain of limit %d", w.c, w, got.Remaining, got.Limit)
	case got.Admitted && !w.all(got.At, got.Remaining):
		t.Fatalf("%+v %+v: %d remain of limit %d, and fewer of another", w.c, w, got.Remaining, got.Limit)
	case !got.Admitted && w.admits(got.Limit, got.At, cost):
		t.Fatalf("%+v %+v: limit %d does not refuse %d", w.c, w, got.Limit, cost)
	case got.Again == Never && w.all(got.At+1<<40, cost), got.Again != Never && !w.all(got.Again, cost):
		t.Fatalf("%+v %+v: %d again at %d, %d ms later", w.c, w, cost, got.Again, got.Again-got.At)
	case got.Again != Never && got.Again > got.At && w.all(got.Again-1, cost):
		t.Fatalf("%+v %+v: %d are admitted before %d", w.c, w, cost, got.Again)
	}
}

// leasedScene adds limits at once to a scene, in any places; of some it has no others.
func leasedScene(r *rand.Rand, a Algorithm) scene {
	sc := takeScene(r, a)
	c := &sc.config
	c.Limits = slices.Clone(c.Limits)
	longest := c.Limits[0].Per
	if r.IntN(4) == 0 {
		c.Limits = nil
	}
	for range 1 + r.IntN(2) {
		i := r.IntN(len(c.Limits) + 1)
		c.Limits = slices.Insert(c.Limits, i, Limit{1 + r.Int64N(8), max(time.Millisecond, longest*time.Duration(1+r.IntN(8))/4).Truncate(time.Millisecond)})
		for n := range c.AtOnce {
			if c.AtOnce[n] >= i {
				c.AtOnce[n]++
			}
		}
		c.AtOnce = append(c.AtOnce, i)
	}
	return sc
}

// For each algorithm of the other limits, with attempts that end, that are settled again and again, also when their lease is
// over, and that are taken back, and with states that are written and read: the answers are what the definition says.
func TestAtOnceIsItsDefinition(t *testing.T) {
	for _, a := range Algorithms() {
		t.Run(a.String(), func(t *testing.T) {
			r, admitted, refused, ended := random(t), 0, 0, 0
			for range 500 {
				sc := leasedScene(r, a)
				p, w := mustNew(t, sc.config), newLeasedTwin(sc.config)
				var s State
				var open, settled []moment // of those that are settled, with the cost that they were settled to
				for i, m := range sc.hits {
					now := m.at - pick[int64](r, 0, 0, 0, 0, 3)
					if len(open) > 0 && r.IntN(3) == 0 {
						j := r.IntN(len(open))
						one := open[j]
						open = slices.Delete(open, j, j+1)
						actual := r.Int64N(one.cost + 2)
						p.End(&s, now, one.at, one.cost)
						p.Settle(&s, now, one.at, one.cost, actual)
						w.end(now, one)
						w.plain.settle(now, one, actual)
						settled = append(settled, moment{one.at, actual})
						ended++
					}
					if len(settled) > 0 && r.IntN(5) == 0 {
						one := &settled[len(settled)-1]
						actual := r.Int64N(4)
						p.Settle(&s, now, one.at, one.cost, actual)
						w.plain.settle(now, *one, actual)
						one.cost = actual
					}
					if r.IntN(5) == 0 {
						s = reread(t, p, &s)
					}

					got, want := p.Take(&s, now, m.cost), w.take(now, m.cost)
					if got.Admitted != want || got.At != max(now, w.plain.newest) {
						t.Fatalf("%+v\nattempt %d of %v at %d: got %+v, want %v at %d", sc.config, i, sc.hits[:i+1], now, got, want, max(now, w.plain.newest))
					}
					w.check(t, got, m.cost)
					switch {
					case !want:
						refused++
					case r.IntN(6) == 0 && (a < Token || len(w.plain.c.Limits) == 0): // a bucket may have been empty before
						p.TakeBack(&s, got.At, got.At, m.cost)
						w.end(got.At, moment{got.At, m.cost})
						w.plain.settle(got.At, moment{got.At, m.cost}, 0)
					default:
						open = append(open, moment{got.At, m.cost})
						admitted++
					}
				}
			}
			if admitted < 3000 || refused < 500 || ended < 3000 {
				t.Errorf("%d admitted, %d refused, %d ended: the traffic shows too little", admitted, refused, ended)
			}
		})
	}
}

// A key keeps its count when its rule changes: limits at once and others do not count each other's hits.
func TestAtOnceWhenLimitsChange(t *testing.T) {
	perMinute, atOnce := Limit{10, time.Minute}, Limit{3, time.Minute}
	block := Block{For: time.Minute}
	for _, a := range []Algorithm{Sliding, Token} {
		plain := mustNew(t, Config{Algorithm: a, Limits: []Limit{perMinute}, Block: block})
		both := mustNew(t, Config{Algorithm: a, Limits: []Limit{atOnce, perMinute}, AtOnce: []int{0}, Block: block})
		only := mustNew(t, Config{Algorithm: a, Limits: []Limit{atOnce}, AtOnce: []int{0}, Block: block})
		two := mustNew(t, Config{Algorithm: a, Limits: []Limit{{2, time.Minute}}, AtOnce: []int{0}, Block: block})
		for _, step := range []struct {
			from, to  *Policy
			taken     int64 // by from
			remaining int64 // of to's first limit
		}{
			{plain, both, 2, 3}, {plain, only, 2, 3}, {both, only, 2, 1}, {both, plain, 2, 8}, {only, plain, 2, 10}, {only, both, 2, 1},
			{only, two, 3, 0},
		} {
			var s, next State
			if got := step.from.Take(&s, someTime, step.taken); !got.Admitted {
				t.Fatalf("%v: %+v", a, got)
			}
			if err := step.to.Read(step.from.Append(nil, &s), &next); err != nil {
				t.Fatal(err)
			}
			got := max(0, step.to.algorithm.room(&next, 0, someTime))
			if got != step.remaining {
				t.Errorf("%v, %+v to %+v: %d remain, not %d", a, step.from.algorithm, step.to.algorithm, got, step.remaining)
			}
		}
	}
}

// Many at once are counted exactly, also more than hits are remembered.
func TestManyAtOnceAreExact(t *testing.T) {
	const most = 6000
	p := mustNew(t, Config{Limits: []Limit{{most, time.Hour}}, AtOnce: []int{0}, Remember: minRemember, Block: Block{For: time.Minute}})
	var s State
	for i := range int64(most) {
		if got := p.Take(&s, someTime+i, 1); !got.Admitted || got.Remaining != most-1-i {
			t.Fatalf("%d: %+v", i, got)
		}
	}
	if got := p.Take(&s, someTime+most, 1); got.Admitted || got.Again != someTime+time.Hour.Milliseconds() {
		t.Errorf("one too many: %+v", got)
	}
	p.End(&s, someTime+most, someTime, 1)
	s = reread(t, p, &s)
	if got := p.Take(&s, someTime+most, 2); got.Admitted {
		t.Errorf("one has ended, and two are admitted: %+v", got)
	}
	if got := p.Take(&s, someTime+most, 1); !got.Admitted || got.Remaining != 0 {
		t.Errorf("one has ended: %+v", got)
	}
}

func TestAtOnceIsChecked(t *testing.T) {
	limits := []Limit{{10, time.Minute}, {5, time.Minute}}
	for name, c := range map[string]Config{
		"no such limit": {AtOnce: []int{2}}, "below zero": {AtOnce: []int{-1}}, "twice": {AtOnce: []int{1, 1}},
		"late": {AtOnce: []int{1}, Late: time.Second}, "too many": {AtOnce: []int{0}, Limits: []Limit{{maxRemember + 1, time.Minute}}},
	} {
		if c.Block.For = time.Minute; c.Limits == nil {
			c.Limits = limits
		}
		if _, err := New(c); err == nil {
			t.Errorf("%s: it is accepted", name)
		}
	}
}
