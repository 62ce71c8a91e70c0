package window

// sliding is the sliding log: a hit at t breaks N per W when more than N hits, that one included, lie in (t-W, t].
//
// Limits up to Config.Remember share one log with a cell per millisecond that had hits, and are exact. A larger limit
// has a log of its own with cells W/128 long. A cell leaves the window as soon as its first instant does and enters
// it with its last, so that the limit errs only towards letting through: it is always broken when more than N hits
// lie within W less 1/64.
//
// A late hit asks again at each kept instant within W after it, and breaks the limit at the first of these that has
// too many. Hits are kept for Late and the longest limit, and no longer than the Remember newest instants; so a limit
// of N per W judges alike in any order of arrival while a key has no more instants than that.
//
// A hit costs one comparison a limit while the hits kept are within the limit, one more where no two hits share an
// instant, else a search that takes longer the more do. A late hit costs as much as there are hits after it.
type sliding struct {
	groups []group
	logs   []shape // of the groups
	places []place // of the limits, as Config.Limits has them
}

// A place is that of a limit among the groups.
type place struct{ group, limit int }

// A group is the limits that share a log.
type group struct {
	shape
	longest int64 // W of the longest limit
	limits  []slidingLimit
}

type slidingLimit struct {
	index int   // in Config.Limits
	hits  int64 // N
	per   int64 // W in milliseconds
}

// coarse is how many cells a window has whose limit is above the exactness bound.
const coarse = 128

func newSliding(c *Config) (algorithm, error) {
	var a sliding
	var exact []slidingLimit
	for i, l := range c.Limits {
		sl := slidingLimit{i, l.Hits, l.Per.Milliseconds()}
		if l.Hits <= int64(c.Remember) {
			exact = append(exact, sl)
			continue
		}
		a.groups = append(a.groups, newGroup(c, max(1, sl.per/coarse), sl))
	}

	if len(exact) > 0 {
		// The exact log comes first: it is State.first, and a policy without other logs allocates no more for a key.
		a.groups = append([]group{newGroup(c, 1, exact...)}, a.groups...)
	}
	for i := range a.groups {
		a.logs = append(a.logs, a.groups[i].shape)
	}

	a.places = make([]place, len(c.Limits))
	for i := range a.groups {
		for j := range a.groups[i].limits {
			a.places[a.groups[i].limits[j].index] = place{i, j}
		}
	}

	return &a, nil
}

func newGroup(c *Config, span int64, limits ...slidingLimit) group {
	var longest, largest int64
	for _, l := range limits {
		longest, largest = max(longest, l.per), max(largest, l.hits)
	}
	return group{newShape(c, span, 1, longest, largest), longest, limits}
}

func (a *sliding) hit(s *State, at, cost int64) broken {
	b := unbroken
	for i := range a.groups {
		g := &a.groups[i]
		if l := s.log(i); at == s.newest {
			b = b.or(g.hitNewest(l, at, cost))
		} else {
			b = b.or(g.hitLate(l, at, s.newest, cost))
		}
	}
	return b
}

// hitNewest counts a hit that no other is newer than: only the window that ends with it can be broken by it.
func (g *group) hitNewest(l *log, at, cost int64) broken {
	b := unbroken
	total := g.total(*l)
	for i := range g.limits {
		limit := &g.limits[i]
		if room := limit.hits - cost; total > room && g.exceeds(*l, at-limit.per, room) {
			b = broken{limit.index, at, g.since(*l, at-limit.per) + min(cost, g.most)}
			break
		}
	}

	// The hit joins the log also when it breaks a limit: whether it counts afterwards is for the block to decide
	// (forgetBlocked, move).
	g.add(l, g.slotOf(at), at, cost)
	return b
}

