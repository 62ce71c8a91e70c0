package pipeline

import (
	"time"

	"weir/pkg/collector/pace"
	"weir/pkg/evidence"
	"weir/pkg/request"
	"weir/pkg/rule"
)

// evidenceAge is the age above which requests are not copied for evidence: a backlog is counted without the copy, and
// without reading the fields that only the copy needs.
const evidenceAge = 10 * time.Minute

// A copier copies the requests of one stream that count for rules with evidence. It costs no lock: its buffer goes to
// the ring with the cut.
type copier struct {
	ring   *evidence.Ring   // nil copies nothing
	buffer *evidence.Buffer // nil when nothing was copied since the last cut
	on     bool             // the requests of the open cut are copied
	old    bool             // the cut before was of a backlog
	since  int64            // Unix ms; older requests are not copied
}

// begin begins a cut, and reports whether the fields to be read change.
func (c *copier) begin(r *ruling, clock int64) (changed bool) {
	on := r.evidence != nil && !c.old
	changed = on != c.on
	c.on, c.since = on, clock-evidenceAge.Milliseconds()
	return changed
}

// end gives what was copied to the ring, at the end of a cut.
func (c *copier) end(of *Cut) {
	if of.first != pace.NoTime { // it has requests
		c.old = of.Reached < of.Clock-evidenceAge.Milliseconds()
	}
	c.flush()
}

func (c *copier) flush() {
	if c.buffer != nil {
		c.ring.Put(c.buffer)
		c.buffer = nil
	}
}

// add copies a request that is a hit of a rule, whose number in the ring is given.
func (c *copier) add(number uint64, h *rule.Hit, r *request.Request) {
	if number == 0 || r.UnixMilli < c.since {
		return
	}
	if c.buffer == nil {
		c.buffer = c.ring.Buffer()
	}
	if c.buffer.Add(c.ring.Hash(number, h.Key), r); c.buffer.Full() {
		c.flush()
	}
}
