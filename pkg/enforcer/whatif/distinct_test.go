package whatif_test

import (
	"fmt"
	"testing"

	"weir/internal/topic"
	"weir/pkg/enforcer/whatif"
	"weir/pkg/hit"
	"weir/pkg/rule"
	"weir/test/running"
)

// Other limits of a rule that counts different values are of different values too. Hits with values of something else are
// left out.
func TestOtherLimitsOfDifferentValues(t *testing.T) {
	s := newStand(t)
	var err error
	if s.rules, _, err = rule.Parse("rules.yaml", []byte("rules: [{name: paths, key: ip, distinct: path, limits: [10/min]}]")); err != nil {
		t.Fatal(err)
	}
	of := s.rules.ValuesOf()
	send := func(of uint64, keys ...string) {
		var batches []topic.Message
		for number := range s.topic.Partitions {
			w := hit.NewWriter()
			w.ResetValues([]string{"paths"}, []uint64{of})
			for n, key := range keys {
				if hit.Partition("paths", []byte(key), s.topic.Partitions) != number {
					continue
				}
				for value := range 6 + 10*n { // each twice
					w.AddValue(0, []byte(key), running.Eight+int64(value), uint64(value))
					w.AddValue(0, []byte(key), running.Eight+int64(value), uint64(value))
				}
			}
			b, err := w.Append(nil, hit.Header{Source: fmt.Sprint("log of ", of), From: s.at, To: s.at + 1, Clock: running.Eight + 100, Fingerprint: s.rules.Fingerprint()})
			if err != nil {
				t.Fatal(err)
			}
			batches = append(batches, topic.Message{Partition: number, Value: b})
		}
		s.at++
		if err := s.topic.Put(t.Context(), batches...); err != nil {
			t.Fatal(err)
		}
	}
	send(of[0], "192.0.2.1", "192.0.2.2")
	send(of[0]+1, "192.0.2.3", "192.0.2.4")

	for limits, want := range map[string][2]int{"5/min": {1, 2}, "6/min": {1, 1}, "16/min": {1, 0}} {
		a := s.ask("paths", limits)
		if a.Keys != 2 || a.Hits != 44 || a.Now.Blocked != want[0] || a.Other.Blocked != want[1] {
			t.Errorf("%s: %+v", limits, a)
		}
		if len(a.Notes) == 0 || !hasNote(a, "44 hits are left out: they are from before the rule counted what it counts now.") {
			t.Errorf("%v", a.Notes)
		}
	}
}

func hasNote(a *whatif.Answer, note string) bool {
	for _, one := range a.Notes {
		if one == note {
			return true
		}
	}
	return false
}
