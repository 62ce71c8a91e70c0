package daemon

import (
	"context"
	"errors"
	"time"

	"weir/internal/store/redis"
	"weir/pkg/enforcer"
	inlineredis "weir/pkg/inline/redis"
)

// inlinePatience is how long a start waits for the store of inline rules.
const inlinePatience = 2 * time.Second

// openInlineStore opens the store that enforcers share for inline rules; nil where they count in memory. A Redis that would
// lose counts is refused. One that does not answer is not waited for: until it does, the rules' on_error decides.
func (r *RunningEnforcer) openInlineStore(ctx context.Context) (*enforcer.InlineStore, error) {
	c := r.process.Config
	if c.Inline.Store.Redis == "" {
		return nil, nil
	}
	options, err := InlineRedisOptions(c)
	if err != nil {
		return nil, err
	}
	backend, err := inlineredis.Open(options)
	if err != nil {
		return nil, err
	}
	r.inline = backend

	ctx, cancel := context.WithTimeout(ctx, inlinePatience)
	defer cancel()
	if err := backend.Check(ctx); errors.Is(err, redis.ErrEvicts) {
		return nil, err
	} else if err != nil {
		r.process.Logger.Warn("the store of inline rules does not answer; the rules' on_error decides until it does", "error", err)
	}
	return &enforcer.InlineStore{Backend: backend, Name: c.Inline.Store.Redis, Budget: time.Duration(c.Inline.Budget), Enforcers: c.Inline.Enforcers}, nil
}

func (r *RunningEnforcer) closeInlineStore() error {
	if r.inline == nil {
		return nil
	}
	return r.inline.Close()
}
