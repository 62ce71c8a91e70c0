package aggregator

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/pkg/aggregator/windows"
	"weir/pkg/blocklist"
)

func (l *lab) reload(text string) {
	l.t.Helper()
	if err := l.agg.Reload(parseRules(l.t, text)); err != nil {
		l.t.Fatal(err)
	}
}

// others writes cuts of one hit each, of so many other keys.
func (l *lab) others(count int) {
	l.t.Helper()
	for n := range count {
		l.hits(fmt.Sprint("198.51.100.", n), 1)
	}
}

// ending is a partition with the entries of a rule on the way to Kafka as ended: 192.0.2.1 is in memory, 192.0.2.2 in
// the store.
func (l *lab) ending() *partition {
	l.t.Helper()
	p := l.takes()
	l.log.most = 1000
	l.hits("192.0.2.1", 5)
	l.hits("192.0.2.2", 5)
	l.settle(p)
	l.crowd(p)
	l.settle(p)
	l.hits("192.0.2.1", 1)
	l.settle(p)
	l.reload(strings.Replace(labRules, "few", "fewer", 1))
	for range 5 {
		l.turn(p)
	}
	if n := l.ended(); n != 2 || !p.windows.Has("few/192.0.2.1") || p.windows.Has("few/192.0.2.2") {
		l.t.Fatalf("%d entries end; in memory are %d windows", n, p.windows.Len())
	}
	return p
}

// ended is how many entries are on the way to Kafka as ended.
func (l *lab) ended() (n int) {
	for _, m := range l.list.waiting {
		if e := l.entry(m.Key, m.Value); e != nil && e.Ended != 0 {
			n++
		}
	}
	return n
}

func (l *lab) deliver() {
	l.list.deliver(len(l.list.waiting))
	l.events.deliver(len(l.events.waiting))
}

// counted has a key hit, pushed out, read again and hit: all hits have to be in its window.
func (l *lab) counted(p *partition) {
	l.t.Helper()
	l.others(150) // its block is over by then
	l.hits("192.0.2.1", 4)
	l.turn(p)
	l.settle(p)
	l.others(2 * windows.SmallestSize)
	l.turn(p)
	l.settle(p)
	l.hits("192.0.2.1", 1)
	l.settle(p)
	l.want("few/192.0.2.1", func(e *blocklist.Entry) bool { return e.Ended == 0 && e.Count == 5 && e.Level == 2 })
}

// A rule that is back before its entries are ended in the store, which is away just then: meanwhile a key's window is
// pushed out, read again and counts. The window that was in memory before is not written over it.
func TestEntriesAreEndedLateWhenTheStoreWasAway(t *testing.T) {
	l := newLab(t, 1, newMemoryStore())
	p := l.ending()
	l.reload(labRules)
	l.deliver()
	p.own.Store = &halting{Store: l.store}
	l.turn(p)
	if !p.outage.lasts() {
		t.Fatal("the store was not away when the entries were to be ended")
	}
	p.own.Store = l.store
	l.now = l.now.Add(time.Second)
	l.counted(p)
}

// The same while Kafka takes its time with the ends.
func TestEntriesAreEndedLateWhenKafkaWasSlow(t *testing.T) {
	l := newLab(t, 1, newMemoryStore())
	p := l.ending()
	l.reload(labRules)
	l.counted(p)
}

// A rule that was back for a while before its entries are ended: what it has counted then, and the store has, stays.
func TestEntriesAreEndedLateWhenTheirRuleIsGoneAgain(t *testing.T) {
	l := newLab(t, 1, newMemoryStore())
	p := l.ending()
	l.reload(labRules)
	l.others(150)
	l.hits("192.0.2.1", 4)
	l.hits("192.0.2.2", 4)
	l.turn(p)
	l.crowd(p)
	l.reload(strings.Replace(labRules, "few", "fewer", 1))
	l.turn(p)
	l.settle(p)
	l.reload(labRules)
	for _, key := range []string{"192.0.2.1", "192.0.2.2"} {
		l.hits(key, 1)
		l.settle(p)
		l.want("few/"+key, func(e *blocklist.Entry) bool { return e.Ended == 0 && e.Count == 5 && e.Level == 2 })
	}
}
