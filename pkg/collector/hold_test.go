package collector

import (
	"log/slog"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// A model reader of a backlog: it cuts records of rising times, and asks for each cut whether it may be sent.
type modelReader struct {
	member *member
	times  []int64
	cut    int // of the first so many times
	woken  bool
}

// TestSourcesAdvanceTogether reads backlogs of random shapes with random speeds. At each cut it checks whether another
// active source is more than the lateness behind. A held source asks again only when woken.
func TestSourcesAdvanceTogether(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			h := newHold(slog.New(slog.DiscardHandler))
			const late = time.Minute
			long := time.Now().Add(-100 * time.Hour).UnixMilli()
			var readers []*modelReader
			for range 2 + random.IntN(4) {
				r := &modelReader{member: h.join("log", late), woken: true}
				at := long + random.Int64N(2*late.Milliseconds())
				for range 50 + random.IntN(200) {
					at += random.Int64N(late.Milliseconds())
					r.times = append(r.times, at)
				}
				readers = append(readers, r)
			}
			for reading := readers; len(reading) > 0; {
				stuck := true
				for i := len(reading) - 1; i >= 0; i-- {
					r := reading[i]
					stuck = stuck && !r.woken
					if !r.woken || random.IntN(3) == 0 {
						continue
					}
					if !r.send(random) {
						continue
					}
					for _, other := range reading {
						if behind := r.times[r.cut-1] - other.times[0]; behind > late.Milliseconds() {
							t.Fatalf("seed %d: a cut is sent %d ms before an older one", seed, behind)
						}
					}
					if r.times, r.cut = r.times[r.cut:], 0; len(r.times) == 0 {
						r.member.idle(true)
						reading = append(reading[:i], reading[i+1:]...)
					}
				}
				if stuck {
					t.Fatalf("seed %d: all are held", seed)
				}
			}
		})
	}
}

// send sends the next cut, if it may.
func (r *modelReader) send(random *rand.Rand) bool {
	if r.cut == 0 {
		for r.cut = 1; r.cut < len(r.times) && r.times[r.cut] <= r.times[0]+r.member.slack() && random.IntN(9) > 0; {
			r.cut++
		}
	}
	last := r.times[r.cut-1]
	if r.woken = r.member.ask(last, func() { r.woken = true }); !r.woken {
		r.member.reach(r.times[0])
		return false
	}
	r.member.reach(last)
	return true
}

func TestALiveSourceIsNeverHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHold(slog.New(slog.DiscardHandler))
		backlog, live := h.join("backlog", time.Minute), h.join("live", time.Minute)
		backlog.reach(time.Now().Add(-24 * time.Hour).UnixMilli())
		if !live.ask(time.Now().Add(-time.Minute).UnixMilli(), nil) {
			t.Error("what is within the lateness of now is held")
		}
		if live.ask(time.Now().Add(-time.Minute).UnixMilli()-1, nil) {
			t.Error("what is older is not held")
		}
	})
}

func TestASourceThatStopsHoldsOthersForHalfAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHold(slog.New(slog.DiscardHandler))
		stopped, other := h.join("stopped", time.Minute), h.join("other", time.Minute)
		day := time.Now().Add(-24 * time.Hour).UnixMilli()
		stopped.reach(day)
		time.Sleep(stallAfter - time.Millisecond)
		if limit := other.newest(); limit != day+54_000 {
			t.Errorf("the limit is %d ms behind the slowest", limit-day)
		}
		time.Sleep(time.Millisecond)
		if limit := other.newest(); limit < time.Now().Add(time.Hour).UnixMilli() {
			t.Error("a source that has stopped holds others for longer")
		}
		stopped.reach(day + 1)
		if limit := other.newest(); limit != day+54_001 {
			t.Error("a source that goes on does not hold others")
		}
	})
}

func TestASourceThatWaitsDoesNotCountAsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHold(slog.New(slog.DiscardHandler))
		waiting, other := h.join("waiting", time.Minute), h.join("other", time.Minute)
		day := time.Now().Add(-24 * time.Hour).UnixMilli()
		waiting.reach(day)
		waiting.wait(true)
		time.Sleep(time.Hour)
		if limit := other.newest(); limit != day+54_000 {
			t.Error("a source that waits has left the comparison")
		}
		waiting.wait(false)
		time.Sleep(stallAfter / 2)
		if limit := other.newest(); limit != day+54_000 {
			t.Error("a source has left the comparison as soon as it waited no longer")
		}
	})
}

func TestASourceWithNothingToReadHoldsNobody(t *testing.T) {
	h := newHold(slog.New(slog.DiscardHandler))
	idle, other := h.join("idle", time.Minute), h.join("other", time.Minute)
	idle.reach(1000)
	woken := false
	if other.ask(1_000_000, func() { woken = true }) {
		t.Error("a source with something to read holds nobody")
	}
	if idle.reach(2000); woken {
		t.Error("another is woken that may not go on yet")
	}
	if idle.idle(true); !woken {
		t.Error("one that is held is not woken when it may go on")
	}
	if limit := other.newest(); limit < time.Now().UnixMilli() {
		t.Error("a source that has read all holds others")
	}
	idle.idle(false)
	if limit := other.newest(); limit > time.Now().UnixMilli() {
		t.Error("a source with something to read holds nobody")
	}
}

// A member that catches up does not leave the others behind when it comes near now. A member that was live from the
// beginning, or has read its backlog, is never held.
func TestAMemberCatchingUpStaysWithTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHold(slog.New(slog.DiscardHandler))
		ago := func(d time.Duration) int64 { return time.Now().Add(-d).UnixMilli() }
		fast, slow, live := h.share("logs/0", 10*time.Minute), h.share("logs/1", 10*time.Minute), h.join("file", 10*time.Minute)
		wake := func() {}
		slow.reach(ago(25 * time.Minute))
		live.reach(ago(time.Minute))
		if !fast.ask(ago(17*time.Minute), wake) {
			t.Error("held, though it is near enough")
		}
		fast.reach(ago(17 * time.Minute))
		slow.reach(ago(19 * time.Minute))
		if fast.ask(ago(5*time.Minute), wake) {
			t.Error("it left the slow one behind")
		}
		live.reach(ago(time.Second))
		if !live.ask(ago(0), wake) {
			t.Error("what is live is held")
		}
		slow.reach(ago(8 * time.Minute))
		if !fast.ask(ago(0), wake) {
			t.Error("held, though nobody is behind")
		}
	})
}
