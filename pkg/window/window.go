// Package window counts how often one key was hit in the recent past, and says when a limit is broken and what
// follows.
//
// A Policy has the limits of one rule, the algorithm that counts them and the block that follows; a State is the
// memory of one key. Six algorithms serve one interface:
//
//	Sliding  a log of the hits, exact: a hit at t breaks N per W when more than N hits lie in (t-W, t]
//	Fixed    hits per aligned period: up to 2N may pass within a W that straddles two periods
//	Counter  hits per sub-window, the oldest weighted by what the window still covers of it
//	Token    a bucket of tokens: Burst at once, N per W on average
//	Uniform  one hit per W/N (GCRA), with a tolerance of Burst hits
//	Leaky    a bucket that holds N and drains N per W
//
// The file of each documents its error, its memory and the cost of a hit. Time is an integer, in milliseconds
// since 1970 and comes with the hit; cost c is c hits at that instant.
//
// A hit older than the key's newest by more than Config.Late is not counted (Late). Younger ones count in the
// window they belong to. For Sliding, which keys break a limit does not depend on the order in which hits arrive
// as long as a key has at most Config.Remember hits (instants, if hits share one) within Late and the longest
// limit; and a key that kept the limits is never blocked, in any order and above that bound too.
//
// A block is [from, until). Hits inside it neither count nor extend it, and at its end the window starts empty,
// unless Block.Extend. The first breaking hit at or after until is a new offence: one level up when it comes
// within Block.Forget of until, else at level 1.
//
// With Config.Distinct a limit is of how many different values the hits of a key have: HitValue counts these, exactly and in
// any order as Sliding counts hits (distinct.go). One limit above MostDistinct is of an estimate. Then a block begins when
// no hit can come any more that may count (sketch.go).
//
// With Config.Share a limit is of the share of hits that match: HitValue counts 1 for a hit that does, and 0 for another. A
// block begins when no hit can come any more that may lower the share (share.go).
// With Config.Members, what is counted are the blocks of other keys, which may change after they were counted: HitMember
// counts these (members.go).
//
// Take is the other way to use a Policy: it admits hits one by one as time goes on, and never counts one too many. Then
// there are no blocks, and nothing is late. Only then a limit may be of how many attempts there are at once: End ends them.
//
// A Policy never changes and is safe for concurrent use. A State belongs to one goroutine at a time. Nothing here
// reads a clock, starts a goroutine or does I/O; a hit allocates nothing but the growth of its state, which is 8
// bytes an instant remembered (16 where a limit is over half a million), of at most a quarter more than Remember. While
// late hits can still move blocks, the hits that do not count now may take as much again, and each block 56 bytes. For
// different values, BytesOfDistinct is the bound, or BytesOfEstimate, and for a share BytesOfShare.
//
// Other programs may import this package (docs/go.md).
package window

import (
	"cmp"
	"math"
	"time"
	"unsafe"
)

// Bounds of what a Config may ask for.
const (
	minRemember = 256
	maxRemember = 1 << 20
	maxHits     = 1 << 40 // a limit times its milliseconds stays within 128 bits, and sums within 63
	maxPer      = 10 * 366 * 24 * time.Hour
)

const (
	// Forever is the duration of a block that does not end.
	Forever = time.Duration(math.MaxInt64)
	// Never is the instant at which what lasts Forever ends.
	Never int64 = math.MaxInt64
	// MaxTime is the newest instant that can be counted, in the year 2109.
	MaxTime int64 = 1<<timeBits - 1
	// DefaultRemember is how many hits of a key are remembered exactly, LeastRemember and MostRemember how many can be.
	DefaultRemember = 4096
	LeastRemember   = minRemember
	MostRemember    = maxRemember
)

// BytesOfHit is the memory that a hit of a limit may take that is remembered.
func BytesOfHit(limit int64) int64 {
	if limit > narrowHits {
		return 20
	}
	return 10
}

// A Limit allows Hits hits Per duration.
type Limit struct {
	Hits int64
	Per  time.Duration // whole milliseconds
}

