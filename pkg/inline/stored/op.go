package stored

import (
	"sync/atomic"
	"time"

	"weir/pkg/inline"
	"weir/pkg/window"
)

// undoPatience is how long it is tried to return what was taken for an attempt that is refused or was given up.
const undoPatience = time.Second

type kind uint8

const (
	take   kind = iota // counts if the key admits it
	ask                // counts nothing
	settle             // sets the cost of what was counted
	undo               // settle to nothing, and forget the attempt
)

// An op is what one call wants of one key. Its caller waits for done, and then reads the answer; until then it belongs to
// the goroutine that decides for the key.
type op struct {
	kind     kind
	rule     *inline.Rule
	deadline time.Time

	costs []int64 // of take and ask
	once  bool    // the record may be there already
	cost  int64   // of settle; inline.Kept leaves it as it is

	record   string   // the name of the attempt's cell
	names    []string // of keys, which the record names
	recorded Cell
	sent     bool // the commit has a change of the record

	// The answer.
	taken   []window.Taken // of take and ask
	refused bool           // by a limit that enforces
	known   bool           // it was counted before; or there was something to settle
	counted bool

	done  chan error
	state atomic.Uint32
	moved atomic.Bool // the database has answered that another was faster
}

const (
	waits uint32 = iota
	isDone
	isAbandoned
)

// finish answers the caller, and reports whether one still waits.
func (o *op) finish(err error) bool {
	if !o.state.CompareAndSwap(waits, isDone) {
		return false
	}
	o.done <- err
	return true
}

// abandon reports whether the op has no answer yet, and gets none then.
func (o *op) abandon() bool { return o.state.CompareAndSwap(waits, isAbandoned) }

func (o *op) abandoned() bool { return o.state.Load() == isAbandoned }

// decide decides an op on the state of its key. It returns the change of the record, and whether the state is another.
func (o *op) decide(st *state, now int64, settleable time.Duration) (record Change, changed bool, err error) {
	record = Change{Name: o.record, Decided: o.recorded.Version}
	if o.kind == take || o.kind == ask {
		changed = o.take(st, now, &record, settleable)
	} else {
		changed, err = o.settle(st, now, &record, settleable)
	}
	o.sent = record.Next != 0 || o.once || o.kind > ask
	return record, changed, err
}

func (o *op) take(st *state, now int64, change *Change, settleable time.Duration) (changed bool) {
	o.taken, o.refused, o.counted = make([]window.Taken, len(o.costs)), false, false
	o.known = o.once && o.recorded.Version != 0
	var counts record
	for i, cost := range o.costs {
		if o.known {
			cost = 0
		}
		t := &o.taken[i]
		*t = st.policy.Take(&st.State, now, cost)
		// A limit refuses even nothing while an attempt is settled to more than it admits.
		t.Admitted = t.Admitted || o.known
		o.refused = o.refused || !t.Admitted && !o.rule.Shadow
		if t.Admitted && cost > 0 {
			counts.parts = append(counts.parts, part{at: t.At, cost: cost})
		}
	}

	if o.refused || o.kind == ask {
		o.takeBack(st)
		return false
	}
	o.counted = len(counts.parts) > 0
	if o.counted || len(o.names) > 1 { // the others may count
		counts.names = o.names
		change.Next, change.State, change.Expires = newVersion(), counts.bytes(), now+settleable.Milliseconds()
		o.recorded = Cell{change.Next, change.State}
	}
	return o.counted
}

// takeBack returns what a take has counted a moment ago. The answer is then as if nothing had been asked.
func (o *op) takeBack(st *state) {
	for i, cost := range o.costs {
		if t := &o.taken[i]; t.Admitted && cost > 0 && !o.known {
			st.policy.TakeBack(&st.State, t.At, t.At, cost)
			giveBack(t, cost)
		}
	}
}

// giveBack makes an answer one of an attempt that only others refused.
func giveBack(t *window.Taken, cost int64) { t.Remaining, t.Again = t.Remaining+cost, t.At }

func (o *op) settle(st *state, now int64, change *Change, settleable time.Duration) (changed bool, err error) {
	if o.known = o.recorded.Version != 0; !o.known {
		return false, nil
	}
	was, err := readRecord(o.recorded.State)
	if err != nil {
		return false, err
	}

	o.known = len(was.parts) > 0
	is, begun := record{names: was.names}, now
	for _, p := range was.parts {
		next := o.settled(p)
		if next.ended && !p.ended {
			st.policy.End(&st.State, now, p.at, p.cost)
		}
		st.policy.Settle(&st.State, now, p.at, p.cost, next.cost)
		changed, begun = changed || p != next, p.at
		is.parts = append(is.parts, next)
	}
	switch {
	case o.kind == undo:
		change.Next = newVersion() // it has expired
	case changed:
		change.Next, change.State, change.Expires = newVersion(), is.bytes(), begun+settleable.Milliseconds()
	}
	return changed, nil
}

// settled is what a part becomes.
func (o *op) settled(p part) part {
	next := part{p.at, o.cost, p.ended || o.rule.Policy.AtOnce()}
	if o.cost == inline.Kept {
		next.cost = p.cost
	}
	return next
}

// undo returns what an op has counted.
func (o *op) undo(deadline time.Time) *op {
	return &op{kind: undo, rule: o.rule, deadline: deadline, record: o.record, recorded: o.recorded, done: make(chan error, 1)}
}
