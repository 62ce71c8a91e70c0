package position

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"weir/internal/topic"
)

// A fakeLog is a log whose records say their offset.
type fakeLog struct {
	begins, ends, next int64
	word               string // in the records
	topic              topic.Identity
}

func (l *fakeLog) Identity(context.Context) (topic.Identity, error) { return l.topic, nil }

func (l *fakeLog) SetNext(offset int64) { l.next = offset }
func (l *fakeLog) Span() topic.Span     { return topic.Span{Start: l.begins, End: l.ends} }

func (l *fakeLog) Fetch(context.Context) ([]topic.Record, error) {
	switch {
	case l.next < l.begins:
		return nil, topic.ErrTrimmed
	case l.next > l.ends:
		return nil, topic.ErrPastEnd
	}
	var records []topic.Record
	for ; l.next < l.ends; l.next++ {
		records = append(records, topic.Record{Offset: l.next, Value: fmt.Appendf(nil, "%s%d", l.word, l.next)})
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
	p.Begin(p.Next(0), "")
	if offsets, replaced := counted(t, p); replaced != nil || !slices.Equal(offsets, []int64{0, 1, 2, 3, 4}) {
		t.Fatalf("%v, %+v", offsets, replaced)
	}
	at := p.At()
	log.ends = 7
	p = New(log, func() time.Time { return now }, func(from, to int64) { t.Errorf("%d to %d are lost", from, to) })
	p.Begin(at, "")
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
		p.Begin(at, "")
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
			p.Begin(p.Next(0), "")
			counted(t, p)
			at := p.At()
			change(log)
			p.Begin(at, "")
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
	p.Begin(p.Next(0), "")
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

// A log that is in another topic is read from its beginning at once, however long it is, and whether its records can be
// compared or not.
func TestALogInAnotherTopicBeginsAGeneration(t *testing.T) {
	for name, test := range map[string]struct {
		begins, ends int64
		at           Point
		topic        topic.Identity
		replaced     bool
	}{
		"shorter by one":       {0, 4, Point{Generation: 1, Offset: 5, Last: 4, Checksum: 1}, "other/hits/2", true},
		"as long":              {0, 5, Point{Generation: 1, Offset: 5, Last: -1}, "other/hits/2", true},
		"longer":               {0, 9, Point{Generation: 1, Offset: 5, Last: -1}, "other/hits/2", true},
		"made again":           {0, 9, Point{Generation: 1, Offset: 5, Last: -1}, "one/hits/2", true},
		"it begins later":      {7, 9, Point{Generation: 1, Offset: 5, Last: -1}, "other/hits/2", true},
		"it is empty":          {0, 0, Point{Generation: 1, Offset: 1, Last: 0, Checksum: 1}, "other/hits/2", true},
		"the same":             {0, 9, Point{Generation: 1, Offset: 5, Last: -1}, "one/hits/1", false},
		"brokers without ids":  {0, 9, Point{Generation: 1, Offset: 5, Last: -1}, "one/hits/", false},
		"brokers without name": {0, 9, Point{Generation: 1, Offset: 5, Last: -1}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			log := &fakeLog{begins: test.begins, ends: test.ends, topic: test.topic}
			p := New(log, time.Now, func(from, to int64) { t.Errorf("%d to %d are lost", from, to) })
			p.Begin(test.at, "one/hits/1")
			offsets, replaced := counted(t, p)
			if (replaced != nil) != test.replaced {
				t.Fatalf("%v, %+v", offsets, replaced)
			}
			if replaced == nil {
				return
			}
			p.Restart(p.Next(replaced.Start))
			if offsets, replaced := counted(t, p); replaced != nil || len(offsets) != int(test.ends-test.begins) || p.Topic() != test.topic {
				t.Errorf("%v of %s, %+v", offsets, p.Topic(), replaced)
			}
		})
	}
}

// A topic that is made again while it is read, and grows beyond what was counted, is noticed too.
func TestATopicMadeAgainWhileItIsReadBeginsAGeneration(t *testing.T) {
	log, now := &fakeLog{ends: 5, topic: "one/hits/1"}, time.Unix(1000, 0)
	p := New(log, func() time.Time { return now }, nil)
	p.Begin(p.Next(0), "")
	counted(t, p)
	log.ends, log.topic = 9, "one/hits/2"
	now = now.Add(identifyEvery)
	if offsets, replaced := counted(t, p); replaced == nil || len(offsets) > 0 {
		t.Errorf("%v are counted, %+v", offsets, replaced)
	}
}
