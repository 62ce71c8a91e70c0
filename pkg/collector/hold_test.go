package collector

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// A model reader of a backlog: it reads records of rising times, and asks before each whether it may.
type modelReader struct {
	member *member
	times  []int64
}

// TestSourcesAdvanceTogether reads backlogs of random shapes with random speeds and looks, at each record, whether
// another source that goes on is more than the lateness behind.
func TestSourcesAdvanceTogether(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			h := newHold(testLogger(t))
			const late = time.Minute
			long := time.Now().Add(-100 * time.Hour).UnixMilli()
			var readers []*modelReader
			for range 2 + random.IntN(4) {
				r := &modelReader{member: h.join("log", late)}
				at := long + random.Int64N(2*late.Milliseconds())
				for range 50 + random.IntN(200) {
					at += random.Int64N(late.Milliseconds())
					r.times = append(r.times, at)
				}
				readers = append(readers, r)
			}
			for reading := readers; len(reading) > 0; {
				moved := false
				for i := len(reading) - 1; i >= 0; i-- {
					r := reading[i]
					if random.IntN(3) == 0 {
						continue
					}
					if may, _, _ := r.member.may(r.times[0]); !may {
						r.member.wait(true)
						r.member.reach(r.times[0])
						continue
					}
					r.member.wait(false)
					for _, other := range reading {
						if behind := r.times[0] - other.times[0]; behind > late.Milliseconds() {
							t.Fatalf("seed %d: a record is read %d ms before an older one", seed, behind)
						}
					}
					moved = true
					r.member.reach(r.times[0])
					if r.times = r.times[1:]; len(r.times) == 0 {
						r.member.idle(true)
						reading = append(reading[:i], reading[i+1:]...)
					}
				}
				if !moved {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
}

func TestALiveSourceIsNeverHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHold(testLogger(t))
		backlog, live := h.join("backlog", time.Minute), h.join("live", time.Minute)
		backlog.reach(time.Now().Add(-24 * time.Hour).UnixMilli())
		if may, _, _ := live.may(time.Now().Add(-time.Minute).UnixMilli()); !may {
			t.Error("what is within the lateness of now is held")
		}
		if may, _, _ := live.may(time.Now().Add(-time.Minute).UnixMilli() - 1); may {
			t.Error("what is older is not held")
		}
	})
}

func TestASourceThatStopsHoldsOthersForHalfAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHold(testLogger(t))
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
		h := newHold(testLogger(t))
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
	h := newHold(testLogger(t))
	idle, other := h.join("idle", time.Minute), h.join("other", time.Minute)
	idle.reach(1000)
	_, _, moved := other.may(0)
	idle.idle(true)
	<-moved
	if limit := other.newest(); limit < time.Now().UnixMilli() {
		t.Error("a source that has read all holds others")
	}
	idle.idle(false)
	if limit := other.newest(); limit > time.Now().UnixMilli() {
		t.Error("a source with something to read holds nobody")
	}
}

func (m *member) newest() int64 {
	_, newest, _ := m.may(0)
	return newest
}
