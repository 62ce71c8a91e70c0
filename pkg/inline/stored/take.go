package stored

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"weir/pkg/inline"
)

// An attempt is the ops of a call, one for each key.
type attempt struct {
	id    inline.ID
	keys  []*key
	ops   []*op
	wants [][]int // of each op, by their indexes
}

// Take decides an attempt, and writes the answer to v.
func (s *Store) Take(ctx context.Context, v *inline.Verdict, wants []inline.Want) error {
	v.Begin(wants)
	if len(wants) == 0 {
		return nil
	}
	a, err := s.attempt(ctx, wants)
	if err != nil {
		return err
	}

	id := s.newID(a.keys[0].group)
	a.id = id
	for i, o := range a.ops {
		if o.record = recordOf(id, ""); i > 0 {
			o.record = recordOf(id, a.keys[i].name)
		}
	}
	if a.ops[0].names = a.names(); !a.costs() {
		a.ops[0].names = nil // there will be nothing to find
	}
	if err := s.takeAll(ctx, a, v, wants); err != nil {
		return err
	}
	if v.Admitted && a.counted() {
		v.Attempt = id
	}
	return nil
}

// attempt has an op for each key, in the order of the Wants.
func (s *Store) attempt(ctx context.Context, wants []inline.Want) (*attempt, error) {
	deadline, limited := ctx.Deadline()
	if !limited {
		deadline = time.Now().Add(callPatience)
	}
	a := &attempt{}
	for i := range wants {
		w := &wants[i]
		name := nameOf(w.Rule.Name, w.Key)
		if len(name) > MaxName {
			return nil, errNames
		}
		j := a.find(name)
		if j < 0 {
			j = len(a.ops)
			a.keys, a.wants = append(a.keys, s.key(name)), append(a.wants, nil)
			a.ops = append(a.ops, &op{kind: take, rule: w.Rule, deadline: deadline, done: make(chan error, 1)})
		}
		a.ops[j].costs, a.wants[j] = append(a.ops[j].costs, max(w.Cost, 0)), append(a.wants[j], i)
	}
	return a, nil
}

// callPatience bounds a call whose context has no deadline.
const callPatience = 10 * time.Second

func (a *attempt) find(name string) int {
	for j, k := range a.keys {
		if k.name == name {
			return j
		}
	}
	return -1
}

func (a *attempt) names() []string {
	names := make([]string, 0, len(a.keys))
	for _, k := range a.keys[:min(len(a.keys), maxParts)] {
		names = append(names, k.name)
	}
	return names
}

// costs reports whether anything can count.
func (a *attempt) costs() bool {
	return slices.ContainsFunc(a.ops, func(o *op) bool { return slices.Max(o.costs) > 0 })
}

func (a *attempt) counted() bool {
	for _, o := range a.ops {
		if o.counted {
			return true
		}
	}
	return false
}

// takeAll takes at all keys, or asks only because one of them refuses.
func (s *Store) takeAll(ctx context.Context, a *attempt, v *inline.Verdict, wants []inline.Want) error {
	first, refused := -1, false
	if len(a.ops) > 1 {
		for j, o := range a.ops {
			if s.would(a.keys[j], o) {
				first = j
				break
			}
		}
	}
	if len(a.ops) == 1 {
		first = 0
	}
	if first >= 0 {
		s.do(a.keys[first], a.ops[first])
		if err := await(ctx, a.ops[first]); err != nil {
			return err
		}
		refused = a.ops[first].refused
	}

	for j, o := range a.ops {
		if j == first {
			continue
		}
		if refused {
			o.kind = ask
		}
		s.submit(a.keys[j], o)
	}
	var failed error
	for j, o := range a.ops {
		if j == first {
			continue
		}
		if err := await(ctx, o); err != nil {
			failed = err
		} else {
			refused = refused || o.refused
		}
	}
	if failed != nil || refused {
		s.takeBack(ctx, a)
	}
	if failed != nil {
		return failed
	}
	a.answer(v, wants)
	if v.Admitted && hasQueues(wants) {
		return s.enqueue(ctx, a, v, wants)
	}
	return nil
}

func hasQueues(wants []inline.Want) bool {
	return slices.ContainsFunc(wants, func(w inline.Want) bool { return w.Rule.Queue != nil })
}

