package aggregator

import (
	"testing"
	"time"
)

// The store goes away just when a record of another, which came late, is to be published over: it is when the store is
// back.
func TestALateRecordOfAnotherIsHealedWhenTheStoreIsBack(t *testing.T) {
	l := newLab(t, 1, newMemoryStore())
	p := l.takes()
	l.hits("192.0.2.1", 5)
	l.settle(p)
	late := l.list.arrived[0]
	l.unblock("192.0.2.1")
	l.settle(p)
	l.crowd(p)
	l.settle(p)
	l.list.arrived = append(l.list.arrived, late)
	e := l.entry(late.Key, late.Value)
	p.own.store = &halting{Store: l.store}
	p.heals <- superseded{string(late.Key), e.Generation, e.Offset}
	l.turn(p)
	if !p.storeRests() {
		t.Fatal("the store was not away")
	}
	p.own.store = l.store
	l.now = l.now.Add(time.Second)
	sent := len(l.list.arrived)
	for range 5 {
		l.turn(p)
	}
	l.settle(p)
	if e, ok := l.last(sent, "few/192.0.2.1"); !ok || e.Ended == 0 {
		t.Errorf("the last record is %+v", e)
	}
}
