package window

import (
	"fmt"
	"math/bits"
)

// buckets count with a bucket a limit, which hits fill and time drains: token, uniform and leaky are its three uses. A
// hit breaks the limit when the bucket would then hold more than it can.
//
// All numbers are integers: a hit is unit drops, a millisecond drains drain of them, with no rounding anywhere.
//
// A late hit adds what it would have added, as long as the bucket has not been empty since, and is held against what the
// bucket then holds; an older one is not counted. So a late hit may let through more, but never blocks who kept the
// limit. A state has 24 bytes a limit; a hit costs a multiplication and a comparison a limit.
type buckets []bucket

type bucket struct {
	unit  int64 // drops of one hit
	drain int64 // drops a millisecond
	holds int64 // drops
}

// Of each bucket a state keeps three words.
const (
	level       = iota // drops in it after the newest hit
	levelAt            // when that was
	filledSince        // since when it has not been empty
	bucketWords
)

// newBucket holds hits and drains l.Hits in l.Per.
func newBucket(l Limit, hits int64) (bucket, error) {
	per := l.Per.Milliseconds()
	common := gcd(l.Hits, per)
	b := bucket{unit: per / common, drain: l.Hits / common}
	high, low := bits.Mul64(uint64(hits), uint64(b.unit))
	if high > 0 || low > mostDrops {
		return b, fmt.Errorf("a bucket of %d hits at %d per %v is too large to be counted in whole numbers: want a rounder limit", hits, l.Hits, l.Per)
	}
	b.holds = int64(low)
	return b, nil
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// newBuckets makes a bucket a limit, which holds what holds says.
func newBuckets(c *Config, holds func(Limit) int64) (algorithm, error) {
	var a buckets
	for _, l := range c.Limits {
		b, err := newBucket(l, holds(l))
		if err != nil {
			return nil, err
		}
		a = append(a, b)
	}
	return a, nil
}

func (a buckets) hit(s *State, at, cost int64) broken {
	a.make(s)
	b := unbroken
	for i := range a {
		words := s.first[bucketWords*i : bucketWords*(i+1)]
		if hits, ok := a[i].fill(words, at, cost); !ok {
			b = b.or(broken{i, max(at, int64(words[levelAt])), hits})
		}
	}
	return b
}

// make makes the buckets of a state that has none.
func (a buckets) make(s *State) {
	for len(s.first) < bucketWords*len(a) {
		s.first = append(s.first, 0)
	}
}

// fill adds cost hits; where the bucket cannot hold them it is full and the hits that it would have held are returned.
func (b *bucket) fill(words log, at, cost int64) (hits int64, ok bool) {
	// The bucket was empty after this hit, without it. The part of the hit that would have been left by then is not counted:
	// the error may only let through more.
	if at < int64(words[filledSince]) {
		return 0, true
	}
	if newest := int64(words[levelAt]); at > newest {
		words[level], words[levelAt] = uint64(b.drained(int64(words[level]), at-newest)), uint64(at)
		if words[level] == 0 {
			words[filledSince] = uint64(at)
		}
	}

	room := b.holds - int64(words[level])
	// A division, because the product of a cost from outside and a unit may overflow.
	if cost > room/b.unit {
		held := b.hits(int64(words[level]))

		// The bucket is full, and not more: otherwise a client that goes on would have to wait for all its refused hits
		// to drain.
		words[level] = uint64(b.holds)
		return held + cost, false
	}

	words[level] += uint64(cost * b.unit)
	return 0, true
}

// drained is what is left of drops after some milliseconds.
func (b *bucket) drained(drops, millis int64) int64 {
	if millis > drops/b.drain {
		return 0
	}
	return drops - millis*b.drain
}

// hits are how many hits the drops are of, a part of a hit taken for a whole one.
func (b *bucket) hits(drops int64) int64 { return (drops + b.unit - 1) / b.unit }

func (a buckets) count(s *State, i int, at int64) int64 {
	if len(s.first) == 0 {
		return 0
	}
	words := s.first[bucketWords*i:]
	return a[i].hits(a[i].drained(int64(words[level]), max(0, at-int64(words[levelAt]))))
}

func (a buckets) clear(s *State) int64 {
	var clear int64
	for i := range len(s.first) / bucketWords {
		words := s.first[bucketWords*i:]
		empty := (int64(words[level]) + a[i].drain - 1) / a[i].drain
		clear = max(clear, int64(words[levelAt])+empty)
	}
	return clear
}

// forget empties the buckets, because drops have no time of their own.
func (a buckets) forget(s *State, _ int64) { s.first = s.first[:0] }

func (a buckets) shapes() []shape { return nil }
