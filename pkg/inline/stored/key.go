package stored

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"weir/pkg/inline"
	"weir/pkg/window"
)

const (
	// mostTogether bounds the attempts of one commit, and MaxChanges the changes.
	mostTogether = 128
	// MaxChanges is how many changes a Commit has at most.
	MaxChanges  = mostTogether + 1
	mostWaiting = 8192
)

// A key is what is remembered of a cell, and the calls that wait for it. While it is busy, one goroutine decides.
type key struct {
	name  string
	group uint16

	mu    sync.Mutex
	cell  known // as last known; changed by the goroutine that decides
	queue []*op
	busy  bool
}

// A known cell, and when it expires; 0 where that is not known.
type known struct {
	Cell
	expires int64
}

// last is the cell as last known.
func (k *key) last() known {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.cell
}

func (k *key) remember(c known) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cell = c
}

// submit has an op decided, together with others of its key.
func (s *Store) submit(k *key, o *op) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.queue) >= mostWaiting {
		o.finish(inline.ErrBusy)
		return
	}
	k.queue = append(k.queue, o)
	if !k.busy {
		k.busy = true
		s.running.Go(func() { s.run(k) })
	}
}

// do is submit for a caller that waits for this op only. If no one is busy with the key, the caller decides its op
// itself, which saves two changes of goroutines; ops that come meanwhile get a goroutine.
func (s *Store) do(k *key, o *op) {
	k.mu.Lock()
	if k.busy {
		k.mu.Unlock()
		s.submit(k, o)
		return
	}
	k.busy = true
	k.mu.Unlock()

	s.running.Add(1)
	defer s.running.Done()
	s.decide(k, []*op{o})
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.busy = len(k.queue) > 0; k.busy {
		s.running.Go(func() { s.run(k) })
	}
}

// run decides what waits for a key, until nothing does.
func (s *Store) run(k *key) {
	for {
		k.mu.Lock()
		batch := k.next()
		k.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		began := time.Now()
		if moved := s.decide(k, batch); moved {
			time.Sleep(min(time.Since(began), longestTurn)) // the others' turn
		}
	}
}

// longestTurn bounds how long a process that was faster than another leaves a key to it.
const longestTurn = time.Millisecond

// next takes what is decided together out of the queue: not two ops of one record, which the second has to find as the
// first left it.
func (k *key) next() []*op {
	n := 0
	var seen map[string]bool
	for ; n < min(len(k.queue), mostTogether); n++ {
		o := k.queue[n]
		if seen[o.record] {
			break
		}
		if len(k.queue) > 1 && (o.once || o.kind > ask) {
			if seen == nil {
				seen = map[string]bool{}
			}
			seen[o.record] = true
		}
	}
	batch := k.queue[:n:n]
	k.queue = k.queue[n:]
	if n == 0 {
		k.queue, k.busy = nil, false
	}
	return batch
}

// decide decides ops, again and again until the database has committed it, or their time is over. It reports whether it
// did so after another process was faster.
func (s *Store) decide(k *key, batch []*op) (moved bool) {
	last := batch[0].deadline
	for _, o := range batch {
		if o.deadline.After(last) {
			last = o.deadline
		}
	}
	ctx, cancel := context.WithDeadline(context.Background(), last)
	defer cancel()

	cell := k.last()
	if cell.expires != 0 && s.clock.now()/1000 >= cell.expires {
		cell = known{}
	}
	for {
		if batch = current(batch); len(batch) == 0 {
			return moved
		}
		c := Commit{Group: k.group, At: s.clock.now(), Slack: s.config.Slack.Microseconds(), Longest: batch[0].rule.Policy.Longest().Milliseconds()}
		next, err := s.decideOn(k, cell, batch, &c)
		var done Result
		if err == nil {
			done, err = s.config.Backend.Commit(ctx, &c)
		}
		if err != nil {
			k.remember(known{}) // it is not known whether the changes were done
			for _, o := range batch {
				o.finish(err)
			}
			return false
		}

		s.clock.told(done.Now, !done.Done && (done.Now < c.At || done.Now > c.At+c.Slack))
		if done.Done {
			k.remember(next)
			s.finish(k, batch)
			return moved
		}
		moved = true
		cell = known{Cell: done.Cells[0]}
		i := 0
		for _, o := range batch {
			o.moved.Store(true)
			if o.sent {
				i++
				o.recorded = done.Cells[i]
			}
		}
	}
}

// current are the ops whose callers still wait; others have ended.
func current(batch []*op) []*op {
	now, rest := time.Now(), batch[:0]
	for _, o := range batch {
		if o.deadline.After(now) && !o.abandoned() {
			rest = append(rest, o)
		} else {
			o.finish(context.DeadlineExceeded)
		}
	}
	return rest
}

// finish gives callers their answers. Hits that a caller no longer waits for are returned.
func (s *Store) finish(k *key, batch []*op) {
	for _, o := range batch {
		if !o.finish(nil) && o.counted {
			s.submit(k, o.undo(time.Now().Add(undoPatience)))
		}
	}
}

// decideOn decides ops on a cell, and writes the changes. It returns the cell afterwards.
func (s *Store) decideOn(k *key, cell known, batch []*op, c *Commit) (next known, err error) {
	now := c.At / 1000
	st := state{policy: batch[0].rule.Policy}
	if cell.Version != 0 {
		if err := st.policy.Read(cell.State, &st.State); err != nil {
			return cell, err
		}
	}

	c.Changes = make([]Change, 1, 1+len(batch))
	writes := false
	for _, o := range batch {
		if err := st.convert(o.rule.Policy); err != nil {
			return cell, err
		}
		change, changed, err := o.decide(&st, now, s.config.Settle)
		if err != nil {
			return cell, err
		}
		writes = writes || changed
		if o.sent {
			c.Changes = append(c.Changes, change)
		}
		if s.noted {
			if err := o.note(k.name, now, c); err != nil {
				return cell, err
			}
		}
	}

	own := &c.Changes[0]
	*own = Change{Name: k.name, Decided: cell.Version}
	if writes {
		own.Next, own.State = newVersion(), st.policy.Append(nil, &st.State)
		if clear := st.policy.Clear(&st.State); clear > now { // attempts that are decided up to Slack later must see it
			own.Expires = min(clear, window.MaxTime) + s.config.Slack.Milliseconds() + 1
		}
		cell = known{Cell{own.Next, own.State}, own.Expires}
		if own.Expires == 0 {
			cell = known{}
		}
	}
	return cell, nil
}

func newVersion() uint64 { return max(1, rand.Uint64()) }

// A state is that of a key while it is decided.
type state struct {
	window.State
	policy *window.Policy
}

// convert has a state go on under other limits.
func (s *state) convert(to *window.Policy) error {
	if s.policy == to {
		return nil
	}
	before := s.policy.Append(nil, &s.State)
	s.policy = to
	return to.Read(before, &s.State)
}

// would reports whether a key refuses an attempt as far as is known, which may be wrong.
func (s *Store) would(k *key, o *op) bool {
	if o.rule.Shadow {
		return false
	}
	st := state{policy: o.rule.Policy}
	if cell := k.last(); cell.Version != 0 && st.policy.Read(cell.State, &st.State) != nil {
		return false
	}
	now := s.clock.now() / 1000
	for _, cost := range o.costs {
		if !st.policy.Take(&st.State, now, cost).Admitted {
			return true
		}
	}
	return false
}
