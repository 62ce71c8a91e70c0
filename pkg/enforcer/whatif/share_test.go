package whatif_test

import (
	"fmt"
	"testing"

	"weir/internal/topic"
	"weir/pkg/hit"
	"weir/pkg/rule"
	"weir/test/running"
)

// Another limit of a share is how many requests it needs, and within which time. A block comes also for a key that sends
// nothing more, when others have moved the time on.
func TestOtherLimitsOfAShare(t *testing.T) {
	s := newStand(t)
	var err error
	if s.rules, _, err = rule.Parse("rules.yaml", []byte("rules: [{name: errors, key: ip, share: {of: status == 404, over: 50%, least: 10, within: 1m, late: 1m}}]")); err != nil {
		t.Fatal(err)
	}
	var batches []topic.Message
	for number := range s.topic.Partitions {
		w := hit.NewWriter()
		w.ResetValues([]string{"errors"}, s.rules.ValuesOf())
		for last := range 30 {
			key := fmt.Appendf(nil, "192.0.2.%d", last)
			if hit.Partition("errors", key, s.topic.Partitions) != number {
				continue
			}
			for n := range int64(last) {
				w.AddValue(0, key, running.Eight+n, 1)
			}
			w.AddValue(0, key, running.Eight+120_000, 0)
		}
		b, err := w.Append(nil, hit.Header{Source: "log", From: s.at, To: s.at + 1, Clock: running.Eight + 120_000, Fingerprint: s.rules.Fingerprint()})
		if err != nil {
			t.Fatal(err)
		}
		batches = append(batches, topic.Message{Partition: number, Value: b})
	}
	s.at++
	if err := s.topic.Put(t.Context(), batches...); err != nil {
		t.Fatal(err)
	}

	a := s.ask("errors", "20/min")
	if a.Keys != 30 || a.Now.Blocked != 20 || a.Other.Blocked != 10 {
		t.Errorf("%+v", a)
	}
}
