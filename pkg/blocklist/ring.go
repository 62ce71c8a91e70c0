package blocklist

import "sort"

// A ring keeps the last records of the log, so that followers need not begin again.
type ring struct {
	size    int
	changes []Change // grows up to size, then wraps
	next    int      // where the next one goes after wrapping
	from    int64    // every record after this offset is here
}

// reset forgets all records; the next ones follow the offset.
func (r *ring) reset(from int64) { *r = ring{size: r.size, from: from} }

func (r *ring) add(c Change) {
	own := make([]byte, 0, len(c.Key)+len(c.Value))
	own = append(append(own, c.Key...), c.Value...)
	kept := Change{Offset: c.Offset, Key: own[:len(c.Key):len(c.Key)]}
	if c.Value != nil {
		kept.Value = own[len(c.Key):]
	}

	if len(r.changes) < r.size {
		r.changes = append(r.changes, kept)
		return
	}

	r.from = r.changes[r.next].Offset
	r.changes[r.next] = kept
	r.next = (r.next + 1) % r.size
}

// after returns the records after an offset, at most limit of them, or false when some of them are gone.
func (r *ring) after(offset int64, limit int) ([]Change, bool) {
	if offset < r.from {
		return nil, false
	}
	count := len(r.changes)
	at := func(i int) *Change { return &r.changes[(r.next+i)%count] }
	first := sort.Search(count, func(i int) bool { return at(i).Offset > offset })
	wanted := min(count-first, limit)
	found := make([]Change, wanted)
	for i := range found {
		found[i] = *at(first + i)
	}
	return found, true
}

// at returns the record of an offset, if it is still here.
func (r *ring) at(offset int64) (Change, bool) {
	found, _ := r.after(max(offset-1, r.from), 1)
	if len(found) == 0 || found[0].Offset != offset {
		return Change{}, false
	}
	return found[0], true
}