// A Block says what follows when a limit is broken.
type Block struct {
	For    time.Duration   // how long the first offence lasts, whole milliseconds, or Forever
	Then   []time.Duration // how long the second, third … offence lasts; the last one for all that follow
	Forget time.Duration   // after this long without a block, the next offence is the first again
	Extend bool            // hits inside the block count, and one that breaks a limit moves its end
	Clear  bool            // Sliding: it lasts until the window would admit a hit, and For at least; what counted still counts then
}

// A Config is what a Policy is made of.
type Config struct {
	Algorithm  Algorithm
	Limits     []Limit // at least one; where one hit breaks several, the first is named
	Late       time.Duration
	Remember   int   // the exactness bound, in hits per key; 0 is DefaultRemember
	Subwindows int   // Counter: parts of a window; 0 is 1, the interpolation between two counters
	Burst      int64 // Token: what the bucket holds, 0 is the limit; Uniform: hits let through early, 0 is none
	AtOnce     []int // of Limits, by their indexes: a hit counts until its attempt ends, and for Per at most; for Take only
	Ones       bool  // every hit is one request: those of one instant that come as one with their sum, too

	// Distinct is not 0 where the limits are of how many different values hits have (Policy.HitValue), and says what the
	// values are of: states with others begin again. It is for Sliding.
	Distinct uint64
	Share    *Share // nil where the limit is not of a share
	Members  bool   // the values are of members of a group, whose blocks are counted (Policy.HitMember)
	Passes   bool   // of Members: a group above counts what the blocks of the group leave (State.Passed)
	Shift    uint   // of Members: those from 2^32 on that differ in so many of their last bits alone count as one

	Block Block
}

// An Event is what a hit did.
type Event uint8

// The events.
const (
	Counted  Event = iota // it counts and every limit is kept
	Broke                 // it broke a limit: a block begins
	Extended              // it broke a limit inside a block with Extend: the block's end moved
	Blocked               // it is older than the end of the last block; with Extend it counts, but moves nothing
	Late                  // it is older than the key's newest hit by more than Late, and does not count
	Moved                 // it is late, and the last block is another than it was: from, until, level, limit or count
	Undone                // the last block of a group never was, or ended with its members' (HitMember)
)

// An Outcome is what a hit did, and the block it did it to when there is one.
type Outcome struct {
	Event       Event
	Limit       int   // the limit that was broken, where Event is Broke, Moved or Extended
	From, Until int64 // the block, but for Counted and Late; Until may be Never
	Count       int64 // hits that broke the limit, where Event is Broke, Moved or Extended; of one instant half a million at most
	Level       int   // of the offence: 1 is the first
	First       int64 // where Event is Broke, Moved or Undone, From and Level as they were when the block was found
	FirstLevel  int
	Others      bool // where Event is Blocked, whether State.Others has blocks all the same
}

// A Policy is what the hits of every key of one rule are held against.
type Policy struct {
	algorithm algorithm
	kind      Algorithm
	late      int64 // milliseconds
	block     Block
	limits    []int64 // hits
	ones      bool
	sliding   *sliding  // nil for the other algorithms
	leased    *leased   // nil without limits at once
	distinct  *distinct // nil where limits are not of different values, or these are estimated
	sketch    *sketch   // nil where no different values are estimated
	share     *share    // nil where the limit is not of a share
	members   *members  // nil where no blocks of members are counted
	group     *group    // of all limits where late hits can move blocks, else nil
	singly    *group    // of all limits where hits of one instant are judged one by one, else nil
	shortest  int64     // milliseconds that a block lasts at least
	longest   time.Duration
}

// A State is the memory of one key. The zero State is of a key never hit.
type State struct {
	first  log   // most policies need no other log
	newest int64 // the newest hit's instant, blocked or not; 0 before the first hit
	rare   *rare // nil until needed
}

// rare is what few keys or few policies have.
type rare struct {
	logs        []log // of limits that need a log of their own
	from, until int64 // the last block; until is 0 when there was none
	level       int
	unsettled   *unsettled // nil, or without blocks, when no late hit can move the last block any more
	seen        *seen      // nil where limits are not of different values
	sketched    *sketched  // nil where no different values are estimated
	shared      *shared    // nil where the limit is not of a share
	members     *memberLog // nil where no blocks of members are counted
}

