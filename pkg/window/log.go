package window

// A log is a row of cells in the order of time. A cell stands for the hits of one slot of time, and holds the slot
// and the sum of all hits up to and with it, so that the hits between two cells are a difference. It is one word,
// slot<<sumBits | sum, or where sums are wide two: slot, sum. Slots are equally long; the shape of a log says how
// long. All else that is needed to read it stands in the shape too, so that a state holds words only.
type log []uint64

const (
	timeBits = 42
	sumBits  = 64 - timeBits
	// narrowHits is the largest limit whose sums are kept narrow: eight times as much still fits.
	narrowHits = 1 << (sumBits - 3)
)

// A shape is how the logs of one or several limits look.
type shape struct {
	span, parts int64 // a slot is span/parts milliseconds long: at lies in slot at*parts/span
	keep        int64 // cells that ended this many milliseconds before the newest hit answer no question
	cells       int   // as many newest cells are never dropped for want of room
	most        int64 // a cell counts at most so many hits, more than any limit
	wide        int   // 1 where cells are two words, else 0
}

func newShape(c *Config, span, parts, longest, largest int64) shape {
	sh := shape{span: span, parts: parts, keep: c.Late.Milliseconds() + longest, cells: c.Remember, most: narrowHits + 1}
	if largest > narrowHits {
		sh.wide, sh.most = 1, maxHits+1
	}
	return sh
}

func (sh *shape) slotOf(at int64) int64 {
	if sh.span == sh.parts {
		return at
	}
	return at * sh.parts / sh.span
}

// start is the first instant of a slot, end the last.
func (sh *shape) start(slot int64) int64 { return (slot*sh.span + sh.parts - 1) / sh.parts }
func (sh *shape) end(slot int64) int64   { return sh.start(slot+1) - 1 }

func (sh *shape) len(l log) int { return len(l) >> sh.wide }

func (sh *shape) slot(l log, i int) int64 {
	if sh.wide == 1 {
		return int64(l[2*i])
	}
	return int64(l[i] >> sumBits)
}

// sum is of the hits of the cells up to and with the i-th; 0 for -1.
func (sh *shape) sum(l log, i int) int64 {
	switch {
	case i < 0:
		return 0
	case sh.wide == 1:
		return int64(l[2*i+1])
	}
	return int64(l[i] & (1<<sumBits - 1))
}

func (sh *shape) set(l log, i int, slot, sum int64) {
	if sh.wide == 1 {
		l[2*i], l[2*i+1] = uint64(slot), uint64(sum)
		return
	}
	l[i] = uint64(slot)<<sumBits | uint64(sum)
}

