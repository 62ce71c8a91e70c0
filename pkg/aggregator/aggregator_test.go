package aggregator

import (
	"testing"
	"time"

	"weir/pkg/blocklist"
)

func TestABrokenLimitIsOnTheList(t *testing.T) {
	s := newSite(t)
	s.begin()
	s.hits("a", "per-ip", "203.0.113.7", times(5)...)
	s.hits("a", "per-ip", "203.0.113.8", times(6)...)
	e := s.listed("203.0.113.8", func(e *blocklist.Entry) bool { return e.Ended == 0 })
	if e.Limit != "5/min" || e.Count != 6 || e.Level != 1 || e.Until-e.From != 600_000 || e.Fields["ip"] != "203.0.113.8" {
		t.Errorf("%+v", e)
	}
	s.drained()
	s.unblock("enforcer/1", "per-ip", "203.0.113.8")
	s.listed("203.0.113.8", func(e *blocklist.Entry) bool { return e.Ended != 0 })
	s.end()
	s.begin()
	s.hits("a", "per-ip", "203.0.113.7", time.Now())
	s.listed("203.0.113.7", func(e *blocklist.Entry) bool { return e.Count == 6 })
	s.drained()
}
