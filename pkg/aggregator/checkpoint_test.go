package aggregator

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/pkg/aggregator/windows"
	"weir/pkg/hit"
)

// As pkg/aggregator/windows has them.
const (
	checkpointEvery  = 2 * time.Second
	checkpointLatest = 10 * time.Second
	fewCalls         = 4
	manyHits         = 50
)

// changing has so many windows changed by hits of so many instants each, in one batch that is counted by one turn.
func (l *lab) changing(p *partition, keys, hits int) {
	l.t.Helper()
	l.send("s", "many", func(w *hit.Writer) {
		for n := range keys {
			for i := range hits {
				w.Add(0, fmt.Appendf(nil, "198.51.%d.%d", n/250, n%250), l.newest().UnixMilli()+int64(7000*i), 1)
			}
		}
	})
	l.turn(p)
}

// checkpointAfter is how long after the last checkpoint was written the next is taken, while so many windows change by so
// many hits each with every turn.
func (l *lab) checkpointAfter(p *partition, windows, hits int) time.Duration {
	l.t.Helper()
	_, begun := p.saver.Stored()
	written := p.windows.Written()
	for range 100 {
		l.changing(p, windows, hits)
		if p.windows.Written() != written { // only for a checkpoint
			return l.now.Sub(begun)
		}
	}
	l.t.Fatal("no checkpoint is taken")
	return 0
}

// caughtUp is a partition whose checkpoint was written just now, with room for so many windows. A call of the store
// writes four.
func caughtUp(t *testing.T, hotKeys int) (*lab, *partition) {
	t.Helper()
	l := newLab(t, 1, newMemoryStore())
	l.hotKeys = hotKeys
	l.start(labRules)
	p := l.takes()
	l.settle(p)
	p.windows.WriteKeys = 4
	l.save(p)
	return l, p
}

func TestCheckpointsWaitWhileManyWindowsChange(t *testing.T) {
	const turn = 300 * time.Millisecond
	nothing := func(*lab, *partition) {}
	for name, test := range map[string]struct {
		hotKeys, windows, hits int
		awaits                 func(*lab, *partition)
		from                   time.Duration
	}{
		"many windows":             {1000, 300, 1, nothing, checkpointLatest},
		"few windows":              {1000, fewCalls * 4, 1, nothing, checkpointEvery},
		"one more":                 {1000, fewCalls*4 + 1, 1, nothing, checkpointLatest},
		"many hits a window":       {1000, 300, manyHits / 10, nothing, 10 * turn},
		"windows that are evicted": {100, 300, 1, nothing, checkpointEvery},
		"verdicts to be published again": {1000, 300, 1, func(_ *lab, p *partition) {
			p.publisher.Skipped(&windows.Window{Name: "many/192.0.2.1", Verdict: &windows.Verdict{Listed: true}})
		}, checkpointEvery},
		"a walk over what is written": {1000, 300, 1, func(l *lab, _ *partition) {
			l.reload(strings.Replace(labRules, "name: few,", "name: few, mode: shadow,", 1))
		}, checkpointEvery},
	} {
		t.Run(name, func(t *testing.T) {
			l, p := caughtUp(t, test.hotKeys)
			test.awaits(l, p)
			if after := l.checkpointAfter(p, test.windows, test.hits); after < test.from || after >= test.from+turn {
				t.Errorf("it is taken after %v, want %v", after, test.from)
			}
		})
	}
}

func TestACheckpointWaitsForNothingWhenThereIsNothingToCount(t *testing.T) {
	l, p := caughtUp(t, 1000)
	l.changing(p, 300, 1)
	if p.windows.Dirty() != 300 {
		t.Fatalf("a checkpoint is taken, and %d windows wait", p.windows.Dirty())
	}
	l.turn(p)
	if checkpointOf(p).Offset != p.position.At().Offset || p.windows.Dirty() != 0 {
		t.Errorf("the checkpoint is at %d of %d, and %d windows wait", checkpointOf(p).Offset, p.position.At().Offset, p.windows.Dirty())
	}
}

// Hits that were counted before the last checkpoint was taken make the next one no sooner.
func TestHitsAreManySinceTheLastCheckpoint(t *testing.T) {
	l, p := caughtUp(t, 1000)
	l.changing(p, 300, manyHits)
	l.turn(p)
	if after := l.checkpointAfter(p, 300, 1); after < checkpointLatest {
		t.Errorf("it is taken after %v", after)
	}
}
