package aggregator

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"weir/pkg/blocklist"
	"weir/pkg/hit"
)

const guardedRules = `
guard: {most_new: 42/min}
rules:
  - {name: few, key: ip, limits: [4/10s], block: {for: 4m, then: [3m, 5m], forget: 10m}}
  - {name: many, key: user, limits: [30/min, 6/2s], block: {for: 1s, extend: true}, guard: {most_new: 100/min}}
`

const sharedRules = `
guard: {most_share: 50%}
rules:
  - {name: few, key: ip, limits: [4/10s], block: {for: 20s, then: [40s, 2m], forget: 10m}}
  - {name: many, key: user, limits: [30/min, 6/2s], block: {for: 1s, extend: true}, guard: {most_new: 100/min, most_share: 50%}}
`

// Which blocks are guarded is a function of the log, whatever is killed: a former owner's counts, and windows that have
// hits already which are read again, change nothing.
func TestGuardedWhateverIsKilled(t *testing.T) {
	seeds := uint64(20)
	if testing.Short() {
		seeds = 10
	}
	byNew, byShare, enforced, goneOn, refused := 0, 0, 0, 0, 0
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
			w := l.compare(p)
			goneOn, refused = goneOn+w.goneOn, refused+w.enforced
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
	t.Logf("%d guarded by most_new, %d by most_share, %d enforced; %d were guarded again, and %d enforced before they ended", byNew, byShare, enforced, goneOn, refused)
	if min(byNew, byShare, enforced, goneOn, refused) == 0 {
		t.Error("the traffic shows too little")
	}
	tormentOnStores(t, guardedRules)
}

// A key whose block is guarded counts again a minute later. When it breaks the limit while the guard holds, the entry stays
// as it is; when the guard no longer holds, the key is blocked, by an entry and with an event of its own, for as long as by a
// first block. A restart changes nothing of that, nor does a rule that was in shadow mode when the block began.
func TestAGuardedKeyThatGoesOnIsBlocked(t *testing.T) {
	const rules = "rules: [{name: few, key: ip, limits: [4/10s], mode: %s, block: {for: 1h, then: [24h]}, guard: {most_new: 1/min}}]"
	for _, first := range []string{"enforce", "shadow"} {
		t.Run(first, func(t *testing.T) {
			l := newLab(t, 1, newMemoryStore())
			begin := l.newest().UnixMilli()
			l.rules = fmt.Sprintf(rules, first)
			breaks := func(key string, seconds int64) *blocklist.Entry {
				l.kill()
				p := l.takes()
				l.clock = begin + seconds*1000
				l.send("s", "few", func(w *hit.Writer) { w.Add(0, []byte(key), l.clock, 5) })
				l.settle(p)
				return l.said()["few/"+key]
			}
			if e := breaks("192.0.2.1", 1); e.Guarded {
				t.Errorf("the first block: %+v", e)
			}
			guarded := *breaks("192.0.2.2", 2)
			l.rules = fmt.Sprintf(rules, "enforce")
			for _, seconds := range []int64{3, 61, 70, 129} {
				e := breaks("192.0.2.2", seconds)
				if guarded.Guarded, guarded.Mode = true, blocklist.Shadow; !reflect.DeepEqual(*e, guarded) {
					t.Errorf("after %d s: %+v, want %+v", seconds, e, guarded)
				}
			}
			e := breaks("192.0.2.2", 130)
			if e.Guarded || e.Mode != blocklist.Enforce || e.From != begin+130_000 || e.Until != e.From+3_600_000 || e.Level != 1 || e.ID == guarded.ID {
				t.Errorf("%+v", e)
			}
			begun := map[string]bool{}
			for _, m := range l.events.arrived {
				var of blocklist.Entry
				if err := json.Unmarshal(m.Value, &of); err != nil {
					t.Fatal(err)
				}
				if of.Key == "192.0.2.2" {
					begun[of.ID] = true
				}
			}
			if len(begun) != 2 || !begun[guarded.ID] || !begun[e.ID] {
				t.Errorf("events of %v, want of %s and %s", begun, guarded.ID, e.ID)
			}
		})
	}
}

// Blocks that the time decides are beyond a guard as others are, also if their keys sent nothing since the last owner.
func TestAGuardOfBlocksThatTimeDecides(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		l := newLab(t, 1, newMemoryStore())
		l.rules = "rules: [{name: errors, key: ip, share: {of: status == 404, over: 50%, least: 4, within: 10s, late: 4s}, block: {for: 10m}, guard: {most_new: 2/min}}, {name: few, key: ip, limits: [4/10s]}]"
		l.start(l.rules)
		p := l.takes()
		l.errorsOf("192.0.2.9", 4, 0)
		l.moveOn()
		l.settle(p)
		for n := range 4 {
			l.errorsOf(fmt.Sprint("192.0.2.", n), 4, 0)
		}
		l.settle(p)
		if restarts {
			l.kill()
			p = l.takes()
		}
		l.moveOn()
		l.settle(p)
		guarded := 0
		for n := range 4 {
			e := l.said()[fmt.Sprint("errors/192.0.2.", n)]
			if e == nil {
				t.Fatalf("192.0.2.%d is not blocked", n)
			}
			if e.Guarded {
				guarded++
			}
		}
		if guarded != 3 {
			t.Errorf("restarts %v: %d of four blocks are guarded, want 3 behind the second of the minute", restarts, guarded)
		}
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
