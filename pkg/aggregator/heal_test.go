package aggregator

import (
	"testing"
	"time"

	"weir/internal/topic"
	"weir/pkg/blocklist"
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
	p.own.Store = &halting{Store: l.store}
	l.late(p, string(late.Key), e)
	l.turn(p)
	if !p.outage.lasts() {
		t.Fatal("the store was not away")
	}
	p.own.Store = l.store
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

// partial is a record of the list as an owner wrote it that had counted only a part of the batch when it was stopped.
func (l *lab) partial(record topic.Message) topic.Message {
	l.t.Helper()
	e := l.entry(record.Key, record.Value)
	e.Limit, e.From, e.Count = "100/hour", e.From-1000, e.Count+96
	value, err := e.Append(nil)
	if err != nil {
		l.t.Fatal(err)
	}
	return topic.Message{Key: record.Key, Value: value}
}

// A record that the same batch led to, and that says something else, is an older one.
func TestARecordOfPartOfABatchIsHealed(t *testing.T) {
	l := newLab(t, 1, newMemoryStore())
	p := l.takes()
	l.hits("192.0.2.1", 5)
	l.settle(p)
	late := l.partial(l.list.arrived[0])
	l.list.arrived = append(l.list.arrived, late)
	l.late(p, string(late.Key), l.entry(late.Key, late.Value))
	l.settle(p)
	l.want("few/192.0.2.1", func(e *blocklist.Entry) bool { return e.Limit == "4/10s" && e.Count == 5 })
	sent := len(l.list.arrived)
	own := l.list.arrived[sent-1]
	l.late(p, string(own.Key), l.entry(own.Key, own.Value))
	l.settle(p)
	if len(l.list.arrived) != sent {
		t.Error("the owner's own record has it publish again")
	}
}

// Records of a former owner that come while the partition has no owner are healed by the next one.
func TestRecordsFromBeforeTheTakeoverAreHealed(t *testing.T) {
	for name, late := range map[string]func(*lab) topic.Message{
		"of part of a batch": func(l *lab) topic.Message { return l.partial(l.list.arrived[0]) },
		"of before its end": func(l *lab) topic.Message {
			late := l.list.arrived[0]
			l.unblock("192.0.2.1")
			return late
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 1, onDisk(t))
			p := l.takes()
			l.hits("192.0.2.1", 5)
			l.settle(p)
			record := late(l)
			l.settle(p)
			want, _ := l.last(0, "few/192.0.2.1")
			l.list.arrived = append(l.list.arrived, record)
			l.start(labRules)
			l.settle(l.takes())
			if e, _ := l.last(0, "few/192.0.2.1"); e.Limit != want.Limit || e.Count != want.Count || e.Ended != want.Ended {
				t.Errorf("the last record is %+v, want %+v", e, want)
			}
		})
	}
}

// Where more than can be read came before the takeover, all that is live is published again.
func TestALongListBeforeTheTakeoverIsPublishedAgain(t *testing.T) {
	l := newLab(t, 1, onDisk(t))
	p := l.takes()
	l.hits("192.0.2.1", 5)
	l.settle(p)
	late := l.partial(l.list.arrived[0])
	for range 10_000 + 1 {
		l.list.arrived = append(l.list.arrived, late)
	}
	l.start(labRules)
	l.settle(l.takes())
	l.want("few/192.0.2.1", func(e *blocklist.Entry) bool { return e.Limit == "4/10s" && e.Count == 5 })
}
