package window

// leased is the limits of Config.AtOnce next to others. A hit of theirs counts until its attempt ends (Policy.End), and for
// the limit's Per at most, the lease. They are counted exactly as sliding counts, whatever the algorithm of the others is:
// in a log of their own, which has the attempts that have not ended. So N at once are never more than N of those.
type leased struct {
	plain  algorithm // of all other limits
	own    group
	log    int // the place of own's log in a state: behind those of plain
	places []leasedPlace
	plains []int // of plain's limits: their index in Config.Limits
}

// A leasedPlace is that of a limit: among those of plain, or of own.
type leasedPlace struct {
	atOnce bool
	limit  int
}

func newLeased(c *Config) (algorithm, error) {
	a := &leased{places: make([]leasedPlace, len(c.Limits))}
	var limits []slidingLimit
	rest := *c
	rest.Limits = nil
	for _, i := range c.AtOnce {
		a.places[i] = leasedPlace{true, len(limits)}
		limits = append(limits, slidingLimit{i, c.Limits[i].Hits, c.Limits[i].Per.Milliseconds()})
	}
	for i, l := range c.Limits {
		if !a.places[i].atOnce {
			a.places[i] = leasedPlace{false, len(a.plains)}
			a.plains, rest.Limits = append(a.plains, i), append(rest.Limits, l)
		}
	}

	a.plain = &sliding{} // it counts nothing, if there are no other limits
	if len(a.plains) > 0 {
		var err error
		if a.plain, err = newAlgorithm[c.Algorithm](&rest); err != nil {
			return nil, err
		}
	}
	a.log = len(a.plain.shapes())
	if _, isBuckets := a.plain.(buckets); isBuckets {
		a.log = 1
	}
	// The log has only what has not ended, so it is as long as it has to be.
	rest.Remember = maxRemember
	a.own = newGroup(&rest, 1, limits...)
	return a, nil
}

func (a *leased) hit(s *State, at, cost int64) broken {
	b := a.plain.hit(s, at, cost)
	if b.limit >= 0 {
		b.limit = a.plains[b.limit]
	}
	l := s.log(a.log)
	if at == s.newest {
		return b.or(a.own.hitNewest(l, at, cost))
	}
	return b.or(a.own.hitLate(l, at, s.newest, cost))
}

func (a *leased) count(s *State, i int, at int64) int64 {
	place := a.places[i]
	if !place.atOnce {
		return a.plain.count(s, place.limit, at)
	}
	return a.own.count(*s.log(a.log), &a.own.limits[place.limit], at)
}

func (a *leased) clear(s *State) int64 { return max(a.plain.clear(s), a.own.clear(*s.log(a.log))) }

func (a *leased) forget(s *State, from int64) {
	a.plain.forget(s, from)
	a.own.dropBefore(s.log(a.log), from)
}

func (a *leased) room(s *State, i int, at int64) int64 {
	place := a.places[i]
	if !place.atOnce {
		return a.plain.room(s, place.limit, at)
	}
	return a.own.room(*s.log(a.log), &a.own.limits[place.limit], at)
}

func (a *leased) admits(s *State, i int, at, cost int64) int64 {
	place := a.places[i]
	if !place.atOnce {
		return a.plain.admits(s, place.limit, at, cost)
	}
	return a.own.admits(*s.log(a.log), &a.own.limits[place.limit], at, cost)
}

// settle leaves the limits at once alone: what an attempt has cost does not change what it occupies.
func (a *leased) settle(s *State, now, at, cost, actual int64) {
	a.plain.settle(s, now, at, cost, actual)
}

func (a *leased) shapes() []shape { return a.plain.shapes() }

// AtOnce reports whether attempts occupy limits until they end.
func (p *Policy) AtOnce() bool { return p.leased != nil }

// End frees what an attempt that Take admitted occupies at the limits of Config.AtOnce: at and cost are those of the
// attempt as it was admitted. It is for the first settlement of an attempt, and must not be called for it again: hits of one
// instant are not told apart. Of an attempt whose lease is over it frees nothing.
func (p *Policy) End(s *State, now, at, cost int64) {
	now = max(s.newest, min(max(now, 0), MaxTime))
	if p.leased == nil || at < 0 || at > now || cost < 1 {
		return
	}
	s.newest = now
	p.leased.own.settle(s.log(p.leased.log), at, now, -cost)
}

// TakeBack is as if an attempt that Take admitted had not been made: at and cost are those of the attempt.
func (p *Policy) TakeBack(s *State, now, at, cost int64) {
	p.End(s, now, at, cost)
	p.Settle(s, now, at, cost, 0)
}

// plain is the algorithm of the limits that are not at once.
func (p *Policy) plain() algorithm {
	if p.leased != nil {
		return p.leased.plain
	}
	return p.algorithm
}
