package position

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"weir/internal/kafka"
)

// A fakeLog is a log whose records say their offset.
type fakeLog struct {
	begins, ends, next int64
	word               string // in the records
}

func (l *fakeLog) SetNext(offset int64) { l.next = offset }
func (l *fakeLog) Span() kafka.Span     { return kafka.Span{Start: l.begins, End: l.ends} }

func (l *fakeLog) Fetch(context.Context) ([]kafka.Record, error) {
	switch {
	case l.next < l.begins:
		return nil, kafka.ErrTrimmed
	case l.next > l.ends:
		return nil, kafka.ErrPastEnd
	}
	var records []kafka.Record
	for ; l.next < l.ends; l.next++ {
		records = append(records, kafka.Record{Offset: l.next, Value: fmt.Appendf(nil, "%s%d", l.word, l.next)})
	}
	return records, nil
}

// counted has all be counted, and returns the offsets of what was, or why the log was replaced.
func counted(t *testing.T, p *Position) (offsets []int64, replaced *Replaced) {
	t.Helper()
	for range 5 {
		records, replaced := p.Accept(p.Fetch(t.Context()))
		if replaced != nil {
			return offsets, replaced
		}
		for _, r := range records {
			offsets = append(offsets, r.Offset)
		}
		p.Counted(records)
	}
	return offsets, nil
}

func TestCountingGoesOnBehindWhatWasCounted(t *testing.T) {
	log, now := &fakeLog{ends: 5}, time.Unix(1000, 0)
	p := New(log, func() time.Time { return now }, func(from, to int64) { t.Errorf("%d to %d are lost", from, to) })
	p.Begin(p.Next(0))
	if offsets, replaced := counted(t, p); replaced != nil || !slices.Equal(offsets, []int64{0, 1, 2, 3, 4}) {
		t.Fatalf("%v, %+v", offsets, replaced)
	}
	at := p.At()
	log.ends = 7
	p = New(log, func() time.Time { return now }, func(from, to int64) { t.Errorf("%d to %d are lost", from, to) })
	p.Begin(at)
	if p.Settled() {
		t.Error("it is settled before anything was read")
	}
	if offsets, replaced := counted(t, p); replaced != nil || !slices.Equal(offsets, []int64{5, 6}) || !p.Settled() || p.Lag().Records != 0 {
		t.Errorf("%v, %+v", offsets, replaced)
	}
}

// Records that retention has deleted are reported, unless the log had lost them before anything was counted.
func TestRecordsThatWereDeletedAreReported(t *testing.T) {
	for _, at := range []Point{{Generation: 1, Last: -1}, {Generation: 1, Offset: 2, Last: 1}} {
		var lost int64
		p := New(&fakeLog{begins: 4, ends: 6}, time.Now, func(from, to int64) { lost += to - from })
		p.Begin(at)
		if offsets, replaced := counted(t, p); replaced != nil || !slices.Equal(offsets, []int64{4, 5}) {
			t.Errorf("%v, %+v", offsets, replaced)
		}
		if want := map[int64]int64{0: 0, 2: 2}[at.Offset]; lost != want {
			t.Errorf("from %d on: %d are lost, want %d", at.Offset, lost, want)
		}
	}
}

func TestAnotherLogBeginsAGeneration(t *testing.T) {
	for name, change := range map[string]func(*fakeLog){
		"it ends before":        func(l *fakeLog) { l.ends = 2 },
		"it has another record": func(l *fakeLog) { l.word = "another" },
	} {
		t.Run(name, func(t *testing.T) {
			log := &fakeLog{ends: 5}
			p := New(log, time.Now, nil)
			p.Begin(p.Next(0))
			counted(t, p)
			at := p.At()
			change(log)
			p.Begin(at)
			_, replaced := counted(t, p)
			if replaced == nil || replaced.Why == "" {
				t.Fatal("nothing is noticed")
			}
			next := p.Next(replaced.Start)
			if next.Generation <= at.Generation || next.Offset != 0 {
				t.Errorf("%+v after %+v", next, at)
			}
			p.Restart(next)
			if offsets, _ := counted(t, p); len(offsets) != int(log.ends) {
				t.Errorf("%v are counted", offsets)
			}
		})
	}
}

// A new leader that does not know the log's end for a moment is no other log; one that never does is.
func TestALogThatEndsTooEarlyIsDoubtedFirst(t *testing.T) {
	log, now := &fakeLog{ends: 5}, time.Unix(1000, 0)
	p := New(log, func() time.Time { return now }, nil)
	p.Begin(p.Next(0))
	counted(t, p)
	accept := func() *Replaced { // as a reader does that has not noticed yet
		_, replaced := p.Accept(nil, nil)
		return replaced
	}
	log.ends = 3
	if accept() != nil {
		t.Error("it is believed at once")
	}
	now = now.Add(shortPatience - 1)
	if accept() != nil {
		t.Error("it is believed too early")
	}
	log.ends = 5
	if offsets, replaced := counted(t, p); replaced != nil || len(offsets) != 0 {
		t.Errorf("%v, %+v", offsets, replaced)
	}
	log.ends = 3
	accept()
	now = now.Add(shortPatience)
	if accept() == nil {
		t.Error("it is doubted for ever")
	}
}
