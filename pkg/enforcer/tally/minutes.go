package tally

import "sync/atomic"

// minutes count by the minute. A word of the ring is a minute, in its upper 24 bits, and the count of that minute.
type minutes struct {
	ring  [64]atomic.Uint64
	older atomic.Int64 // the sum of the minutes that have left the ring
}

const (
	minuteMilli = 60_000
	countBits   = 40
	countMask   = 1<<countBits - 1
)

func (m *minutes) add(nowMilli int64) {
	minute := nowMilli / minuteMilli
	slot, name := &m.ring[uint64(minute)%uint64(len(m.ring))], uint64(minute)<<countBits
	for {
		word := slot.Load()
		if word&^countMask == name {
			slot.Add(1)
			return
		}
		if slot.CompareAndSwap(word, name|1) {
			m.older.Add(int64(word & countMask))
			return
		}
	}
}

func (m *minutes) of(minute int64) int64 {
	word := m.ring[uint64(minute)%uint64(len(m.ring))].Load()
	if word&^countMask != uint64(minute)<<countBits {
		return 0
	}
	return int64(word & countMask)
}

func (m *minutes) total() int64 {
	sum := m.older.Load()
	for i := range m.ring {
		sum += int64(m.ring[i].Load() & countMask)
	}
	return sum
}

func (m *minutes) lastMinute(nowMilli int64) int64 {
	minute := nowMilli / minuteMilli
	return withShare(m.of(minute), m.of(minute-1), nowMilli)
}

// withShare adds to the count of the running minute the share of the one before that is less than a minute ago.
func withShare(running, before, nowMilli int64) int64 {
	return running + before*(minuteMilli-nowMilli%minuteMilli)/minuteMilli
}

func (m *minutes) hour(nowMilli int64) (counts [60]int64) {
	first := nowMilli/minuteMilli - int64(len(counts))
	for i := range counts {
		counts[i] = m.of(first + int64(i))
	}
	return counts
}
