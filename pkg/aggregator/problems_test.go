package aggregator

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/pkg/hit"
)

// The status shows for an hour that hits of a batch were not counted, as those of a second collector with the same folder.
func TestBatchesThatAreLeftOutAreShown(t *testing.T) {
	l := newLab(t, 1, newMemoryStore())
	l.start(labRules)
	p := l.takes()
	l.now = l.newest()
	l.hits("192.0.2.1", 1)
	if l.settle(p); p.shown.Load().Problem != "" {
		t.Fatal(p.shown.Load().Problem)
	}

	l.sources["s"] -= 5
	l.hits("192.0.2.1", 1)
	if l.settle(p); !strings.Contains(p.shown.Load().Problem, "it contradicts what was counted of its source") {
		t.Errorf("the problem is %q", p.shown.Load().Problem)
	}
	l.now = l.now.Add(2 * time.Hour)
	if l.turn(p); p.shown.Load().Problem != "" {
		t.Errorf("two hours later: %s", p.shown.Load().Problem)
	}
}

// A clock that was a year ahead for a moment is reported until that time has come. The keys of other hits stay in memory.
func TestAClockThatWasAhead(t *testing.T) {
	l := newLab(t, 1, newMemoryStore())
	l.start(labRules)
	p := l.takes()
	count := func(key string, at time.Time) {
		l.send("s", "few", func(w *hit.Writer) { w.Add(0, []byte(key), at.UnixMilli(), 1) })
		l.settle(p)
	}
	right := l.now
	l.now = right.AddDate(1, 0, 0)
	l.clock = l.now.UnixMilli()
	if count("192.0.2.1", l.now); p.shown.Load().Problem != "" {
		t.Errorf("with the wrong clock: %s", p.shown.Load().Problem)
	}

	l.now, l.logTime = right, right
	l.clock = right.UnixMilli()
	for n := range 10 {
		count(fmt.Sprint("192.0.2.", 2+n), l.now)
	}
	if text := p.shown.Load().Problem; !strings.Contains(text, "still to come: a clock was wrong") {
		t.Errorf("the problem is %q", text)
	}
	if p.windows.Len() != 11 {
		t.Errorf("%d keys are in memory, not 11", p.windows.Len())
	}
	l.now = right.AddDate(1, 0, 1)
	if l.turn(p); p.shown.Load().Problem != "" {
		t.Errorf("a year later: %s", p.shown.Load().Problem)
	}
}

// While the aggregator's own clock is behind, the problem names that clock.
func TestAClockThatIsBehind(t *testing.T) {
	l := newLab(t, 1, newMemoryStore())
	l.start(labRules)
	p := l.takes()
	l.now = l.newest().Add(-time.Hour)
	l.hits("192.0.2.1", 1)
	l.settle(p)
	if text := p.shown.Load().Problem; !strings.Contains(text, "still to come: the clock of this machine is behind, or") {
		t.Errorf("the problem is %q", text)
	}
	l.now = l.newest()
	if l.turn(p); p.shown.Load().Problem != "" {
		t.Errorf("with the right clock: %s", p.shown.Load().Problem)
	}
}

// Hits of a collector whose clock is ahead of the time of their record leave no key with hits of a time to come, neither
// after a crash: what the key sends next counts.
func TestHitsAheadOfTheirRecordDoNotCount(t *testing.T) {
	for name, crash := range map[string]bool{"counted once": false, "read again after a crash": true} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 1, newMemoryStore())
			l.start(labRules)
			p := l.takes()
			right := l.newest()
			l.now, l.logTime = right, right
			l.clock = right.Add(3 * time.Hour).UnixMilli()
			l.send("ahead", "few", func(w *hit.Writer) { w.Add(0, []byte("192.0.2.1"), l.clock, 1) })
			l.settle(p)
			if text := p.shown.Load().Problem; !strings.Contains(text, "ahead: the collector's clock was ahead of the log's time by 3h0m0s") {
				t.Errorf("the problem is %q", text)
			}
			if crash {
				l.kill()
				p = l.takes()
			}

			l.clock = 0
			l.send("s", "few", func(w *hit.Writer) { w.Add(0, []byte("192.0.2.1"), right.Add(labLate).UnixMilli(), 1) })
			l.send("s", "few", func(w *hit.Writer) {
				for n := range int64(6) {
					w.Add(0, []byte("192.0.2.1"), right.UnixMilli()+n, 1)
				}
			})
			l.settle(p)
			if e := l.said()["few/192.0.2.1"]; e == nil || e.From != right.UnixMilli()+4 {
				t.Errorf("the key's entry is %+v", e)
			}
			if reached := p.counter.reached; reached > right.Add(labLate).UnixMilli() {
				t.Errorf("the partition's time is %v, and that of its records %v", time.UnixMilli(reached).UTC(), right)
			}
		})
	}
}

// An unblock has a key begin at zero, also one whose hits are of a time to come.
func TestAnUnblockForgetsHitsOfATimeToCome(t *testing.T) {
	l := newLab(t, 1, newMemoryStore())
	l.start(labRules)
	p := l.takes()
	right := l.newest()
	hits := func(at int64) {
		l.clock = at
		l.send("s", "few", func(w *hit.Writer) {
			for n := range int64(5) {
				w.Add(0, []byte("192.0.2.1"), at+n, 1)
			}
		})
		l.settle(p)
	}
	ahead := right.Add(30 * time.Minute).UnixMilli()
	hits(ahead)
	if e := l.said()["few/192.0.2.1"]; e == nil || e.From != ahead+4 {
		t.Fatalf("with the wrong clock: %+v", e)
	}

	l.now = right
	l.send("enforcer", "few", func(w *hit.Writer) { w.Unblock(0, []byte("192.0.2.1"), right.UnixMilli(), "order") })
	hits(right.UnixMilli() + 1000)
	if e := l.said()["few/192.0.2.1"]; e == nil || e.From != right.UnixMilli()+1004 || e.Ended != 0 {
		t.Errorf("after the unblock: %+v", e)
	}
}

// Two installations with one prefix and one store would count their hits together, and take partitions from each other.
// One of them stops, and says why; a store that loses writes is none.
func TestAStoreThatAnotherInstallationUses(t *testing.T) {
	l := newLab(t, 1, newMemoryStore())
	ours := l.takes()
	for range 3 * mostContests {
		if ours.contested(t.Context()) {
			t.Fatal("no other has taken the partition")
		}
	}

	other := l.partition()
	for times := 1; times <= mostContests; times++ {
		if err := other.take(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := ours.contested(t.Context()); got != (times == mostContests) {
			t.Fatalf("the other one took it %d times: %t", times, got)
		}
		if times < mostContests {
			if err := ours.take(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}
