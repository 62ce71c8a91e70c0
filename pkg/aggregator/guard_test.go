package aggregator

import (
	"fmt"
	"testing"

	"weir/pkg/hit"
)

const guardedRules = `
guard: {most_new: 100/min}
rules:
  - {name: few, key: ip, limits: [4/10s], block: {for: 20s, then: [40s, 2m], forget: 10m}}
  - {name: many, key: user, limits: [30/min, 6/2s], block: {for: 1s, extend: true}, guard: {most_new: 100/min}}
`

const sharedRules = `
guard: {most_share: 20%}
rules:
  - {name: few, key: ip, limits: [4/10s], block: {for: 20s, then: [40s, 2m], forget: 10m}}
  - {name: many, key: user, limits: [30/min, 6/2s], block: {for: 1s, extend: true}, guard: {most_new: 100/min, most_share: 50%}}
`

// Which blocks are guarded is a function of the log, whatever is killed: a former owner's counts, and windows that have
// hits already which are read again, change nothing.
func TestGuardedWhateverIsKilled(t *testing.T) {
	seeds := uint64(40)
	if testing.Short() {
		seeds = 10
	}
	byNew, byShare, enforced := 0, 0, 0
	for seed := range 2 * seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			cold := newMemoryStore()
			l := newLab(t, seed, cold)
			l.rules, l.steady = []string{guardedRules, sharedRules}[seed%2], true
			l.hotKeys = []int{l.hotKeys, 1000}[seed/2%2]
			l.start(l.rules)
			var before *memoryPart
			l.torment(40, func() {
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
			for _, m := range l.list.arrived {
				if e := l.entry(m.Key, m.Value); e == nil {
					continue
				} else if e.ByShare {
					byShare++
				} else if e.Guarded {
					byNew++
				} else {
					enforced++
				}
			}
		})
	}
	if byNew == 0 || byShare == 0 || enforced == 0 {
		t.Errorf("%d guarded by most_new, %d by most_share, %d enforced", byNew, byShare, enforced)
	}
}

// In a log with full seconds, a key's hits of a second are one hit of a batch, where the first of them was. So the blocks
// of a batch may stand before the hits of other keys. These count all the same.
func TestKeysOfABatchCountBeforeItsBlocks(t *testing.T) {
	l := newLab(t, 1, newMemoryStore())
	l.rules = "rules: [{name: few, key: ip, limits: [4/10s], block: {for: 1h}, guard: {most_share: 5%}}]"
	l.start(l.rules)
	p := l.takes()
	now := l.newest().UnixMilli()
	const keys, blocked = 1000, 40 // 50 may be
	l.send("s", "few", func(w *hit.Writer) {
		for n := range keys {
			cost := int64(1)
			if n < blocked {
				cost = 5
			}
			w.Add(0, fmt.Appendf(nil, "198.18.%d.%d", n/250, n%250), now, cost)
		}
	})
	l.settle(p)
	l.compare(p)
	for n := range blocked {
		if e := l.said()[fmt.Sprintf("few/198.18.0.%d", n)]; e == nil || e.Guarded {
			t.Fatalf("block %d: %+v", n, e)
		}
	}
}