// New makes a Policy, or says everything that is wrong with c.
func New(c Config) (*Policy, error) {
	c.Remember = cmp.Or(c.Remember, DefaultRemember)
	c.Subwindows = cmp.Or(c.Subwindows, 1)
	if err := c.validate(); err != nil {
		return nil, err
	}

	algorithm := newAlgorithm[c.Algorithm]
	switch {
	case len(c.AtOnce) > 0:
		algorithm = newLeased
	case c.Members:
		algorithm = newMembers
	case c.estimates():
		algorithm = newSketch
	case c.Distinct != 0:
		algorithm = newDistinct
	case c.Share != nil:
		algorithm = newShare
	}
	a, err := algorithm(&c)
	if err != nil {
		return nil, err
	}

	p := &Policy{algorithm: a, kind: c.Algorithm, late: c.Late.Milliseconds(), block: c.Block, ones: c.Ones, shortest: shortestOf(&c.Block)}
	for _, l := range c.Limits {
		p.limits = append(p.limits, l.Hits)
		p.longest = max(p.longest, l.Per)
	}

	// Blocks can only be moved where one log has all instants: coarse cells do not tell which hit came first. With
	// Extend a block swallows nothing, so that there is nothing to judge again.
	p.sliding, _ = a.(*sliding)
	p.leased, _ = a.(*leased)
	p.distinct, _ = a.(*distinct)
	if p.share, _ = a.(*share); p.share != nil {
		p.ones = false // the count of an offence is of the hits that match
	}
	if p.sketch, _ = a.(*sketch); p.sketch != nil {
		p.ones, p.late = false, p.sketch.late
	}
	p.members, _ = a.(*members)
	if p.sliding != nil && len(p.sliding.groups) == 1 && p.sliding.groups[0].exact() {
		if !c.Block.Extend && p.late > 0 {
			p.group = &p.sliding.groups[0]
		}
		if c.Ones {
			p.singly = &p.sliding.groups[0]
		}
	}

	return p, nil
}

// Lateness is how much older than the newest hit of its key a hit may be and count, in milliseconds.
func (p *Policy) Lateness() int64 { return p.late }

// Hit counts cost hits at the instant at, in Unix milliseconds, and says what that did. A cost below 1 counts
// nothing; an instant outside 0 to MaxTime cannot be counted and is Late.
//
// A hit without a value, where limits are of different values or of a share, has the value 0. Where blocks of members are
// counted, no hit is.
func (p *Policy) Hit(s *State, at, cost int64) Outcome {
	switch {
	case p.members != nil:
		return Outcome{Event: Late}
	case (p.distinct != nil || p.sketch != nil || p.share != nil) && cost > 0:
		return p.HitValue(s, at, 0)
	}
	if at < s.newest-p.late || at < 0 || at > MaxTime {
		return Outcome{Event: Late}
	}
	if cost < 1 {
		return Outcome{}
	}

	// This comes before all that follows: hits inside a block move the time on, too, and what can still be late is
	// measured from here.
	s.newest = max(s.newest, at)
	if r := s.rare; r != nil {
		// A block that late hits can still move takes every hit, also one outside it: the hit may come before it.
		if p.settle(s) {
			return p.hitUnsettled(s, at, cost)
		}
		if at < r.until {
			return p.hitInside(s, at, cost)
		}
	}

	return p.hitOutside(s, at, cost)
}

// hitOutside is a hit outside the last block.
func (p *Policy) hitOutside(s *State, at, cost int64) Outcome {
	if cost > 1 && p.singly != nil && at == s.newest {
		return p.hitSingly(s, at, cost)
	}
	b := p.algorithm.hit(s, at, cost)
	if b.limit < 0 {
		return Outcome{}
	}
	return p.begin(s, b, at < s.newest)
}

