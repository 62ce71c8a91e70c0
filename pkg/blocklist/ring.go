package blocklist

// A ring keeps the last records.
type ring struct {
	changes []Change
	first   int // index of the oldest
	count   int
	from    Version // everything after it is here
}

func newRing(size int) ring {
	return ring{changes: make([]Change, 0, min(size, 1024)), from: Version{Offset: -1}}
}

func (r *ring) reset(from Version) {
	clear(r.changes)
	r.changes, r.from = r.changes[:0], from
}

func (r *ring) add(c Change) {
	r.changes = append(r.changes, Change{c.Offset, append([]byte(nil), c.Key...), append([]byte(nil), c.Value...)})
}

func (r *ring) after(v, now Version, limit int) ([]Change, bool) {
	if v.List != now.List || v.Offset < r.from.Offset || v.Offset > now.Offset {
		return nil, false
	}
	var out []Change
	for _, c := range r.changes {
		if c.Offset > v.Offset && len(out) < limit {
			out = append(out, c)
		}
	}
	return out, true
}
