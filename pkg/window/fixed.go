package window

// fixed counts in periods of W that begin at whole multiples of W since 1970: a hit breaks N per W when its period has
// more than N hits. Two periods may each have N, so that up to 2N pass within a W that straddles them; never more.
//
// A late hit counts in the period it belongs to. A state has a cell for each period that had hits within Late and W,
// the newest Config.Remember at most. A hit costs a few comparisons a limit, a late one a binary search.
type fixed struct {
	limits  []Limit
	periods []shape // of the limit's log
	ones    bool    // each hit is one request, so those of one instant come one after the other
}

func newFixed(c *Config) (algorithm, error) {
	a := fixed{limits: c.Limits, ones: c.Ones}
	for _, l := range c.Limits {
		per := l.Per.Milliseconds()
		a.periods = append(a.periods, newShape(c, per, 1, per, l.Hits))
	}
	return &a, nil
}

func (a *fixed) hit(s *State, at, cost int64) broken {
	b, counts := unbroken, cost+1
	for i := range a.limits {
		p, l, most := &a.periods[i], s.log(i), a.limits[i].Hits
		before := p.hits(*l, p.slotOf(at))
		p.add(l, p.slotOf(at), s.newest, cost)

		// Where hits of one instant are one request each, the limit that the first of them breaks is named, as if they
		// had come one by one.
		needs := cost // how many of the hits break the limit
		if a.ones {
			needs = max(1, most+1-before)
		}
		if before+cost > most && needs < counts {
			b, counts = broken{i, at, before + cost}, needs
		}
	}
	return b
}

func (a *fixed) count(s *State, i int, at int64) int64 {
	return a.periods[i].hits(*s.log(i), a.periods[i].slotOf(at))
}

func (a *fixed) clear(s *State) int64 {
	var clear int64
	for i := range a.periods {
		if l := *s.log(i); len(l) > 0 {
			clear = max(clear, a.periods[i].end(a.periods[i].newestSlot(l))+1)
		}
	}
	return clear
}

func (a *fixed) forget(s *State, from int64) {
	for i := range a.periods {
		a.periods[i].dropBefore(s.log(i), from)
	}
}

func (a *fixed) shapes() []shape { return a.periods }
