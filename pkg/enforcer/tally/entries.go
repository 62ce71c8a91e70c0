package tally

import (
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
)

// entries are a hash table of fixed size. An entry has one of the few places that its hash selects: if it has none, it
// takes that of the entry that refused longest ago.
type entries struct{ sets [1 << 12][4]place }

// A place has the counts of an entry.
type place struct {
	who    atomic.Uint64 // the hash's upper half, and the seconds since 1970 of the last refusal; 0 when it is free
	total  atomic.Uint64
	recent atomic.Uint64 // a minute in the upper 16 bits, its count in 24 bits, and that of the minute before
}

// Figures are the refusals because of one entry.
type Figures struct {
	Refused    int64 // since the entry has its place
	LastMinute int64 // an estimate
	Last       int64 // Unix milliseconds, of a whole second; 0 without any
}

func (e *entries) add(id string, nowMilli int64) {
	h := xxhash.Sum64String(id)
	who := h>>32<<32 | uint64(uint32(nowMilli/1000))
	p := e.take(h, who)
	if p == nil {
		return
	}

	if old := p.who.Load(); old != who && old>>32 == h>>32 {
		p.who.CompareAndSwap(old, who)
	}
	p.total.Add(1)
	for {
		recent := p.recent.Load()
		if p.recent.CompareAndSwap(recent, counted(recent, nowMilli)) {
			return
		}
	}
}

// taking is in a place while an entry takes it.
const taking = 1

// take returns the place of a hash, and takes one if it has none. Its counts begin at 0 before anyone finds it. It
// returns nil where others are faster again and again.
func (e *entries) take(h, who uint64) *place {
	const tries = 4
	for range tries {
		p, old, found := e.find(h)
		if found || p == nil {
			return p
		}
		if p.who.CompareAndSwap(old, taking) {
			p.total.Store(0)
			p.recent.Store(0)
			p.who.Store(who)
			return p
		}
	}
	return nil
}

// find returns the place of a hash, or else the one that it may take, with what is in it; nil where all are being taken.
func (e *entries) find(h uint64) (p *place, who uint64, found bool) {
	set := &e.sets[h%uint64(len(e.sets))]
	for i := range set {
		now := set[i].who.Load()
		switch {
		case now == taking:
		case now != 0 && now>>32 == h>>32:
			return &set[i], now, true
		case p == nil || uint32(now) < uint32(who):
			p, who = &set[i], now
		}
	}
	return p, who, false
}

func (e *entries) of(id []byte, nowMilli int64) Figures {
	p, who, found := e.find(xxhash.Sum64(id))
	if !found {
		return Figures{}
	}
	running, before := minutesOf(p.recent.Load(), nowMilli)
	f := Figures{int64(p.total.Load()), withShare(running, before, nowMilli), int64(uint32(who)) * 1000}
	if p.who.Load()>>32 != who>>32 { // another took the place meanwhile
		return Figures{}
	}
	return f
}

const mostRecent = 1<<24 - 1

// counted returns the word of a place after one more refusal.
func counted(word uint64, nowMilli int64) uint64 {
	running, before := minutesOf(word, nowMilli)
	return uint64(uint16(nowMilli/minuteMilli))<<48 | uint64(min(running+1, mostRecent))<<24 | uint64(before)
}

// minutesOf returns the counts of the running minute and of the one before.
func minutesOf(word uint64, nowMilli int64) (running, before int64) {
	running, before = int64(word>>24&mostRecent), int64(word&mostRecent)
	switch uint16(nowMilli/minuteMilli) - uint16(word>>48) {
	case 0:
		return running, before
	case 1:
		return 0, running
	}
	return 0, 0
}
