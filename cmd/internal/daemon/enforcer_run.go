package daemon

import (
	"context"
	"errors"
	"sync"
	"time"

	"weir/internal/topic"
	"weir/pkg/blocklist"
	inlineredis "weir/pkg/inline/redis"
)

// Run serves until the context is done, and keeps the list up to date.
func (r *RunningEnforcer) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup

	// The first that fails ends the others, with its error as the cause.
	fail := func(run func(context.Context) error) {
		running.Go(func() {
			if err := run(ctx); err != nil {
				cancel(err)
			}
		})
	}

	fail(r.Enforcer.Run)
	fail(r.bouncers.Run)
	if r.grpc != nil {
		fail(r.grpc.Run)
	}
	if r.crawlers != nil {
		fail(r.crawlers.Run)
	}
	for _, run := range r.agents() {
		fail(run)
	}

	if r.events != nil {
		running.Go(func() { r.events.Run(ctx) }) // it can be asked before the topics are there
	}
	if r.proofs != nil {
		running.Go(func() { r.proofs.Run(ctx) })
	}
	fail(r.follow)
	fail(r.topics)
	running.Go(func() { r.becomeReady(ctx) })
	if r.notifier != nil {
		running.Go(func() { r.notifier.Run(ctx) })
	}
	if inRedis, ok := r.inline.(*inlineredis.Backend); ok {
		running.Go(func() { watchEviction(ctx, inRedis.Check, r.evicts) })
	}
	running.Wait()
	// Canceled means that the caller ended it.
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}

	return nil
}

// follow keeps the list up to date. With Kafka it first waits for the topics.
func (r *RunningEnforcer) follow(ctx context.Context) error {
	if r.process.Config.Enforcer.Follow == followKafka {
		if err := r.ensureTopics(ctx); err != nil {
			return err
		}
	}
	r.follower.Run(ctx)
	return nil
}

// topics makes or checks the topics for the manual entries of an enforcer that follows another one. It runs next to follow,
// because the followed enforcer has the list and manual entries even when Kafka is away.
func (r *RunningEnforcer) topics(ctx context.Context) error {
	if r.process.Config.Enforcer.Follow == followKafka {
		return nil // follow makes them
	}
	return r.ensureTopics(ctx)
}

// ensureTopics makes or checks the topics until it succeeds, or an error is permanent. The enforcer stays ready meanwhile,
// because it serves the last complete list.
func (r *RunningEnforcer) ensureTopics(ctx context.Context) error {
	if r.client == nil {
		return nil
	}
	c := r.process.Config
	topics := []topic.Topic{BlocklistTopic(c), EventsTopic(c), HitsTopic(c)}
	if c.KeepsAttempts() {
		topics = append(topics, AttemptsTopic(c))
	}
	err := r.process.retry(ctx, "topics", func(string) {}, passesInKafka, func() error { return ensureTopics(ctx, r.client, topics) })
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// withoutListAfter is how long an enforcer that allows requests without a list waits for one before it is ready.
const withoutListAfter = 10 * time.Second

// becomeReady waits for all listeners, and then for a list.
func (r *RunningEnforcer) becomeReady(ctx context.Context) {
	if r.grpc == nil {
		becomeReady(ctx, r.process, r.set, r.Serving())
		return
	}
	select {
	case <-r.grpc.Serving():
	case <-ctx.Done():
		return
	}
	becomeReady(ctx, r.process, r.set, r.Serving())
	r.grpc.Ready()
}

// becomeReady makes an enforcer ready once it has a complete list, even an old one. With without_list: allow it is also
// ready after withoutListAfter. Once ready it stays so.
func becomeReady(ctx context.Context, p *Process, set *blocklist.Set, serving <-chan struct{}) {
	after := time.After(withoutListAfter)
	if p.Config.Enforcer.WithoutList != "allow" {
		after = nil
	}

	select {
	case <-serving:
	case <-ctx.Done():
		return
	}

	// The channel is taken before the list is looked at, so that no change between them is missed.
	for changed := set.Changed(); !set.Whole(); changed = set.Changed() {
		select {
		case <-changed:
			continue
		case <-after:
		case <-ctx.Done():
			return
		}
		break
	}

	p.Health.Lack("")
}
