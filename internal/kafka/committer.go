package kafka

import (
	"context"
	"errors"
	"slices"
	"sync"

	kafkago "github.com/segmentio/kafka-go"

	"weir/internal/topic"
)

// A committer commits for all claims of one generation, one request at a time. Commits that arrive during a request go
// with the next one, for any partition. It has no goroutine: one of the waiting callers sends for all of them.
type committer struct {
	client     *Client
	group      string
	generation int
	member     string

	turn    chan struct{} // holds one; its owner sends
	mu      sync.Mutex
	waiting []*waitingCommit
}

// A waitingCommit is the commit of one partition. answered is closed once err has its result.
type waitingCommit struct {
	topic     string
	partition int
	commit    topic.Commit
	answered  chan struct{}
	err       error
}

// errUnsent reports a request whose sender stopped waiting for it.
var errUnsent = errors.New("another caller gave up the commit")

func newCommitter(c *Client, group string, next *kafkago.Generation) *committer {
	return &committer{client: c, group: group, generation: int(next.ID), member: next.MemberID, turn: make(chan struct{}, 1)}
}

// commit returns the coordinator's result for a partition's commit.
func (c *committer) commit(ctx context.Context, name string, partition int, commit topic.Commit) error {
	for {
		err := c.once(ctx, &waitingCommit{topic: name, partition: partition, commit: commit, answered: make(chan struct{})})
		switch {
		case !errors.Is(err, errUnsent):
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
	}
}

func (c *committer) once(ctx context.Context, w *waitingCommit) error {
	c.mu.Lock()
	c.waiting = append(c.waiting, w)
	c.mu.Unlock()
	select {
	case <-w.answered:
		return w.err
	case c.turn <- struct{}{}:
		c.send(ctx)
		<-c.turn
	case <-ctx.Done():
	}

	// Sent by this caller, or by another one meanwhile; only if neither happened is it still waiting.
	if c.withdraw(w) {
		return context.Cause(ctx)
	}
	select {
	case <-w.answered:
		return w.err
	case <-ctx.Done(): // it is being sent
		return context.Cause(ctx)
	}
}

// withdraw removes a commit that was not sent, and reports whether it was there.
func (c *committer) withdraw(w *waitingCommit) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.waiting, w)
	if i >= 0 {
		c.waiting = slices.Delete(c.waiting, i, i+1)
	}
	return i >= 0
}

// send sends all waiting commits.
func (c *committer) send(ctx context.Context) {
	c.mu.Lock()
	sent := c.waiting
	c.waiting = nil
	c.mu.Unlock()
	if len(sent) == 0 {
		return
	}

	topics := map[string][]kafkago.OffsetCommit{}
	for _, w := range sent {
		topics[w.topic] = append(topics[w.topic], kafkago.OffsetCommit{Partition: w.partition, Offset: w.commit.Offset, Metadata: w.commit.Metadata})
	}

	response, err := c.client.kafka.OffsetCommit(ctx, &kafkago.OffsetCommitRequest{
		GroupID: c.group, GenerationID: c.generation, MemberID: c.member, Topics: topics,
	})
	// The sender's own context ended the request. The others did not give up, so they try again (commit).
	if err != nil && ctx.Err() != nil {
		err = errUnsent
	}

	for _, w := range sent {
		if w.err = err; err == nil {
			w.err = w.result(response)
		}
		close(w.answered)
	}
}

// result returns the coordinator's result for the partition.
func (w *waitingCommit) result(response *kafkago.OffsetCommitResponse) error {
	for _, p := range response.Topics[w.topic] {
		if p.Partition == w.partition {
			return p.Error
		}
	}
	return topic.Errorf(topic.ErrOther, "the coordinator's answer does not mention the partition")
}
