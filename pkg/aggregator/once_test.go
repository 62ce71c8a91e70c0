package aggregator

import (
	"fmt"
	"testing"
	"time"
)

// A block for ever is published once: not again by a walk that goes on, by its own record coming back, or by more hits.
func TestABlockForEverIsPublishedOnce(t *testing.T) {
	s := newSite(t)
	s.rules = parseRules(t, "rules:\n  - {name: per-ip, key: ip, limits: [5/min], block: {for: forever}}\n")
	s.hits("a", "per-ip", "192.0.2.1", times(8)...) // before the partition is taken
	s.begin()
	s.eventually("the walks are over", func() error {
		for n := range sitePartitions {
			if p := s.agg.owner(n); p == nil || p.shown.Load() == nil {
				return fmt.Errorf("partition %d is not taken", n)
			}
		}
		_, marks := s.records()
		if len(marks) < sitePartitions {
			return fmt.Errorf("%d marks", len(marks))
		}
		return nil
	})
	s.hits("a", "per-ip", "192.0.2.1", times(8)...)
	s.drained()
	s.hits("a", "per-ip", "192.0.2.1", times(8)...)
	s.drained()
	time.Sleep(1500 * time.Millisecond) // for what comes again
	entries, _ := s.records()
	if len(entries) != 1 {
		for _, e := range entries {
			t.Logf("%+v", *e)
		}
		t.Errorf("published %d times", len(entries))
	}
}
