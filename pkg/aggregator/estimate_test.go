package aggregator

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"weir/pkg/blocklist"
	"weir/pkg/hit"
	"weir/pkg/window"
)

const estimateRules = labRules + `  - {name: scans, key: ip, distinct: path, limits: [5000/10s], late: 2s, block: {for: 20m}}
`

// newEstimateLab has a rule whose different values are estimated, and a key with so many of them.
func newEstimateLab(t *testing.T, different int) *lab {
	l := newLab(t, 1, onDisk(t))
	l.reload(estimateRules)
	l.rules = estimateRules
	l.scan("192.0.2.1", different)
	return l
}

// scan writes a cut of hits of one key with so many different values, each twice.
func (l *lab) scan(key string, different int) {
	l.t.Helper()
	scans, _ := parseRules(l.t, estimateRules).Rule("scans")
	l.sendValues("s", "scans", scans.ValuesOf(), func(w *hit.Writer) {
		for n := range 2 * different {
			w.AddValue(0, []byte(key), l.newest().UnixMilli()+int64(n%100), uint64(n/2))
		}
	})
}

func isScan(e *blocklist.Entry) bool {
	return e.Limit == "5000 different paths within 10 seconds" && e.Count > 5177 && e.Count < 6000 && e.Ended == 0
}

// A key with more different values is blocked when others have moved the time on, and not before, and once; one with many
// requests of fewer values is not, and nothing is left of what it waited for.
func TestEstimatesAreDecidedByTheTimeOfOthers(t *testing.T) {
	l := newEstimateLab(t, 5600)
	p := l.takes()
	l.scan("192.0.2.2", 4000)
	l.settle(p)
	if len(l.said()) > 0 {
		t.Fatalf("%+v", l.said())
	}
	l.now = l.newest().Add(time.Second)
	s, err := p.keyStatus("scans", "192.0.2.2", nil)
	if err != nil || s.Limits[0].Count < 3800 || s.Limits[0].Count > 4200 || !s.Limits[0].Estimate {
		t.Errorf("%+v, %v", s, err)
	}
	l.moveOn()
	l.settle(p)
	l.want("scans/192.0.2.1", isScan)
	if e := l.said()["scans/192.0.2.2"]; e != nil {
		t.Errorf("%+v", e)
	}
	if w, _ := p.windows.FindNamed("scans/192.0.2.2"); w == nil || w.Verdict != nil || w.Rule.Policy.Due(&w.State) != window.Never {
		t.Errorf("it is not decided that there is no block: %+v", w)
	}
	entries := len(l.list.arrived)
	l.moveOn()
	l.settle(p)
	for _, e := range l.list.arrived[entries:] {
		if strings.HasPrefix(string(e.Key), "scans/") {
			t.Errorf("%s came twice", e.Key)
		}
	}
	if err := p.windows.FindNoted(t.Context()); err != nil || p.windows.Finds() {
		t.Errorf("a note is left: %v", err)
	}
}

// The next owner decides what the last one had stored and not decided, with the same seed; and publishes again what that one
// had decided, when Kafka does not have it.
func TestEstimatesAreDecidedByTheNextOwner(t *testing.T) {
	l := newEstimateLab(t, 5600)
	p := l.takes()
	l.settle(p)
	seed := l.agg.seed
	l.kill()
	p = l.takes()
	l.settle(p)
	if len(l.said()) > 0 || l.agg.seed != seed {
		t.Fatalf("%+v", l.said())
	}
	l.moveOn()
	for range 200 { // nothing arrives
		l.turn(p)
	}
	if len(l.list.waiting) == 0 {
		t.Fatal("it is not decided")
	}
	l.list.lose(0)
	l.kill()
	p = l.takes()
	l.settle(p)
	l.want("scans/192.0.2.1", isScan)
}

// Values are hashed with the seed, so that no client knows which count for many; but for those that it does not know anyway.
func TestSeedsOfEstimates(t *testing.T) {
	states := func(rules string, seed uint64) []byte {
		ruling, err := newRuling(parseRules(t, rules), labLate, seed)
		if err != nil {
			t.Fatal(err)
		}
		policy := ruling.policies[len(ruling.policies)-1]
		var s window.State
		for value := range uint64(100) {
			policy.HitValue(&s, 1_700_000_000_000, value)
		}
		return policy.Append(nil, &s)
	}
	if bytes.Equal(states(estimateRules, 1), states(estimateRules, 2)) {
		t.Error("the seed changes nothing")
	}
	hidden := "secret_file: ../rule/testdata/hash.key\n" + estimateRules
	if !bytes.Equal(states(hidden, 1), states(hidden, 2)) {
		t.Error("values of a secret are hashed with the seed")
	}
}

// A store that lost all of its data while an aggregator ran has windows by the seed of before, and the next start has another
// seed. A key that then asks for the same values again has no more of them.
func TestEstimatesOfAStoreThatLostItsSeed(t *testing.T) {
	memory := newMemoryStore()
	l := newLab(t, 1, memory)
	l.reload(estimateRules)
	l.rules = estimateRules
	p := l.takes()
	l.scan("192.0.2.1", 3500)
	l.settle(p)
	seed := l.agg.seed
	delete(memory.agreed, "guard.seed")
	l.kill()
	p = l.takes()
	if l.agg.seed == seed {
		t.Fatal("the seed is the same")
	}
	l.scan("192.0.2.1", 3500)
	l.settle(p)
	l.moveOn()
	l.settle(p)
	if e := l.said()["scans/192.0.2.1"]; e != nil {
		t.Errorf("%+v", e)
	}
}
