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