// takeBack returns what was taken, and waits for it as long as the call may take.
func (s *Store) takeBack(ctx context.Context, a *attempt) {
	var undoing []*op
	for j, o := range a.ops {
		if o.state.Load() == isDone && o.counted {
			u := o.undo(time.Now().Add(undoPatience))
			s.submit(a.keys[j], u)
			undoing = append(undoing, u)
		}
	}
	for _, u := range undoing {
		select {
		case err := <-u.done:
			_ = err // then the hits stay counted
		case <-ctx.Done():
		}
	}
}

// answer writes the answers of the ops.
func (a *attempt) answer(v *inline.Verdict, wants []inline.Want) {
	for j, o := range a.ops {
		for n, i := range a.wants[j] {
			v.Taken[i] = o.taken[n]
			if wants[i].Known = o.known; o.known {
				wants[i].Cost = 0
			}
		}
	}
	if v.Decide(wants); !v.Admitted {
		a.giveBack(v)
	}
}

// giveBack makes the answers of ops that have counted those of an attempt that only others refused.
func (a *attempt) giveBack(v *inline.Verdict) {
	for j, o := range a.ops {
		for n, i := range a.wants[j] {
			if t := &v.Taken[i]; o.counted && t.Admitted && o.costs[n] > 0 {
				giveBack(t, o.costs[n])
			}
		}
	}
}

// await waits for an answer as long as the context allows.
func await(ctx context.Context, o *op) error {
	select {
	case err := <-o.done:
		return err
	case <-ctx.Done():
	}
	switch {
	case !o.abandon():
		return <-o.done
	case o.moved.Load():
		return inline.ErrBusy
	}
	return ctx.Err()
}

// newID names an attempt whose record is in a group: 48 bits of time, the group and 64 random bits.
func (s *Store) newID(group uint16) (id inline.ID) {
	var now [8]byte
	binary.BigEndian.PutUint64(now[:], uint64(time.Now().UnixMilli())<<16)
	copy(id[:], now[:6])
	binary.BigEndian.PutUint16(id[6:], group)
	binary.BigEndian.PutUint64(id[8:], rand.Uint64())
	return id
}

func groupOfID(id inline.ID) uint16 { return binary.BigEndian.Uint16(id[6:]) }

// recordOf is the name of the cell of an attempt: that by which it is found, or that for one of its keys. Clients choose
// keys. So a key is named by a hash in which no one finds two keys with one name: the second would not be counted.
func recordOf(id inline.ID, key string) string {
	b := append(append(make([]byte, 0, 33), 'a'), id[:]...)
	if key != "" {
		sum := sha256.Sum256([]byte(key))
		b = append(b, sum[:16]...)
	}
	return string(b)
}

// TakeOnce is Take for a request that may be asked for again.
func (s *Store) TakeOnce(ctx context.Context, v *inline.Verdict, request string, wants []inline.Want) error {
	v.Begin(wants)
	if len(wants) == 0 {
		return nil
	}
	id, again, err := s.idOf(ctx, request)
	if err != nil {
		return err
	}
	a, err := s.attempt(ctx, wants)
	if err != nil {
		return err
	}
	a.id = id
	for j, o := range a.ops {
		o.once, o.record = true, recordOf(id, a.keys[j].name)
	}

	// The record by which the attempt is found is written meanwhile, but not for a client that goes on after it was refused:
	// it could fill the database. The record of another attempt that is refused leads nowhere.
	var noting sync.WaitGroup
	refused := s.wouldAny(a)
	if !refused {
		noting.Go(func() { s.note(ctx, id, a.names()) })
	}
	if again {
		noting.Go(func() { _, _ = s.agree(ctx) })
	}
	err = s.takeAll(ctx, a, v, wants)
	noting.Wait()
	if err != nil {
		return err
	}
	for _, o := range a.ops {
		if o.known || o.counted && v.Admitted {
			v.Attempt = id
		}
	}
	if refused && v.Attempt == id {
		s.note(ctx, id, a.names())
	}
	return nil
}

// wouldAny reports whether a key refuses an attempt as far as is known.
func (s *Store) wouldAny(a *attempt) bool {
	for j, o := range a.ops {
		if s.would(a.keys[j], o) {
			return true
		}
	}
	return false
}