// after is the first of the cells whose slot is beyond slot.
func (sh *shape) after(l log, slot int64) int {
	lo := 0
	for hi := sh.len(l); lo < hi; {
		if mid := int(uint(lo+hi) / 2); sh.slot(l, mid) > slot {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// startingAfter is the first of the cells that starts after the instant at.
func (sh *shape) startingAfter(l log, at int64) int {
	if at < 0 {
		return 0
	}
	return sh.after(l, sh.slotOf(at))
}

// reaching is the first of the cells after lo whose sum is at least sum, which the newest cell's is. It is sought in
// growing steps, for it is near.
func (sh *shape) reaching(l log, lo int, sum int64) int {
	last := sh.len(l) - 1
	hi := lo + 1
	for step := 1; hi < last && sh.sum(l, hi) < sum; step *= 2 {
		lo, hi = hi, min(hi+step, last)
	}

	for hi-lo > 1 {
		if mid := int(uint(lo+hi) / 2); sh.sum(l, mid) < sum {
			lo = mid
		} else {
			hi = mid
		}
	}

	return hi
}

// hits are the hits of the slot alone.
func (sh *shape) hits(l log, slot int64) int64 {
	i := sh.after(l, slot) - 1
	if i < 0 || sh.slot(l, i) != slot {
		return 0
	}
	return sh.sum(l, i) - sh.sum(l, i-1)
}

// add counts cost hits in the slot and returns the index of its cell. Where the log is full, the oldest cells go:
// then it counts too few hits, never too many.
func (sh *shape) add(l *log, slot, newest, cost int64) int {
	if sh.addLast(l, slot, cost) {
		return len(*l) - 1
	}

	// The sums are made small before the place is sought: dropping cells moves the indexes.
	sh.makeSumRoom(l, min(cost, sh.most))
	i := sh.place(l, slot, newest)

	// More than a limit's worth in a cell answers no question, and one hit with a huge cost must not overflow the sums.
	cost = min(cost, sh.most-(sh.sum(*l, i)-sh.sum(*l, i-1)))
	for j := i; j < sh.len(*l); j++ {
		sh.set(*l, j, sh.slot(*l, j), sh.sum(*l, j)+cost)
	}
	return i
}

// addLast does so where that is but one more narrow cell: as nearly always.
func (sh *shape) addLast(l *log, slot, cost int64) bool {
	n := len(*l)
	if sh.wide == 1 || n == 0 || n == cap(*l) || cost > sh.most {
		return false
	}
	last := (*l)[n-1]
	sum := int64(last&(1<<sumBits-1)) + cost
	// A cell of the same slot, or one before the last, changes sums that are there already: that is the general case's
	// work.
	if int64(last>>sumBits) >= slot || sum >= 8*narrowHits {
		return false
	}
	*l = append(*l, uint64(slot)<<sumBits|uint64(sum))
	return true
}

// place is the index of the slot's cell, which is made where there is none.
func (sh *shape) place(l *log, slot, newest int64) int {
	i := sh.find(*l, slot)
	if i < sh.len(*l) && sh.slot(*l, i) == slot {
		return i
	}

	if len(*l)+1+sh.wide > cap(*l) {
		sh.makeRoom(l, newest)
		i = sh.find(*l, slot)
	}

	old := *l
	*l = old[:len(old)+1+sh.wide]
	copy((*l)[(i+1)<<sh.wide:], old[i<<sh.wide:])
	sh.set(*l, i, slot, sh.sum(*l, i-1))
	return i
}

// find is the index of the slot's cell, or of the one that it would stand before.
func (sh *shape) find(l log, slot int64) int {
	switch n := sh.len(l); {
	case n == 0 || sh.slot(l, n-1) < slot:
		return n
	case sh.slot(l, n-1) == slot:
		return n - 1
	}
	return sh.after(l, slot-1)
}

// mostCells is how many a log may have: a quarter more than those that are never dropped for want of room.
func (sh *shape) mostCells() int { return sh.cells + sh.cells/4 }

// makeRoom makes room for a cell: cells too old to answer a question go where they are many, else the log grows, up
// to a quarter more than must be kept. Then the oldest go.
func (sh *shape) makeRoom(l *log, newest int64) {
	n, most := sh.len(*l), sh.mostCells()
	gone := sh.startingAfter(*l, newest-sh.keep)

	// Dropping moves all that stays, so it waits until it frees a fixed part of the log, a fifth when that is full, else
	// a quarter: a hit then pays for a few cells, not for the log.
	if n >= most {
		sh.drop(l, max(gone, n-sh.cells))
		return
	}
	if gone > n/4 {
		sh.drop(l, gone)
		return
	}

	grown := make(log, len(*l), min(n+n/4+2, most)<<sh.wide)
	copy(grown, *l)
	*l = grown
}

// makeSumRoom drops oldest cells where the sum with cost more hits would not fit its bits. More than any limit
// stays.
func (sh *shape) makeSumRoom(l *log, cost int64) {
	n := sh.len(*l)
	sum := sh.sum(*l, n-1) + cost
	if sh.wide == 1 || sum < 8*narrowHits {
		return
	}

	// Half of the range is freed at once, or every hit of a busy key would move its log.
	gone := 1
	for sum-sh.sum(*l, gone-1) >= 4*narrowHits {
		gone++
	}
	sh.drop(l, gone)
}

// drop drops the oldest n cells.
func (sh *shape) drop(l *log, n int) {
	gone := sh.sum(*l, n-1)
	rest := (*l)[:copy(*l, (*l)[n<<sh.wide:])]
	for i := range sh.len(rest) {
		sh.set(rest, i, sh.slot(rest, i), sh.sum(rest, i)-gone)
	}
	*l = rest
}

// dropBefore drops all cells that start before the instant from.
func (sh *shape) dropBefore(l *log, from int64) {
	if n := sh.startingAfter(*l, from-1); n > 0 {
		sh.drop(l, n)
	}
}

// newestSlot is the slot of the newest cell of a log that has one.
func (sh *shape) newestSlot(l log) int64 { return sh.slot(l, sh.len(l)-1) }
