package whatif_test

import (
	"fmt"
	"testing"

	"weir/internal/topic"
	"weir/pkg/hit"
	"weir/pkg/rule"
	"weir/test/running"
)

// Another limit may be of an estimate, and of a rule with an estimate it may be exact. A block of an estimate comes also for a
// key that sends nothing more, when others have moved the time on.
func TestOtherLimitsThatAreEstimates(t *testing.T) {
	for limit, other := range map[string]string{"100/min": "5000/min", "5000/min": "100/min"} {
		s := newStand(t)
		var err error
		if s.rules, _, err = rule.Parse("rules.yaml", fmt.Appendf(nil, "rules: [{name: paths, key: ip, distinct: path, limits: [%s]}]", limit)); err != nil {
			t.Fatal(err)
		}
		different := map[string]uint64{"192.0.2.1": 5600, "192.0.2.2": 4800, "192.0.2.3": 50}
		var batches []topic.Message
		for number := range s.topic.Partitions {
			w := hit.NewWriter()
			w.ResetValues([]string{"paths"}, s.rules.ValuesOf())
			for key, most := range different {
				for value := range most {
					if hit.Partition("paths", []byte(key), s.topic.Partitions) == number {
						w.AddValue(0, []byte(key), running.Eight+int64(value%1000), value)
					}
				}
			}
			for last := range 30 { // these move the time on
				key := fmt.Appendf(nil, "198.51.100.%d", last)
				if hit.Partition("paths", key, s.topic.Partitions) == number {
					w.AddValue(0, key, running.Eight+3_600_000, 0)
				}
			}
			b, err := w.Append(nil, hit.Header{Source: "log", From: s.at, To: s.at + 1, Clock: running.Eight + 3_600_000, Fingerprint: s.rules.Fingerprint()})
			if err != nil {
				t.Fatal(err)
			}
			batches = append(batches, topic.Message{Partition: number, Value: b})
		}
		s.at++
		if err := s.topic.Put(t.Context(), batches...); err != nil {
			t.Fatal(err)
		}

		a := s.ask("paths", other)
		exact, estimated := a.Now.Blocked, a.Other.Blocked
		if limit == "5000/min" {
			exact, estimated = estimated, exact
		}
		if exact != 2 || estimated != 1 {
			t.Errorf("%s, and %s: %+v", limit, other, a)
		}
	}
}
