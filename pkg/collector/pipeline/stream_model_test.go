package pipeline

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/pkg/collector/journal"
	"weir/pkg/collector/pace"
	"weir/test/sink"
)

// A modelLog is a log of a backlog, each line a record, and its readers: owners that end in order or not.
type modelLog struct {
	rig     *rig
	random  *rand.Rand
	name    string
	file    bool
	lines   [][]byte
	member  *pace.Member
	journal *memoryJournal
	reached int64
	began   int64 // position of the present owner
}

// write makes lines in order to within a tenth of the lateness, with equal times, and gaps.
func (l *modelLog) write(begin time.Time) {
	at := begin.Add(time.Duration(l.random.Int64N(int64(time.Hour))))
	pace := time.Duration(1 + l.random.Int64N(int64(2*time.Minute)))
	for range 100 + l.random.IntN(400) {
		at = at.Add(time.Duration(l.random.Int64N(int64(pace))))
		if l.random.IntN(100) == 0 {
			at = at.Add(time.Duration(l.random.Int64N(int64(48 * time.Hour))))
		}
		early := time.Duration(l.random.Int64N(int64(sink.Late / 10)))
		l.lines = append(l.lines, logLine(20*len(l.lines), at.Add(-early).Truncate(time.Second)))
	}
}

// read reads the log by one owner after the other.
func (l *modelLog) read(t *testing.T) {
	defer l.member.Leave()
	var again []Again
	for position := int64(0); position < int64(len(l.lines)) || len(again) > 0; {
		l.began = position
		s := l.rig.stream(t, StreamConfig{Position: position, Member: l.member, Again: again, Fingerprint: l.rig.pipeline.Fingerprint(), OneRule: !l.file, LateNotes: l.file})
		l.journal = &memoryJournal{slow: time.Duration(l.random.IntN(20)) * time.Millisecond}
		s.source, s.journal, s.reached, s.behind = l.name, l.journal, l.reached, true
		l.own(t, s)
		position, again = l.handOver(t, again)
		s.Close()
	}
}

// own reads until the end, or until the owner ends.
func (l *modelLog) own(t *testing.T, s *Stream) {
	until := s.position + 1 + l.random.Int64N(int64(len(l.lines)))
	for s.position < min(until, int64(len(l.lines))) {
		for range 1 + l.random.IntN(50) {
			if s.position < int64(len(l.lines)) {
				s.mustAdd(t, l.lines[s.position])
			}
		}
		more := make(chan struct{})
		time.AfterFunc(time.Duration(l.random.IntN(300))*time.Millisecond, func() { close(more) })
		if err := s.Wait(t.Context(), more); err != nil {
			t.Error(err)
		}
	}
	if s.position == int64(len(l.lines)) {
		if err := s.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	} else if l.random.IntN(2) == 0 {
		unsent, _ := s.Leave(t.Context())
		l.drop(unsent)
	}
}

// drop does the same as the journal of a topic.
func (l *modelLog) drop(unsent int) {
	if !l.file {
		l.journal.cuts = l.journal.cuts[:max(0, len(l.journal.cuts)-unsent)]
	}
}

// handOver is where the next owner begins, from the noted cuts. The noted cuts of a file are sent again at once.
func (l *modelLog) handOver(t *testing.T, before []Again) (position int64, left []Again) {
	l.journal.mu.Lock()
	defer l.journal.mu.Unlock()
	position = l.began
	cuts := before
	for _, c := range l.journal.cuts {
		cuts = append(cuts, Again{c.From, c.To, c.Clock})
	}
	for _, c := range l.journal.acknowledged {
		position, l.reached = c.To, max(l.reached, c.Reached)
		cuts = cuts[1:]
	}
	if !l.file {
		return position, cuts
	}
	for _, c := range l.journal.cuts[len(l.journal.acknowledged):] {
		if err := l.rig.sink.Send(t.Context(), messages(&c.Cut, func(*journal.Batch, error) {})...); err != nil {
			t.Error(err)
		}
		position, l.reached = c.To, c.Reached
	}
	return position, nil
}

// TestABacklogIsReadTogetherWhenASourceEnds reads logs of random shapes with journals and a sink that answer late, by
// owners that end, some of them without leaving: all is counted once, nothing comes too late, and no log stands still.
func TestABacklogIsReadTogetherWhenASourceEnds(t *testing.T) {
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			r := newRig(t, perIP)
			r.sink.Delay = time.Duration(random.IntN(50)) * time.Millisecond
			begin := time.Now().Add(-1000 * time.Hour).Truncate(time.Second)
			var reading sync.WaitGroup
			var logs []*modelLog
			lines := 0
			for n := range 2 + random.IntN(4) {
				l := &modelLog{rig: r, random: rand.New(rand.NewPCG(seed, uint64(n))), name: fmt.Sprint("log ", n), file: random.IntN(2) == 0, reached: pace.NoTime}
				l.write(begin)
				l.member = r.pipeline.config.Pace.Join(l.name, sink.Late)
				lines, logs = lines+len(l.lines), append(logs, l)
			}
			for _, l := range logs {
				reading.Go(func() { l.read(t) })
			}
			reading.Wait()
			book := sink.NewTextbook(t, r.sink)
			if hits := book.Count(); hits != lines || book.TooLate > 0 {
				t.Errorf("seed %d: of %d lines %d are counted, %d come too late, by up to %s", seed, lines, hits, book.TooLate, book.FurthestBehind)
			}
			if r.heard.Has("made no progress") {
				t.Errorf("seed %d: a log stood still", seed)
			}
		})
	}
}
