package pipeline

import (
	"slices"

	"weir/pkg/inline"
	"weir/pkg/request"
)

// endFields are the fields in which an edge may log the attempt of a request: one of its own, or the enforcer's decision.
var endFields = []string{"lease", "weir"}

// readEnds notes whether lines end requests, so that the field with the attempt is read.
func (r *ruling) readEnds() {
	_, lease := r.set.EndsByLog()
	if r.lease = lease.Milliseconds(); r.lease > 0 && r.reads != nil { // nil is all fields
		r.reads = slices.Concat(r.reads, endFields)
	}
}

// endedTogether is how many attempts a stream passes on at once, unless it has no more to read.
const endedTogether = 64

// An ender collects the attempts of one stream whose requests have ended. It costs no lock for each of them. Lines that
// are read again end the same attempts again, which changes nothing.
type ender struct {
	put func([]inline.ID)
	ids []inline.ID
}

// add notes the attempt in a line, unless its lease is over.
func (e *ender) add(r *request.Request, lease, clock int64) {
	if lease == 0 || r.UnixMilli < clock-lease || r.Take != nil { // the record of an attempt is no end of it
		return
	}
	for _, name := range endFields {
		text, _ := r.Field(name)
		if id, ok := inline.LeaseIn(text); ok {
			if e.ids = append(e.ids, id); len(e.ids) >= endedTogether {
				e.flush()
			}
			return
		}
	}
}

func (e *ender) flush() {
	if len(e.ids) > 0 {
		e.put(e.ids)
		e.ids = e.ids[:0]
	}
}
