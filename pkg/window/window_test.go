package window

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"
)

func TestNewReportsAllErrors(t *testing.T) {
	_, err := New(Config{Algorithm: 9, Limits: []Limit{{0, time.Second}, {1, time.Microsecond}, {1, time.Second + 1}}, Late: -1, Remember: 5,
		Subwindows: -1, Burst: -1, Block: Block{For: 0, Then: []time.Duration{time.Microsecond}, Forget: -1}})
	if err == nil {
		t.Fatal("no error")
	}
	if got := strings.Count(err.Error(), "\n") + 1; got != 12 {
		t.Errorf("%d faults are told, want 12:\n%v", got, err)
	}
	if _, err := New(Config{Block: Block{For: time.Second}}); err == nil || !strings.Contains(err.Error(), "no limit") {
		t.Errorf("without limits: %v", err)
	}
}

func TestBucketsThatCannotBeCountedAreRefused(t *testing.T) {
	_, err := New(Config{Algorithm: Token, Limits: []Limit{{maxHits - 1, maxPer - time.Millisecond}}, Block: Block{For: time.Second}})
	if err == nil || !strings.Contains(err.Error(), "rounder") {
		t.Errorf("got %v", err)
	}
}

func TestBlockLevels(t *testing.T) {
	p := mustNew(t, Config{Limits: []Limit{{1, time.Second}}, Block: Block{For: 10 * time.Second, Then: []time.Duration{time.Minute, time.Hour}, Forget: time.Minute}})
	var s State
	at := int64(someTime)
	offend := func(after time.Duration, level int, lasts time.Duration) {
		t.Helper()
		at += after.Milliseconds()
		p.Hit(&s, at, 1)
		o := p.Hit(&s, at, 1)
		if o.Event != Broke || o.Level != level || o.From != at || o.Until != later(at, lasts) {
			t.Errorf("offence at +%d: %+v, want level %d for %v", at-someTime, o, level, lasts)
		}
		if from, until, l, ok := s.Block(); from != o.From || until != o.Until || l != o.Level || !ok {
			t.Errorf("Block is %d %d %d %v", from, until, l, ok)
		}
		if lasts != Forever {
			at = o.Until
		}
	}
	offend(0, 1, 10*time.Second)
	offend(0, 2, time.Minute)
	offend(time.Minute-time.Millisecond, 3, time.Hour)
	offend(0, 4, time.Hour)
	offend(time.Minute, 1, 10*time.Second)

	p.block.Then = []time.Duration{Forever}
	offend(0, 2, Forever)
	if o := p.Hit(&s, MaxTime, 5); o.Event != Blocked || o.Until != Never {
		t.Errorf("for ever: %+v", o)
	}
	if got := p.Clear(&s); got != Never {
		t.Errorf("clear at %d, want never", got)
	}
}

func TestHitsThatCannotBeCounted(t *testing.T) {
	for _, a := range Algorithms() {
		p := mustNew(t, Config{Algorithm: a, Limits: []Limit{{1, time.Second}}, Block: Block{For: time.Second}, Late: math.MaxInt32 * time.Millisecond})
		var s State
		for _, at := range []int64{-1, math.MinInt64, MaxTime + 1, math.MaxInt64} {
			if o := p.Hit(&s, at, 1); o.Event != Late {
				t.Errorf("%v at %d: %+v", a, at, o)
			}
		}
		if o := p.Hit(&s, someTime, 0); o.Event != Counted || p.Count(&s, 0, someTime) != 0 || s.Newest() != 0 {
			t.Errorf("%v: a cost of nothing counts", a)
		}
		for _, at := range []int64{0, 1, MaxTime} {
			var s State
			if o := p.Hit(&s, at, 1); o.Event != Counted {
				t.Errorf("%v at %d: %+v", a, at, o)
			}
			if o := p.Hit(&s, at, 1); o.Event != Broke {
				t.Errorf("%v twice at %d: %+v", a, at, o)
			}
			if o := p.Hit(&s, MaxTime, math.MaxInt64/2); o.Event != Broke && o.Event != Blocked && o.Event != Moved {
				t.Errorf("%v with an enormous cost: %+v", a, o)
			}
		}
	}
}

