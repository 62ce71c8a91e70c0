package pace

import (
	"log/slog"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// A model reader of a backlog: it cuts records of rising times, and asks for each cut whether it may be sent.
type modelReader struct {
	member *Member
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
			h := New(slog.New(slog.DiscardHandler), time.Now)
			const late = time.Minute
			long := time.Now().Add(-100 * time.Hour).UnixMilli()
			var readers []*modelReader
			for range 2 + random.IntN(4) {
				r := &modelReader{member: h.Join("log", late), woken: true}
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
						r.member.Idle(true)
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
		for r.cut = 1; r.cut < len(r.times) && r.times[r.cut] <= r.times[0]+r.member.Slack() && random.IntN(9) > 0; {
			r.cut++
		}
	}
	last := r.times[r.cut-1]
	if r.woken = r.member.Ask(last, func() { r.woken = true }); !r.woken {
		r.member.Reach(r.times[0])
		return false
	}
	r.member.Reach(last)
	return true
}

func TestALiveSourceIsNeverHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(slog.New(slog.DiscardHandler), time.Now)
		backlog, live := h.Join("backlog", time.Minute), h.Join("live", time.Minute)
		backlog.Reach(time.Now().Add(-24 * time.Hour).UnixMilli())
		if !live.Ask(time.Now().Add(-time.Minute).UnixMilli(), nil) {
			t.Error("what is within the lateness of now is held")
		}
		if live.Ask(time.Now().Add(-time.Minute).UnixMilli()-1, nil) {
			t.Error("what is older is not held")
		}
	})
}

func TestASourceThatStopsHoldsOthersForHalfAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(slog.New(slog.DiscardHandler), time.Now)
		stopped, other := h.Join("stopped", time.Minute), h.Join("other", time.Minute)
		day := time.Now().Add(-24 * time.Hour).UnixMilli()
		stopped.Reach(day)
		time.Sleep(StallAfter - time.Millisecond)
		if limit := other.Newest(); limit != day+54_000 {
			t.Errorf("the limit is %d ms behind the slowest", limit-day)
		}
		time.Sleep(time.Millisecond)
		if limit := other.Newest(); limit < time.Now().Add(time.Hour).UnixMilli() {
			t.Error("a source that has stopped holds others for longer")
		}
		stopped.Reach(day + 1)
		if limit := other.Newest(); limit != day+54_001 {
			t.Error("a source that goes on does not hold others")
		}
	})
}

func TestASourceThatWaitsDoesNotCountAsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(slog.New(slog.DiscardHandler), time.Now)
		waiting, other := h.Join("waiting", time.Minute), h.Join("other", time.Minute)
		day := time.Now().Add(-24 * time.Hour).UnixMilli()
		waiting.Reach(day)
		waiting.Wait(true)
		time.Sleep(time.Hour)
		if limit := other.Newest(); limit != day+54_000 {
			t.Error("a source that waits has left the comparison")
		}
		waiting.Wait(false)
		time.Sleep(StallAfter / 2)
		if limit := other.Newest(); limit != day+54_000 {
			t.Error("a source has left the comparison as soon as it waited no longer")
		}
	})
}

func TestASourceWithNothingToReadHoldsNobody(t *testing.T) {
	h := New(slog.New(slog.DiscardHandler), time.Now)
	idle, other := h.Join("idle", time.Minute), h.Join("other", time.Minute)
	idle.Reach(1000)
	woken := false
	if other.Ask(1_000_000, func() { woken = true }) {
		t.Error("a source with something to read holds nobody")
	}
	if idle.Reach(2000); woken {
		t.Error("another is woken that may not go on yet")
	}
	if idle.Idle(true); !woken {
		t.Error("one that is held is not woken when it may go on")
	}
	if limit := other.Newest(); limit < time.Now().UnixMilli() {
		t.Error("a source that has read all holds others")
	}
	idle.Idle(false)
	if limit := other.Newest(); limit > time.Now().UnixMilli() {
		t.Error("a source with something to read holds nobody")
	}
}

// A member that catches up does not leave the others behind when it comes near now. A member that was live from the
// beginning, or has read its backlog, is never held.
func TestAMemberCatchingUpStaysWithTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(slog.New(slog.DiscardHandler), time.Now)
		ago := func(d time.Duration) int64 { return time.Now().Add(-d).UnixMilli() }
		fast, slow, live := h.Share("logs/0", 10*time.Minute), h.Share("logs/1", 10*time.Minute), h.Join("file", 10*time.Minute)
		wake := func() {}
		slow.Reach(ago(25 * time.Minute))
		live.Reach(ago(time.Minute))
		if !fast.Ask(ago(17*time.Minute), wake) {
			t.Error("held, though it is near enough")
		}
		fast.Reach(ago(17 * time.Minute))
		slow.Reach(ago(19 * time.Minute))
		if fast.Ask(ago(5*time.Minute), wake) {
			t.Error("it left the slow one behind")
		}
		live.Reach(ago(time.Second))
		if !live.Ask(ago(0), wake) {
			t.Error("what is live is held")
		}
		slow.Reach(ago(8 * time.Minute))
		if !fast.Ask(ago(0), wake) {
			t.Error("held, though nobody is behind")
		}
	})
}

// After any change, a member that is held is woken as soon as the slow, obvious limit lets it go on.
func TestAHeldMemberIsWokenInTime(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			g := New(slog.New(slog.DiscardHandler), time.Now)
			day := time.Now().Add(-24 * time.Hour).UnixMilli()
			members, woken := make([]*Member, 6), map[*Member]bool{}
			for i := range members {
				members[i] = g.Share("", time.Minute)
			}

			for range 300 {
				i := random.IntN(len(members))
				m := members[i]
				switch at := day + random.Int64N(300_000); random.IntN(8) {
				case 0, 1:
					m.Reach(at)
				case 2, 3, 4:
					if woken[m] = m.Ask(at, func() { woken[m] = true }); woken[m] != (at <= m.Newest()) {
						t.Fatalf("seed %d: it may go on: %v, but its limit is %d and it wants %d", seed, woken[m], m.Newest(), at)
					}
				case 5:
					m.Idle(random.IntN(2) == 0)
				case 6:
					m.WasEmpty(time.Now())
				case 7:
					if time.Sleep(time.Second); random.IntN(4) == 0 {
						m.Leave()
						members[i] = g.Share("", time.Minute)
					}
				}

				for _, m := range members {
					if m.wants != NoTime && m.wants <= m.limit() && !woken[m] {
						t.Fatalf("seed %d: a member may go on and is not woken", seed)
					}
				}
			}
		})
	}
}
