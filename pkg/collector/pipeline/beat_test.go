package pipeline

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const testBeat = 20 * time.Millisecond

// beaten makes a rig with a latency budget, at the beginning of a period.
func beaten(t *testing.T) *rig {
	r := newRig(t, perIP, func(c *Config) { c.Batch = testBeat })
	time.Sleep(r.pipeline.beat.next(time.Now()))
	return r
}

// A paper is a log to which lines are written.
type paper struct {
	s       *Stream
	j       *timedJournal
	mu      sync.Mutex
	written []time.Time
	more    chan struct{}
}

// A timedJournal keeps when each cut was noted.
type timedJournal struct {
	memoryJournal
	at []time.Time
}

func (j *timedJournal) Note(c *Cut) {
	j.at = append(j.at, time.Now())
	j.memoryJournal.Note(c)
}

func (r *rig) paper(t *testing.T, config StreamConfig) *paper {
	p := &paper{j: &timedJournal{}, more: make(chan struct{}, 1)}
	config.Journal = p.j
	p.s = r.stream(t, config)
	return p
}

// write writes a line after each pause.
func (p *paper) write(lines int, pause time.Duration) {
	for range lines {
		time.Sleep(pause)
		p.mu.Lock()
		p.written = append(p.written, time.Now())
		p.mu.Unlock()
		select {
		case p.more <- struct{}{}:
		default:
		}
	}
}

// read reads as many lines, and drains.
func (p *paper) read(t *testing.T, lines int) {
	for p.s.position < int64(lines) {
		if err := p.s.Wait(t.Context(), p.more); err != nil {
			t.Fatal(err)
		}
		p.mu.Lock()
		there := len(p.written)
		p.mu.Unlock()
		for n := int(p.s.position); n < there; n++ {
			p.s.mustAdd(t, logLine(n, time.Now()))
		}
	}
	ended := make(chan struct{}, 1)
	time.AfterFunc(10*testBeat, func() { ended <- struct{}{} })
	if err := p.s.Wait(t.Context(), ended); err != nil {
		t.Fatal(err)
	}
}

// waited is the longest time from the writing of a line to its cut.
func (p *paper) waited() (longest time.Duration) {
	for i, c := range p.j.cuts {
		longest = max(longest, p.j.at[i].Sub(p.written[c.From]))
	}
	return longest
}

// TestLiveCutsKeepTheBeat writes a line every 5 ms, to several logs at the same time.
func TestLiveCutsKeepTheBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lines, every = 200, 5 * time.Millisecond
		r := beaten(t)
		r.sink.Delay = time.Millisecond
		var running sync.WaitGroup
		var papers []*paper
		for n := range 5 {
			p := r.paper(t, StreamConfig{})
			papers = append(papers, p)
			running.Go(func() {
				time.Sleep(time.Duration(n) * time.Millisecond)
				p.write(lines, every)
			})
			running.Go(func() { p.read(t, lines) })
		}
		running.Wait()

		instants := map[time.Time]bool{}
		for _, p := range papers {
			for i, c := range p.j.cuts {
				instants[p.j.at[i]] = true
				if i > 0 && c.From != p.j.cuts[i-1].To {
					t.Errorf("a cut begins at %d, the one before ended at %d", c.From, p.j.cuts[i-1].To)
				}
			}
			if took := p.waited(); took > testBeat {
				t.Errorf("a line waited for %s", took)
			}
		}
		if periods := int(lines*every/testBeat) + 2; len(instants) > periods {
			t.Errorf("cuts at %d instants, in %d periods", len(instants), periods)
		}
		if keys, _ := r.sink.Counted(t); len(keys) != 20 {
			t.Errorf("counted %d clients", len(keys))
		}
	})
}

// TestBeat reads a log that grows all the time without a report that there is more.
func TestBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := beaten(t)
		p := r.paper(t, StreamConfig{})
		for n := range 10 {
			p.written = append(p.written, time.Now())
			p.s.mustAdd(t, logLine(n, time.Now()))
			time.AfterFunc(testBeat/2, func() {
				if now := p.s.logStatus(); now.InFlight > 0 || now.Position != int64(n+1) {
					t.Errorf("between two beats: %+v", now)
				}
			})
			if err := p.s.Beat(t.Context()); err != nil {
				t.Fatal(err)
			}
			if since := time.Now().UnixNano() % int64(testBeat); since != 0 {
				t.Errorf("it returned %s after the beat", time.Duration(since))
			}
		}
		if took := p.waited(); took > 0 || len(p.j.cuts) != 10 {
			t.Errorf("%d cuts, and a line waited for %s", len(p.j.cuts), took)
		}
		if err := p.s.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// A line that comes alone is cut at once, and so is each where senders wait for an answer.
func TestWhatDoesNotWaitForTheBeat(t *testing.T) {
	for name, c := range map[string]struct {
		config StreamConfig
		pause  time.Duration
	}{
		"lone lines":       {StreamConfig{}, 3*testBeat + time.Millisecond},
		"posted, in a row": {StreamConfig{AtOnce: true}, 7 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := beaten(t)
				p := r.paper(t, c.config)
				go p.write(20, c.pause)
				p.read(t, 20)
				if took := p.waited(); took > 0 || len(p.j.cuts) != 20 {
					t.Errorf("%d cuts, and a line waited for %s", len(p.j.cuts), took)
				}
			})
		})
	}
}

// A clock that goes back delays a cut by no more than a period.
func TestTheBeatOfAClockThatGoesBack(t *testing.T) {
	b := beat{every: testBeat}
	now := time.Unix(1_800_000_000, 0)
	b.last.Store(b.period(now))
	if took := b.wait(now.Add(-time.Hour), b.period(now), b.period(now)); took > testBeat {
		t.Errorf("waits for %s", took)
	}
}
