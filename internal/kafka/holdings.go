package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"weir/internal/topic"
)

// Holdings are the partitions of a member whose owners run.
type holdings struct {
	patience time.Duration // for an owner that was released

	mu       sync.Mutex
	all      map[topicPartition]*holding
	closed   bool // no more owners begin
	owners   sync.WaitGroup
	returned chan struct{} // holds one when an owner has returned, or was given up
}

// A holding is one run of an owner, over all generations in which its partition stays with this member.
type holding struct {
	in *holdings
	topicPartition
	partitions int // of the topic
	release    context.CancelFunc

	// The mutex of the holdings guards these.
	giveUp  *time.Timer   // runs once the owner is to return; nil while it may go on
	commits *committer    // of the latest generation in which no other member had the partition; nil when one may have it
	changed chan struct{} // closed when commits changes
}

func newHoldings(patience time.Duration) *holdings {
	return &holdings{patience: patience, all: map[topicPartition]*holding{}, returned: make(chan struct{}, 1)}
}

// begin runs an owner, and reports false while a former owner of the partition runs.
func (h *holdings) begin(at topicPartition, partitions int, commits *committer, own func(context.Context, *topic.Claim)) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return true
	case h.all[at] != nil:
		return false
	}

	o := &holding{in: h, topicPartition: at, partitions: partitions, commits: commits, changed: make(chan struct{})}
	claim := topic.NewClaim(at.topic, at.partition, partitions, o.commit)
	claim.Member = commits.member
	ctx, release := context.WithCancel(context.Background())
	o.release = release
	h.all[at] = o
	h.owners.Go(func() {
		defer h.end(o)
		own(ctx, claim)
	})
	return true
}

// end notes that an owner has returned.
func (h *holdings) end(o *holding) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.letGo(o)
	o.giveUp.Stop()
	o.follow(nil)
	delete(h.all, o.topicPartition)
	h.notify()
}

func (h *holdings) notify() {
	select {
	case h.returned <- struct{}{}:
	default:
	}
}

// held returns the partitions that no other member may have yet.
func (h *holdings) held() map[topicPartition]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	held := map[topicPartition]bool{}
	for at, o := range h.all {
		if o.commits != nil {
			held[at] = true
		}
	}
	return held
}

// kept returns the partitions whose owners may go on.
func (h *holdings) kept() map[topicPartition]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	kept := map[topicPartition]bool{}
	for at, o := range h.all {
		if o.giveUp == nil {
			kept[at] = true
		}
	}
	return kept
}

// adopt applies a generation. Owners whose partitions are in the share go on; the others are released. All of them may
// commit: no other member has their partitions yet.
func (h *holdings) adopt(share map[topicPartition]int, commits *committer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for at, o := range h.all {
		o.follow(commits)
		if partitions, ours := share[at]; !ours || partitions != o.partitions {
			h.letGo(o)
		}
	}
}

// lose releases all owners, whose partitions other members may have now: they cannot commit any more.
func (h *holdings) lose() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range h.all {
		h.letGo(o)
		o.follow(nil)
	}
}

// without reports whether no owner of any of some partitions runs that was not given up.
func (h *holdings) without(partitions []topicPartition) bool {
	held := h.held()
	return !slices.ContainsFunc(partitions, func(at topicPartition) bool { return held[at] })
}

// close releases all owners and waits until they have returned.
func (h *holdings) close() {
	h.mu.Lock()
	h.closed = true
	for _, o := range h.all {
		h.letGo(o)
	}
	h.mu.Unlock()
	h.owners.Wait()
}

// letGo asks an owner to return. One that does not within the group's patience is given up: it runs on, but others may
// have its partition. h.mu is held.
func (h *holdings) letGo(o *holding) {
	if o.giveUp != nil {
		return
	}
	o.release()
	o.giveUp = time.AfterFunc(h.patience, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		o.follow(nil)
		h.notify()
	})
}

// follow makes the owner's commits those of a generation; nil refuses them from now on. The mutex is held.
func (o *holding) follow(commits *committer) {
	if o.commits == nil || o.commits == commits {
		return
	}
	o.commits = commits
	close(o.changed)
	o.changed = make(chan struct{})
}

// commit commits as the member of the latest generation. The coordinator refuses a former one, also while a member that
// keeps its partition does not know the new one yet. So after a refusal the commit waits for the next generation, unless
// the group does not have the member any more.
func (o *holding) commit(ctx context.Context, commit topic.Commit) error {
	for {
		o.in.mu.Lock()
		commits, changed := o.commits, o.changed
		o.in.mu.Unlock()
		if commits == nil {
			return topic.Errorf(topic.ErrExpelled, "committing %s/%d: another member of the group may have the partition", o.topic, o.partition)
		}

		err := commits.repeat(ctx, o.topic, o.partition, commit)
		if err == nil || topic.KindOf(err) != topic.ErrExpelled || errors.Is(err, kafkago.UnknownMemberId) {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("committing %s/%d: the group has not gone on yet: %w", o.topic, o.partition, context.Cause(ctx))
		}
	}
}