// hitSingly is several hits of one instant that are one request each: those behind the one that breaks a limit are inside
// the block.
func (p *Policy) hitSingly(s *State, at, cost int64) Outcome {
	b, inside := p.singly.hitSingly(&s.first, at, cost)
	if b.limit < 0 {
		return Outcome{}
	}
	o := p.begin(s, b, false)

	switch {
	case inside == 0:
	case p.group != nil:
		p.keepInside(s, at, inside)
	case p.block.Extend:
		p.algorithm.hit(s, at, inside) // it extends nothing, for the block has just begun
	}
	return o
}

// Count is what limit counts at the instant at: hits, or what a bucket holds. Hits inside a block are not in it
// unless the block extends.
func (p *Policy) Count(s *State, limit int, at int64) int64 {
	return p.algorithm.count(s, limit, at)
}

// Clears is the first instant from at on at which a limit, as New has it from its Config, counts nothing, if no hit comes.
func (p *Policy) Clears(s *State, limit int, at int64, per time.Duration) int64 {
	low, high := at, max(at, s.newest)+2*per.Milliseconds()
	for low < high {
		if mid := (low + high) / 2; p.Count(s, limit, mid) == 0 {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low
}

// Longest is the longest time of a limit: a hit that is older counts at none of them.
func (p *Policy) Longest() time.Duration { return p.longest }

// Clear is the instant from which on s answers every hit as the zero State would, but for late ones.
func (p *Policy) Clear(s *State) int64 {
	clear := p.algorithm.clear(s)
	switch {
	case s.rare == nil:
	case s.rare.level == 0:
		clear = max(clear, s.rare.until)
	default:
		clear = max(clear, later(s.rare.until, p.block.Forget))
	}
	return clear
}

// Touch reads a little of all that the next hit of s reads. A caller that counts hits of many keys touches these first: their
// states then come from memory all at the same time. The number that it returns means nothing.
func (p *Policy) Touch(s *State) int64 {
	switch a := p.algorithm.(type) {
	case *sliding:
		return a.touch(s)
	case *distinct:
		return a.touch(s)
	case *sketch:
		return a.touch(s)
	case *share:
		return a.touch(s)
	}
	return 0
}

// Newest is the instant of the newest hit of s, counted or not; 0 before the first.
func (s *State) Newest() int64 { return s.newest }

// Bytes is the memory that s holds, itself included.
func (s *State) Bytes() int {
	n := int(unsafe.Sizeof(*s)) + 8*cap(s.first)
	if s.rare == nil {
		return n
	}
	n += int(unsafe.Sizeof(*s.rare)) + int(unsafe.Sizeof(s.first))*cap(s.rare.logs)
	if v := s.rare.seen; v != nil {
		n += int(unsafe.Sizeof(*v)) + bytesOfValue*cap(v.values) + bytesOfPlace*cap(v.index) + int(unsafe.Sizeof(span{}))*cap(v.spans)
	}
	if v := s.rare.sketched; v != nil {
		n += int(unsafe.Sizeof(*v)) + bytesOfPart*cap(v.parts)
		for i := range v.parts {
			n += 4*cap(v.parts[i].few) + cap(v.parts[i].all)
		}
	}
	if v := s.rare.shared; v != nil {
		n += int(unsafe.Sizeof(*v)) + bytesOfCell*cap(v.cells)
	}
	if l := s.rare.members; l != nil {
		n += int(unsafe.Sizeof(*l)) + int(unsafe.Sizeof(MemberBlock{}))*cap(l.hits)
	}
	if u := s.rare.unsettled; u != nil {
		n += int(unsafe.Sizeof(*u)) + int(unsafe.Sizeof(block{}))*cap(u.blocks) + 8*cap(u.past)
	}
	for _, l := range s.rare.logs {
		n += 8 * cap(l)
	}
	return n
}

// log is the i-th log of s, made when it is first asked for.
func (s *State) log(i int) *log {
	if i == 0 {
		return &s.first
	}
	s.needRare()
	for len(s.rare.logs) < i {
		s.rare.logs = append(s.rare.logs, nil)
	}
	return &s.rare.logs[i-1]
}

func (s *State) needRare() {
	if s.rare == nil {
		s.rare = &rare{}
	}
}

// later is the instant d after at; Never where there is none.
func later(at int64, d time.Duration) int64 {
	if at == Never || d == Forever {
		return Never
	}
	return at + d.Milliseconds()
}
