package aggregator

import "testing"

// A partition waits longer for hits when nothing happened for ten seconds, and as before with the first hit.
func TestAnIdlePartitionIsPatient(t *testing.T) {
	l := newLab(t, 1, newMemoryStore())
	p := l.takes()
	for range 3 {
		l.hits("192.0.2.1", 5)
		for range 20 { // 6 s
			l.turn(p)
			if l.log.patient {
				t.Fatalf("patient at %s", l.now)
			}
			l.list.deliver(len(l.list.waiting))
			l.events.deliver(len(l.events.waiting))
		}
		l.settle(p)
		for range 100 {
			l.turn(p)
		}
		if !l.log.patient {
			t.Fatalf("not patient at %s: %+v", l.now, p.shown.Load())
		}
	}
}