// hitSingly counts hits of one instant one after the other, up to the one that breaks a limit, and says how many are left.
// No hit is newer.
func (g *group) hitSingly(l *log, at, cost int64) (b broken, left int64) {
	b, counts := unbroken, cost+1
	for i := range g.limits {
		limit := &g.limits[i]
		before := g.since(*l, at-limit.per)
		if needs := max(1, limit.hits+1-before); needs < counts {
			b, counts = broken{limit.index, at, before + needs}, needs
		}
	}

	// The hits behind the one that breaks the limit are inside the block that it begins, and do not join the log here.
	counts = min(counts, cost)
	g.add(l, g.slotOf(at), at, counts)
	return b, cost - counts
}

// touch reads the cells of the first log that hitNewest begins with.
func (a *sliding) touch(s *State) (sum int64) {
	g, l := &a.groups[0], s.first
	n := g.len(l)
	if n == 0 {
		return 0
	}
	sum = g.slot(l, n-1)
	for i := range g.limits {
		if first := int64(n) - g.limits[i].hits; first >= 0 { // of as many as the limit allows
			sum += g.slot(l, int(first))
		}
	}
	return sum
}

// exceeds says whether more than room hits lie in the cells that start after the instant at, of a log that has more.
func (g *group) exceeds(l log, at, room int64) bool {
	if room < 0 || at < 0 {
		return true
	}

	// Every cell has a hit, so the cells after the one room before the end have enough room, were all of one hit.
	n := g.len(l)
	i := n - 1 - int(min(room, int64(n)))
	if i >= 0 && g.slot(l, i) > g.slotOf(at) {
		return true
	}

	// Cells may count several hits. The window has more than room if the cell that brings the sum up to rest lies
	// inside it: then fewer than rest hits lie before it.
	rest := g.total(l) - room
	if g.sum(l, i) >= rest {
		return false
	}
	return g.slot(l, g.reaching(l, i, rest)) > g.slotOf(at)
}

func (g *group) total(l log) int64 { return g.sum(l, g.len(l)-1) }

// since is how many hits lie in the cells that start after the instant at.
func (g *group) since(l log, at int64) int64 {
	return g.total(l) - g.sum(l, g.startingAfter(l, at)-1)
}

// hitLate counts a hit that others are newer than, and asks again at all of them that it lies in the window of.
func (g *group) hitLate(l *log, at, newest, cost int64) broken {
	b := unbroken
	pos := g.add(l, g.slotOf(at), newest, cost)
	start := g.start(g.slot(*l, pos))
	for i := range g.limits {
		limit := &g.limits[i]
		from := g.startingAfter(*l, start-limit.per)

		// Both ends of the window move forward together, so a late hit costs one pass over the cells after it, not a
		// search a cell.
		for j := pos; j < g.len(*l); j++ {
			// The window ends with the last instant of a cell, and starts with the first of one: a coarse cell may only
			// let through too much. No hit is newer than newest, though the cell's end may be.
			until := min(g.end(g.slot(*l, j)), newest)
			if start <= until-limit.per {
				break
			}

			for g.start(g.slot(*l, from)) <= until-limit.per {
				from++
			}
			if n := g.sum(*l, j) - g.sum(*l, from-1); n > limit.hits {
				b = b.or(broken{limit.index, until, n})
				break
			}
		}
	}

	return b
}

func (a *sliding) count(s *State, i int, at int64) int64 {
	g, l, limit := a.limit(s, i)
	return g.count(l, limit, at)
}

func (g *group) count(l log, limit *slidingLimit, at int64) int64 {
	until := g.after(l, g.slotOf(at))
	return g.sum(l, until-1) - g.sum(l, min(until, g.startingAfter(l, at-limit.per))-1)
}

func (a *sliding) clear(s *State) int64 {
	var clear int64
	for i := range a.groups {
		clear = max(clear, a.groups[i].clear(*s.log(i)))
	}
	return clear
}

func (g *group) clear(l log) int64 {
	if len(l) == 0 {
		return 0
	}
	return g.start(g.newestSlot(l)) + g.longest
}

func (a *sliding) forget(s *State, from int64) {
	for i := range a.groups {
		a.groups[i].dropBefore(s.log(i), from)
	}
}

func (a *sliding) shapes() []shape { return a.logs }
