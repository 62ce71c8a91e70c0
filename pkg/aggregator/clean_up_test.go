package aggregator

import (
	"encoding/binary"
	"testing"
	"time"

	"weir/internal/store"
	"weir/internal/varint"
	"weir/pkg/aggregator/publishing"
	"weir/pkg/hit"
)

// nulls is how many records without a value the list has of a name, and whether one of them is its last.
func (l *lab) nulls(name string) (count int, last bool) {
	for _, m := range l.list.arrived {
		if string(m.Key) == name {
			if last = m.Value == nil; last {
				count++
			}
		}
	}
	return count, last
}

// hitsNow writes hits by the clock on the wall.
func (l *lab) hitsNow(key string, count int) {
	l.t.Helper()
	l.writer.Reset([]string{"few"})
	l.writer.Add(0, []byte(key), l.now.UnixMilli(), int64(count))
	value, err := l.writer.Append(nil, hit.Header{Source: "now", From: 0, To: 10, Clock: l.now.UnixMilli()})
	if err != nil {
		l.t.Fatal(err)
	}
	l.logTime = l.now
	l.append(value)
	l.logTime = time.Time{}
}

func (l *lab) indexed(p *partition) int {
	l.t.Helper()
	page, err := p.own.Scan(l.t.Context(), store.Index, "", 100)
	if err != nil {
		l.t.Fatal(err)
	}
	return len(page.Pairs)
}

// A list that is compacted forgets what has long been over: what ran out, what was lifted, and what is of a rule that is
// gone.
func TestOldRecordsAreForgotten(t *testing.T) {
	l := newLab(t, 1, onDisk(t))
	l.now = l.newest()
	p := l.takes()
	l.hits("192.0.2.1", 5)
	l.hits("192.0.2.2", 5)
	l.unblock("192.0.2.2")
	l.settle(p)
	l.now = l.now.Add(time.Hour / 2)
	if err := p.own.Write(t.Context(), []store.Change{{Space: store.Notes, Key: []byte(publishing.NoteKey)}}); err != nil {
		t.Fatal(err)
	}
	l.start(labRules)
	p = l.takes() // the list has to be walked through: there is no note of the last walk
	l.settle(p)
	if n, _ := l.nulls("few/192.0.2.1"); n != 0 || l.indexed(p) != 2 {
		t.Errorf("%d nulls after half of the time, %d in the index", n, l.indexed(p))
	}
	l.now = l.now.Add(7 * time.Hour)
	l.settle(p)
	for range 20 {
		l.turn(p)
		l.list.deliver(len(l.list.waiting))
	}
	l.settle(p)
	for _, name := range []string{"few/192.0.2.1", "few/192.0.2.2"} {
		if n, last := l.nulls(name); n != 1 || !last {
			t.Errorf("%s: %d records without a value; one is the last: %v", name, n, last)
		}
	}
	if n := l.indexed(p); n != 0 {
		t.Errorf("%d are in the index", n)
	}
}

// walkedAt has the note of the last walk in the store state that it began at another time.
func (l *lab) walkedAt(p *partition, at time.Time) {
	l.t.Helper()
	values, err := p.own.Read(l.t.Context(), store.Notes, [][]byte{[]byte(publishing.NoteKey)})
	if err != nil {
		l.t.Fatal(err)
	}
	c := varint.Reader{Left: values[0][1:]}
	note := values[0][:1:1]
	note = binary.AppendUvarint(note, c.Unsigned()) // since
	note = binary.AppendUvarint(note, c.Unsigned()) // modes
	note = binary.AppendUvarint(note, uint64(at.UnixMilli()))
	c.Unsigned()
	note = append(note, c.Left...)
	if c.Failed {
		l.t.Fatalf("the note is %x", values[0])
	}
	if err := p.own.Write(l.t.Context(), []store.Change{{Space: store.Notes, Key: []byte(publishing.NoteKey), Value: note}}); err != nil {
		l.t.Fatal(err)
	}
}

// A walk that began while the clock was far ahead does not put off the next one until the clock is there again.
func TestAClockThatWentBackPutsNoWalkOff(t *testing.T) {
	l := newLab(t, 1, onDisk(t))
	l.now = l.newest()
	p := l.takes()
	l.hits("192.0.2.1", 5)
	l.settle(p)
	l.walkedAt(p, l.now.Add(1000*time.Hour))
	l.start(labRules)
	p = l.takes()
	l.now = l.now.Add(7 * time.Hour)
	for range 20 {
		l.turn(p)
		l.list.deliver(len(l.list.waiting))
	}
	l.settle(p)
	if n, last := l.nulls("few/192.0.2.1"); n != 1 || !last || l.indexed(p) != 0 {
		t.Errorf("%d nulls, the last: %v; %d in the index", n, last, l.indexed(p))
	}
}

// A process that is killed before Kafka has the record without a value leaves that to the next.
func TestANullThatWasNotAcknowledgedIsSentByTheNextOwner(t *testing.T) {
	l := newLab(t, 1, onDisk(t))
	l.now = l.newest()
	p := l.takes()
	l.hits("192.0.2.1", 5)
	l.settle(p)
	l.now = l.now.Add(7 * time.Hour)
	for range 20 {
		l.turn(p)
	}
	if len(l.list.waiting) == 0 {
		t.Fatal("nothing was sent")
	}
	l.list.lose(0)
	l.events.lose(0)
	l.start(labRules)
	p = l.takes()
	for range 20 {
		l.turn(p)
		l.list.deliver(len(l.list.waiting))
	}
	l.settle(p)
	if n, last := l.nulls("few/192.0.2.1"); n != 1 || !last || l.indexed(p) != 0 {
		t.Errorf("%d nulls, the last: %v; %d in the index", n, last, l.indexed(p))
	}
}

// A key that breaks its limit again while the record without a value is under way stays on the list and in the index,
// and is published again when that record comes late.
func TestANullHidesNoLiveRecord(t *testing.T) {
	l := newLab(t, 1, onDisk(t))
	l.now = l.newest()
	p := l.takes()
	l.hits("192.0.2.1", 5)
	l.settle(p)
	l.now = l.now.Add(7 * time.Hour)
	for range 20 {
		l.turn(p)
	}
	l.hitsNow("192.0.2.1", 5)
	l.turn(p)
	l.settle(p)
	if n, last := l.nulls("few/192.0.2.1"); n != 1 || last || l.indexed(p) != 1 {
		t.Errorf("%d nulls, the last: %v; %d in the index", n, last, l.indexed(p))
	}
	sent := len(l.list.arrived)
	l.late(p, "few/192.0.2.1", nil)
	l.settle(p)
	if len(l.list.arrived) == sent {
		t.Error("a null that came late stands in front of what is live")
	}
	l.unblock("192.0.2.1")
	l.settle(p)
	sent = len(l.list.arrived)
	l.late(p, "few/192.0.2.1", nil)
	l.turn(p)
	for _, m := range append(l.list.arrived[sent:], l.list.waiting...) {
		if string(m.Key) == "few/192.0.2.1" {
			t.Error("what was lifted is published again")
		}
	}
}