func TestCount(t *testing.T) {
	for _, a := range Algorithms() {
		c := Config{Algorithm: a, Limits: []Limit{{1000, time.Minute}, {5000, time.Hour}}, Burst: 900, Subwindows: 6, Late: time.Minute, Block: Block{For: time.Second}}
		p := mustNew(t, c)
		var s State
		start := int64(someTime) / 3_600_000 * 3_600_000
		for i := range int64(30) {
			p.Hit(&s, start+i*1000, 2)
		}
		want := []int64{60, 60}
		if a == Token || a == Uniform || a == Leaky {
			want = []int64{2, 20} // what has not drained since
		}
		for i := range c.Limits {
			if n := p.Count(&s, i, start+29_000); n != want[i] {
				t.Errorf("%v, limit %d: %d hits, want %d", a, i, n, want[i])
			}
		}
		if n := p.Count(&s, 0, p.Clear(&s)); n != 0 {
			t.Errorf("%v: %d hits when clear", a, n)
		}
	}
}

// From Clear on, a state answers as one never hit.
func TestClear(t *testing.T) {
	r := random(t)
	for range 3000 {
		sc := randomScene(r, Algorithms()[r.IntN(int(algorithms))])
		p := mustNew(t, sc.config)
		var s, fresh State
		for _, m := range sc.hits {
			p.Hit(&s, m.at, m.cost)
		}
		at := p.Clear(&s)
		for range 30 {
			cost := 1 + r.Int64N(3)
			if got, want := p.Hit(&s, at, cost), p.Hit(&fresh, at, cost); got != want {
				t.Fatalf("%+v\nat %d: got %+v, want %+v", sc.config, at, got, want)
			}
			at += r.Int64N(1000)
		}
	}
}

func TestHitAllocatesNothing(t *testing.T) {
	for _, a := range Algorithms() {
		for _, hits := range []int64{10, 100_000} {
			p := mustNew(t, Config{Algorithm: a, Limits: []Limit{{hits, time.Minute}, {10 * hits, time.Hour}}, Late: time.Second, Block: Block{For: time.Second}})
			var s State
			at := int64(someTime)
			hit := func() {
				at += 7
				p.Hit(&s, at, 1)
				p.Hit(&s, at-5, 1)
			}
			for range 40_000 {
				hit()
			}
			if n := testing.AllocsPerRun(10_000, hit); n != 0 {
				t.Errorf("%v of %d: %v allocations a hit", a, hits, n)
			}
		}
	}
}

func TestAlgorithmNames(t *testing.T) {
	for _, a := range Algorithms() {
		if got, err := ParseAlgorithm(a.String()); got != a || err != nil {
			t.Errorf("%v reads back as %v, %v", a, got, err)
		}
	}
	if _, err := ParseAlgorithm("slidng"); err == nil || !strings.Contains(err.Error(), "sliding") {
		t.Errorf("an unknown name: %v", err)
	}
}

func TestTouchChangesNothing(t *testing.T) {
	p, err := New(Config{Limits: []Limit{{Hits: 3, Per: time.Minute}, {Hits: 1_000_000, Per: time.Hour}}, Late: time.Minute, Block: Block{For: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	var touched, other State
	for at := range int64(20) {
		p.Touch(&touched)
		if got, want := p.Hit(&touched, 1+1000*at, 1), p.Hit(&other, 1+1000*at, 1); got != want {
			t.Fatalf("%+v, want %+v", got, want)
		}
		if got, want := p.Append(nil, &touched), p.Append(nil, &other); !bytes.Equal(got, want) {
			t.Fatalf("%x, want %x", got, want)
		}
	}
}
