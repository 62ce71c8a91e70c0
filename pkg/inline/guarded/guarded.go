// Package guarded answers attempts at inline limits in time, also while the Store that counts them fails.
//
// A Guard asks its Store, and waits for Config.Budget. If the Store fails or does not answer, each rule has its answer:
// to allow, to refuse, or to count in a Memory of this process, which has this process's share of the limits. All Wants
// of an attempt are answered in this way then, and still all admit it or none does.
//
// After opensAfter failures in a row the Guard does not ask the Store any more, so that callers do not wait. Failures of
// one moment, as when a call of the Store is slow that many share, are one failure. Every tryEvery the Guard lets one
// attempt try; the first that succeeds closes the breaker. inline.ErrBusy is a failure of one key only, and does not open
// it.
//
// A client can make the Store late by very many attempts at once. So a key that the Store has refused shortly before stays
// refused while the Store fails: for as long as that refusal said, at most rememberFor, and unless something was settled
// here since. At most mostRefusals keys are remembered.
//
// Any number of goroutines may use a Guard. It starts none, and its Take and TakeOnce do not fail.
package guarded

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"weir/pkg/inline"
	"weir/pkg/window"
)

// A Config is what a Guard is made of.
type Config struct {
	Store  inline.Store
	Memory *inline.Memory // of rules whose OnError is Local
	Budget time.Duration  // 20 ms unless given

	// Asked is called after each question to the Store, with the error that it returned. It must not wait. It may be nil.
	Asked func(took time.Duration, err error)
}

const (
	opensAfter = 5
	moment     = 20 * time.Millisecond
	tryEvery   = time.Second
	// patience is how many budgets a settlement may take: no request waits for it.
	patience = 10

	rememberFor  = 10 * time.Second
	mostRefusals = 10_000
)

// ErrAway reports that the Store is not asked, because it has failed before.
var ErrAway = errors.New("the store of inline limits has not answered, and is not asked for now")

// A Guard answers in time.
type Guard struct {
	config  Config
	began   time.Time
	breaker breaker
	refused refusals
}

var _ inline.Store = (*Guard)(nil)

// New makes a Guard.
func New(c Config) *Guard {
	c.Budget = cmp.Or(c.Budget, 20*time.Millisecond)
	if c.Asked == nil {
		c.Asked = func(time.Duration, error) {}
	}
	return &Guard{config: c, began: time.Now(), refused: refusals{of: map[string]refusal{}}}
}

// Away reports whether the Store is not asked for now.
func (g *Guard) Away() bool { return g.breaker.retry.Load() != 0 }

// Take decides an attempt.
func (g *Guard) Take(ctx context.Context, v *inline.Verdict, wants []inline.Want) error {
	g.take(ctx, v, "", wants, func(ctx context.Context) error { return g.config.Store.Take(ctx, v, wants) })
	return nil
}

// TakeOnce decides an attempt that may be asked for again.
func (g *Guard) TakeOnce(ctx context.Context, v *inline.Verdict, request string, wants []inline.Want) error {
	g.take(ctx, v, request, wants, func(ctx context.Context) error { return g.config.Store.TakeOnce(ctx, v, request, wants) })
	return nil
}

func (g *Guard) take(ctx context.Context, v *inline.Verdict, request string, wants []inline.Want, do func(context.Context) error) {
	began := time.Since(g.began)
	switch err := g.ask(ctx, g.config.Budget, do); {
	case err == nil && !v.Admitted:
		g.refused.note(v, wants, began)
	case err != nil && !g.refused.repeat(v, wants, time.Since(g.began)):
		g.without(ctx, v, request, wants)
	}
}

// IDsOf are the ID in this process, and the one in the Store.
func (g *Guard) IDsOf(ctx context.Context, request string) (ids []inline.ID, err error) {
	err = g.ask(ctx, patience*g.config.Budget, func(ctx context.Context) (err error) {
		ids, err = g.config.Store.IDsOf(ctx, request)
		return err
	})
	return append(ids, g.config.Memory.IDOf(request)), err
}

// Settle sets what an attempt has cost. One that was counted in this process is settled there.
func (g *Guard) Settle(ctx context.Context, id inline.ID, cost int64) error {
	if err := g.config.Memory.Settle(ctx, id, cost); !errors.Is(err, inline.ErrUnknown) {
		return err
	}
	return g.settle(ctx, func(ctx context.Context) error { return g.config.Store.Settle(ctx, id, cost) })
}

// SettleAt is Settle at one rule.
func (g *Guard) SettleAt(ctx context.Context, rule string, id inline.ID, cost int64) error {
	if err := g.config.Memory.SettleAt(ctx, rule, id, cost); !errors.Is(err, inline.ErrUnknown) {
		return err
	}
	return g.settle(ctx, func(ctx context.Context) error { return g.config.Store.SettleAt(ctx, rule, id, cost) })
}

