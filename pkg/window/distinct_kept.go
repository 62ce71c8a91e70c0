package window

// Which hits of a key are kept, where limits are of different values.

// append adds a hit that none is newer than. It returns false if there is one of its value and instant.
func (d *distinct) append(s *State, at int64, value uint64) bool {
	v := s.rare.seen
	last := v.find(value)
	if last >= 0 && v.values[last].at() == at {
		return false
	}
	if len(v.values) == cap(v.values) {
		d.makeRoom(s)
		last = v.find(value)
	}

	j := len(v.values)
	v.values = append(v.values, newSeenValue(at, value))
	v.follow(last, j)
	v.point(last, j)
	return true
}

// insert adds a hit at its place, and leaves counting to the caller. It returns false if there is one of its value and
// instant.
func (d *distinct) insert(s *State, at int64, value uint64) bool {
	v := s.rare.seen
	if len(v.values) == cap(v.values) {
		d.makeRoom(s)
	}

	j := v.after(at)
	before, next := v.find(value), -1
	for before >= j {
		before, next = v.before(before), before
	}
	if before >= 0 && v.values[before].at() == at {
		return false
	}

	v.values = append(v.values, seenValue{})
	copy(v.values[j+1:], v.values[j:])
	for k := len(v.values) - 1; k > j; k-- {
		one := &v.values[k]
		if back := one.back(); back > 0 && k-1-back < j {
			one.setBack(back + 1)
		}
		if one.word&valueNext == 0 {
			v.point(k-1, k)
		}
	}

	v.values[j] = newSeenValue(at, value)
	v.follow(before, j)
	if next >= 0 {
		v.follow(j, next+1)
	} else {
		v.point(before, j)
	}
	return true
}

// keep adds a hit inside a block, which does not count now.
func (d *distinct) keep(s *State, at int64, value uint64) {
	v := s.rare.seen
	if !d.insert(s, at, value) {
		return
	}
	// It is before all that count.
	v.start++
	for i := range v.spans {
		v.spans[i].from++
	}
}

// makeRoom makes room for one more hit: those go that change no answer, and where these are few, more are kept from now
// on. Where a key has as many as it may have, its blocks stay where they are, and older hits of values go.
func (d *distinct) makeRoom(s *State) {
	v := s.rare.seen
	n := len(v.values)
	enough := n - max(1, n/4) // dropping moves all that stays, so it has to free a fixed part
	if d.drop(s, d.unmovedUntil(s)); len(v.values) <= enough {
		return
	}

	if n < d.most {
		grown := make([]seenValue, len(v.values), min(n+n/2+8, d.most))
		copy(grown, v.values)
		v.values = grown
		v.link()
		d.recount(s)
		return
	}
	d.fix(s)
	if d.drop(s, MaxTime); len(v.values) > enough {
		v.keepNewest(enough)
		d.recount(s)
	}
}

// unmovedUntil is the instant before which counting begins nowhere, however late hits move blocks.
func (d *distinct) unmovedUntil(s *State) int64 {
	if !d.keepInside {
		return MaxTime
	}
	return s.newest - d.late + d.lasts
}

// drop drops the hits that can change no answer. Those between two of the same value that are less than the shortest window
// apart are among them, if they are before an instant.
func (d *distinct) drop(s *State, before int64) {
	v, r := s.rare.seen, s.rare
	final := s.newest - d.late // what is up to here has come
	from := final - d.longest + 1
	switch u := r.unsettled; {
	case u == nil || len(u.blocks) == 0:
		from = max(from, r.until)
	case !d.canMove(s, &u.blocks[0]):
		from = max(from, u.blocks[0].until)
	}

	for k := range v.values {
		one := &v.values[k]
		one.word &^= valueAgain // here: it goes
		if one.at() < from {
			one.word |= valueAgain
			continue
		}
		j := v.before(k)
		if j < 0 || v.values[j].word&valueAgain != 0 {
			continue
		}
		if one.at() <= final {
			v.values[j].word |= valueAgain
			continue
		}
		i := v.before(j)
		if v.values[j].at() < before && i >= 0 && v.values[i].word&valueAgain == 0 && one.at()-v.values[i].at() < d.shortest && (i >= v.start || k < v.start) {
			v.values[j].word |= valueAgain
			one.setBack(k - i)
		}
	}

	v.dropMarked()
	d.recount(s)
}
