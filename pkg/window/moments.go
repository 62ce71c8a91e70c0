package window

// A few moments fit the stack.
const fewMoments = 256

// A moment is cost hits at one instant.
type moment struct{ at, cost int64 }

// tail returns the hits of two logs from an instant on, with one more moment, in the order of time. Of a slot that is
// in both, those in b come first: they counted, and those in a were inside the block that they began.
func (g *group) tail(to []moment, a, b log, more moment) []moment {
	slot := g.slotOf(more.at)
	i, j := g.after(a, slot-1), g.after(b, slot-1)
	added := false
	add := func(m moment) {
		if !added && m.at >= more.at {
			added = true
			// Hits of one instant are one moment, so that a replay sees what the log would have, had they come in
			// order.
			if m.at == more.at {
				m.cost = min(m.cost+min(more.cost, g.most), g.most)
			} else {
				to = append(to, more)
			}
		}
		to = append(to, m)
	}

	for i < g.len(a) || j < g.len(b) {
		if j == g.len(b) || i < g.len(a) && g.slot(a, i) < g.slot(b, j) {
			add(g.moment(a, i))
			i++
			continue
		}
		add(g.moment(b, j))
		j++
	}

	if !added {
		to = append(to, more)
	}
	return to
}

// moments are what is in a log from an instant on.
func (g *group) moments(to []moment, l log, at int64) []moment {
	for i := g.after(l, g.slotOf(at)-1); i < g.len(l); i++ {
		to = append(to, g.moment(l, i))
	}
	return to
}

func (g *group) moment(l log, i int) moment {
	return moment{g.start(g.slot(l, i)), g.sum(l, i) - g.sum(l, i-1)}
}

// until is a log without the cells from an instant on.
func (g *group) until(l log, at int64) log { return l[:g.after(l, g.slotOf(at)-1)<<g.wide] }

// split cuts a log at an instant.
func (g *group) split(l log, at int64) (before, from log) {
	n := g.after(l, g.slotOf(at)-1)
	if n == 0 {
		return nil, l
	}

	// The two parts are added to independently from now on, so they cannot share their memory.
	from = append(log(nil), l...)
	g.drop(&from, n)
	return l[:n<<g.wide], from
}

// move puts what is in one log behind another.
func (g *group) move(to, from *log) {
	if len(*to) == 0 {
		*to, *from = *from, (*to)[:0]
		return
	}
	n, total := g.len(*to), g.total(*to)
	if all := n + g.len(*from); all<<g.wide > cap(*to) {
		grown := make(log, len(*to), max(all, min(all+all/4, g.mostCells()))<<g.wide)
		copy(grown, *to)
		*to = grown
	}
	*to = append(*to, *from...)
	for i := n; i < g.len(*to); i++ {
		g.set(*to, i, g.slot(*to, i), g.sum(*to, i)+total)
	}
	*from = (*from)[:0]
}

// cut takes the cells from, up to and not with until, out of a log.
func (g *group) cut(l *log, from, until int) {
	gone := g.sum(*l, until-1) - g.sum(*l, from-1)
	rest := (*l)[:from<<g.wide+copy((*l)[from<<g.wide:], (*l)[until<<g.wide:])]
	for i := from; i < g.len(rest); i++ {
		g.set(rest, i, g.slot(rest, i), g.sum(rest, i)-gone)
	}
	*l = rest
}
