package pipeline

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"weir/pkg/collector/pace"
)

// heldStream reads a backlog of a day ago, a request each ten seconds, together with another source.
func heldStream(t *testing.T, requests int) (s *Stream, j *memoryJournal, other *pace.Member, begin time.Time) {
	r := newRig(t, perIP)
	begin = time.Now().Add(-24 * time.Hour).Truncate(time.Second)
	j, other = &memoryJournal{}, r.pipeline.config.Pace.Join("other", time.Minute)
	s = r.stream(t, StreamConfig{Journal: j, Member: r.pipeline.config.Pace.Join("a log", time.Minute)})
	s.behind = true
	for n := range requests {
		s.mustAdd(t, logLine(n, begin.Add(time.Duration(n)*10*time.Second)))
	}
	if err := s.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, j, other, begin
}

// TestABacklogIsSentNoFurtherThanOthersAre reads on while another source reports how far it has got.
func TestABacklogIsSentNoFurtherThanOthersAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, j, other, begin := heldStream(t, 100)
		for _, c := range j.cuts {
			if c.To-c.From > 6 {
				t.Errorf("a cut covers %d s", 10*(c.To-c.From-1))
			}
		}
		if read := s.position; read != 100 {
			t.Errorf("%d records are read while the stream is held", read)
		}
		sent := func(want int64, when string) {
			t.Helper()
			if err := s.look(t.Context()); err != nil {
				t.Fatal(err)
			}
			to := int64(0)
			for _, c := range j.cuts {
				if c.sent {
					to = c.To
				}
			}
			if to != want {
				t.Errorf("%s: sent up to record %d, want %d", when, to, want)
			}
		}
		sent(0, "nothing is known of another")
		log := s.in.Status("file").Logs[0]
		if !log.Holding {
			t.Error("the status does not say that it waits for another")
		}
		if want := begin.Add(950 * time.Second); log.Position != 96 || !log.Newest.Equal(want) {
			t.Errorf("the status says that it is read to %d, a request of %v; the last cut ends with 96, of %v", log.Position, log.Newest, want)
		}
		if reached, _ := s.member.Standing(); reached != begin.UnixMilli() {
			t.Errorf("others hear that it has reached %d, its first request is of %d", reached, begin.UnixMilli())
		}
		other.Reach(begin.UnixMilli())
		sent(6, "another is at the first request")
		synctest.Wait()
		sent(6, "and that cut is acknowledged")
		if reached, settled := s.member.Standing(); reached != begin.Add(time.Minute).UnixMilli() || settled != reached {
			t.Errorf("others hear that it has reached %d, of which Kafka has %d; the next request is of %d", reached, settled, begin.Add(time.Minute).UnixMilli())
		}
		other.Reach(begin.Add(5 * time.Minute).UnixMilli())
		sent(36, "another is five minutes further")
		other.Leave()
		sent(96, "another has ended")
		if s.in.Status("file").Logs[0].Holding {
			t.Error("the status says that it waits, and nothing is held")
		}
		if err := s.Drain(t.Context()); err != nil || s.unsent() > 0 {
			t.Error("at the end", err, s.unsent())
		}
	})
}

// TestACutOfABacklogWaitsForMoreLines: while the backlog continues, a cut waits longer than one of live requests.
func TestACutOfABacklogWaitsForMoreLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, j, _, begin := heldStream(t, 0)
		cuts := func(want int, when string) {
			t.Helper()
			if err := s.look(t.Context()); err != nil {
				t.Fatal(err)
			}
			if len(j.cuts) != want {
				t.Errorf("%d cuts %s, want %d", len(j.cuts), when, want)
			}
		}
		s.mustAdd(t, logLine(1, begin))
		time.Sleep(oldCutAfter - time.Millisecond)
		cuts(0, "before 100 ms")
		time.Sleep(time.Millisecond)
		cuts(1, "after 100 ms")
		s.mustAdd(t, logLine(2, begin))
		s.behind = false
		time.Sleep(cutAfter)
		cuts(2, "when there is no more")
		s.behind = true
		s.mustAdd(t, logLine(3, time.Now()))
		time.Sleep(cutAfter)
		cuts(3, "of a request of now")
	})
}

// TestASourceAloneIsCutWhereItSuits: cuts are bounded by the slack only if there are other sources.
func TestASourceAloneIsCutWhereItSuits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, j, other, begin := heldStream(t, 0)
		other.Idle(true)
		for n := range 50 {
			s.mustAdd(t, logLine(n, begin.Add(time.Duration(n)*time.Hour/50)))
		}
		if len(j.cuts) > 0 {
			t.Errorf("%d cuts of an hour that nobody waits for", len(j.cuts))
		}
	})
}

// TestASourceHasReachedNoMoreThanItSent continues where the journal states that all before was sent: the
// very next request is of that time.
func TestASourceHasReachedNoMoreThanItSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, _, begin := heldStream(t, 0)
		s.reached = begin.UnixMilli()
		for n := range 10 {
			s.mustAdd(t, logLine(n, begin.Add(time.Duration(n)*10*time.Second)))
		}
		if err := s.look(t.Context()); err != nil {
			t.Fatal(err)
		}
		if reached, _ := s.member.Standing(); reached > begin.UnixMilli() {
			t.Errorf("it has sent nothing, and says that all is sent that is %d ms newer than its next request", reached-begin.UnixMilli())
		}
	})
}

// TestHitsOfAHeldStreamThatEndsStayUnsent ends a stream that is held.
func TestHitsOfAHeldStreamThatEndsStayUnsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, j, other, begin := heldStream(t, 20)
		other.Reach(begin.UnixMilli())
		if _, err := s.Leave(t.Context()); !errors.Is(err, ErrHeld) {
			t.Error(err)
		}
		if len(j.cuts) != 4 || len(j.acknowledged) != 1 || s.unsent() != 3 {
			t.Errorf("of %d cuts %d are acknowledged and %d not sent", len(j.cuts), len(j.acknowledged), s.unsent())
		}
	})
}

// TestAFileNotesNothingThatIsAheadOfOthers: at its next start the journal sends all that it has.
func TestAFileNotesNothingThatIsAheadOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, j, other, begin := heldStream(t, 0)
		s.lateNotes, j.slow = true, time.Millisecond
		for n := range 40 {
			s.mustAdd(t, logLine(n, begin.Add(time.Duration(n)*10*time.Second)))
		}
		noted := func(want int, when string) {
			t.Helper()
			if err := s.look(t.Context()); err != nil {
				t.Fatal(err)
			}
			if len(j.cuts) != want {
				t.Errorf("%s: %d cuts are noted, want %d", when, len(j.cuts), want)
			}
		}
		noted(0, "nothing is known of another")
		other.Reach(begin.Add(2 * time.Minute).UnixMilli())
		noted(3, "another is two minutes further")
		if reached, _ := s.member.Standing(); reached > begin.UnixMilli() {
			t.Error("others hear that all is sent of what is not even noted")
		}
		if _, err := s.Leave(t.Context()); !errors.Is(err, ErrHeld) {
			t.Error(err)
		}
		if len(j.cuts) != 3 || len(j.acknowledged) != 3 {
			t.Errorf("at the end %d cuts are noted, of which Kafka has %d", len(j.cuts), len(j.acknowledged))
		}
		if reached, _ := s.member.Standing(); reached != begin.Add(3*time.Minute).UnixMilli() {
			t.Errorf("others hear that it has reached %d", reached)
		}
	})
}
