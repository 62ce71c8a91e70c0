package notify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir/internal/sleep"
	"weir/internal/topic"
)

const (
	maxKept      = 500     // events of a round
	fetchBytes   = 1 << 20 // of a fetch
	retryEvery   = time.Second
	commitEvery  = 10 * time.Second // while no event is wanted
	maxRoundWait = 15 * time.Minute // for room, while further events are counted
)

// A partition is a partition of the topic whose owner is this process.
type partition struct {
	*sender
	claim     *topic.Claim
	reader    topic.Reader
	base      int64 // what was committed
	committed time.Time
	open      *incidents
}

// own sends the messages of a partition until the context is done.
func (s *sender) own(ctx context.Context, claim *topic.Claim) error {
	p := &partition{sender: s, claim: claim, open: newIncidents(0)}
	for ctx.Err() == nil {
		err := p.rounds(ctx)
		if errors.Is(err, topic.ErrExpelled) {
			return nil
		}
		if err != nil && ctx.Err() == nil {
			p.failsToRead(err)
			sleep.For(ctx, retryEvery)
		}
	}
	return nil
}

// failsToRead notes that events cannot be read, or that what was sent cannot be committed.
func (p *partition) failsToRead(err error) {
	p.faults.Note("round", fmt.Errorf("notify: receiver %s, partition %d: %w", p.Name, p.claim.Partition, err))
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failing.IsZero() {
		p.failing, p.failure, p.unread = time.Now(), err.Error(), true
		p.metrics.failing.Set(1)
	}
}

// reads notes that nothing waits to be sent, or that a commit succeeded.
func (s *sender) reads() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unread {
		s.failing, s.failure, s.unread = time.Time{}, "", false
		s.metrics.failing.Set(0)
	}
}

// rounds goes on where the last commit stands, until an error or the end of the context.
func (p *partition) rounds(ctx context.Context) error {
	begun, err := p.begin(ctx)
	if err != nil {
		return err
	}
	p.faults.Over("round")
	for ctx.Err() == nil {
		if err := p.round(ctx, begun); err != nil {
			return err
		}
		begun = nil
	}
	return nil
}

// begin finds where to go on. A receiver that is new begins at the end of the partition. If the topic was made again
// since this process reads it, the receiver is not new: all events of that topic are.
func (p *partition) begin(ctx context.Context) (*begun, error) {
	commits, err := p.log.Committed(ctx, p.group, p.topic)
	if err != nil {
		return nil, err
	}
	span, err := p.log.PartitionSpan(ctx, p.topic, p.claim.Partition)
	if err != nil {
		return nil, err
	}
	commit := topic.Commit{Offset: -1}
	if p.claim.Partition < len(commits) {
		commit = commits[p.claim.Partition]
	}

	p.reader = p.log.Reader(p.topic, p.claim.Partition, span.End, fetchBytes)
	madeAgain, err := p.madeAgain(ctx)
	if err != nil {
		return nil, err
	}
	if commit.Offset < 0 {
		// Committed at once: a kill before the first message must lose nothing.
		commit = topic.Commit{Offset: span.End}
		if madeAgain {
			commit.Offset = span.Start
		}
		if err := p.claim.Commit(ctx, commit); err != nil {
			return nil, err
		}
	}

	p.base = commit.Offset
	p.reader.SetNext(p.base)
	begun, resolved := readBegun(commit.Metadata, commit.Offset)
	if begun != nil && begun.End > span.End {
		begun = nil // the topic was made again, or has lost its end
	}
	if p.To.shape().perEvent {
		p.open = newIncidents(resolved)
		return begun, p.find(ctx, span)
	}
	return begun, nil
}

// madeAgain reports whether the topic is another one than this process read first. Kafka forgets a group's position in a
// topic that is deleted.
func (p *partition) madeAgain(ctx context.Context) (bool, error) {
	id, err := p.reader.Identity(ctx)
	if err != nil {
		return false, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.read == "" {
		p.read = id
	}
	return p.read != id, nil
}

// round collects events, sends their messages and commits the position after them. A round that has begun before is made
// again from the same events.
func (p *partition) round(ctx context.Context, begun *begun) error {
	c := &collecting{partition: p, begun: begun, seen: map[string]bool{}, round: round{partition: p.claim.Partition, base: p.base, end: p.base, stale: Counts{}, more: Counts{}}}
	defer func() { p.waits(-len(c.kept)) }()
	for !c.complete(time.Now()) {
		if ctx.Err() != nil {
			return nil
		}
		if err := c.fetch(ctx); err != nil {
			return err
		}
		if err := p.pass(ctx, c); err != nil {
			return err
		}
		if err := p.resolve(ctx, c); err != nil {
			return err
		}
	}
	return p.send(ctx, c)
}

// pass commits the position while no event was wanted, so that a restart does not read far.
func (p *partition) pass(ctx context.Context, c *collecting) error {
	if c.empty() {
		p.reads()
	}
	if !c.empty() || c.end == p.base || time.Since(p.committed) < commitEvery || c.begun != nil {
		return nil
	}
	return p.commit(ctx, c, c.end, nil)
}

// send sends the messages of a complete round.
func (p *partition) send(ctx context.Context, c *collecting) error {
	if c.begun == nil {
		c.begin(time.Now(), int(p.limiter.Tokens()))
		if err := p.commit(ctx, c, p.base, c.begun); err != nil {
			return err
		}
	}

	for _, m := range p.messages(&c.round) {
		if c.begun.has(m) {
			continue
		}
		if err := p.deliver(ctx, m); err != nil {
			return nil //nolint:nilerr // the context is done; the round goes on elsewhere
		}
		c.begun.done(m)
		if err := p.commitSent(ctx, c, c.begun); err != nil {
			return err
		}
	}
	return p.commit(ctx, c, c.end, nil)
}

// commit commits a position, and what of a round has been sent.
func (p *partition) commit(ctx context.Context, c *collecting, offset int64, state *begun) error {
	// A message that was sent is noted even when the process has to end.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitPatience)
	defer cancel()
	if err := p.claim.Commit(ctx, topic.Commit{Offset: offset, Metadata: state.metadata(p.open.resolved)}); err != nil {
		return err
	}
	p.reads()
	p.base, p.committed = offset, time.Now()
	if state == nil {
		c.base = offset
	}
	return nil
}

// commitSent commits that messages were sent, until it succeeds: from the commit before, they would be sent again.
func (p *partition) commitSent(ctx context.Context, c *collecting, state *begun) error {
	for {
		err := p.commit(ctx, c, p.base, state)
		if err == nil || ctx.Err() != nil || errors.Is(err, topic.ErrExpelled) {
			return err
		}
		p.failsToRead(err)
		sleep.For(ctx, retryEvery)
	}
}

const commitPatience = 5 * time.Second
