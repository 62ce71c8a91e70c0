package aggregator

import (
	"fmt"
	"testing"
)

const guardedRules = `
guard: {most_new: 100/min}
rules:
  - {name: few, key: ip, limits: [4/10s], block: {for: 20s, then: [40s, 2m], forget: 10m}}
  - {name: many, key: user, limits: [30/min, 6/2s], block: {for: 1s, extend: true}, guard: {most_new: 100/min}}
`

// Which blocks are guarded is a function of the log, whatever is killed: a former owner's counts, and windows that have
// hits already which are read again, change nothing.
func TestGuardedWhateverIsKilled(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 10
	}
	guarded, enforced := 0, 0
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			cold := newMemoryStore()
			l := newLab(t, seed, cold)
			l.rules, l.steady = guardedRules, true
			l.hotKeys = []int{l.hotKeys, 1000}[seed%2]
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
				} else if e.Guarded {
					guarded++
				} else {
					enforced++
				}
			}
		})
	}
	if guarded == 0 || enforced == 0 {
		t.Errorf("%d guarded, %d enforced", guarded, enforced)
	}
}