func (g *Guard) settle(ctx context.Context, do func(context.Context) error) error {
	err := g.ask(ctx, patience*g.config.Budget, do)
	if err == nil {
		g.refused.forget(time.Since(g.began))
	}
	return err
}

// Peek calls look with the window of a key as the Store has it.
func (g *Guard) Peek(ctx context.Context, rule *inline.Rule, key []byte, look func(s *window.State, at int64)) (known bool, err error) {
	err = g.ask(ctx, patience*g.config.Budget, func(ctx context.Context) (err error) {
		known, err = g.config.Store.Peek(ctx, rule, key, look)
		return err
	})
	return known, err
}

// Settleable is how long an attempt can be settled.
func (g *Guard) Settleable() time.Duration { return g.config.Store.Settleable() }

// Stats are those of the Store, with the losses of the Memory.
func (g *Guard) Stats() inline.Stats {
	s, own := g.config.Store.Stats(), g.config.Memory.Stats()
	s.Keys, s.Attempts = s.Keys+own.Keys, s.Attempts+own.Attempts
	s.Forgotten, s.Lost = s.Forgotten+own.Forgotten, s.Lost+own.Lost
	return s
}

// ask asks the Store, unless it is away. An answer does not end with the request that asked: then a client could have
// its attempts returned.
func (g *Guard) ask(ctx context.Context, budget time.Duration, do func(context.Context) error) error {
	begin := time.Since(g.began) // unlike the time of day, it does not go back
	if !g.breaker.enter(begin) {
		return ErrAway
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), budget)
	defer cancel()
	err := do(within)
	failure := err
	if errors.Is(err, inline.ErrUnknown) || errors.Is(err, inline.ErrNotCounted) {
		failure = nil
	}
	end := time.Since(g.began)
	g.breaker.leave(end, failure != nil && !errors.Is(failure, inline.ErrBusy))
	g.config.Asked(end-begin, failure)
	return err
}

// without decides an attempt while the Store fails.
func (g *Guard) without(ctx context.Context, v *inline.Verdict, request string, wants []inline.Want) {
	v.Begin(wants)
	v.OnError = inline.Allow
	now := time.Now().UnixMilli()
	var local []inline.Want
	var places []int
	for i := range wants {
		rule := wants[i].Rule
		v.Taken[i] = window.Taken{Admitted: true, At: now, Again: now}
		switch {
		case rule.OnError == inline.Refuse && !rule.Shadow && v.Admitted:
			v.Taken[i] = window.Taken{At: now, Again: now + tryEvery.Milliseconds()}
			v.Admitted, v.OnError, v.Decides = false, inline.Refuse, i
		case rule.OnError == inline.Local && rule.Local != nil:
			one := wants[i]
			one.Rule = rule.Local
			local, places = append(local, one), append(places, i)
		}
	}
	if !v.Admitted {
		return
	}
	if v.Decides = 0; len(local) == 0 || len(wants) == 0 {
		return
	}

	// A Memory never fails.
	var own inline.Verdict
	if request == "" {
		_ = g.config.Memory.Take(ctx, &own, local)
	} else {
		_ = g.config.Memory.TakeOnce(ctx, &own, request, local)
	}
	v.OnError, v.Admitted, v.Attempt, v.Decides = inline.Local, own.Admitted, own.Attempt, places[own.Decides]
	for j, i := range places {
		v.Taken[i], wants[i].Known = own.Taken[j], local[j].Known
	}
}

// A breaker is closed, or open until a try. Its times count from the Guard's beginning.
type breaker struct {
	failures atomic.Int32 // in a row
	failed   atomic.Int64 // when the last of them was
	retry    atomic.Int64 // when the next try may begin; 0 while it is closed
}

// enter reports whether the Store may be asked: while it is away, by one caller in a while.
func (b *breaker) enter(now time.Duration) bool {
	retry := b.retry.Load()
	if retry == 0 {
		return true
	}
	return int64(now) >= retry && b.retry.CompareAndSwap(retry, int64(now+tryEvery))
}

// leave notes what became of a question.
func (b *breaker) leave(now time.Duration, failed bool) {
	if !failed {
		b.failures.Store(0)
		if b.retry.Load() != 0 {
			b.retry.Store(0)
		}
		return
	}
	last := b.failed.Load()
	if int64(now-moment) < last || !b.failed.CompareAndSwap(last, int64(now)) {
		return
	}
	if b.failures.Add(1) >= opensAfter {
		b.failures.Store(opensAfter)
		b.retry.Store(int64(now + tryEvery))
	}
}
