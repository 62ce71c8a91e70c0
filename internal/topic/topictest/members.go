package topictest

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"time"

	"weir/internal/topic"
)

// run runs a member until the returned function is called, which returns its error.
func (b *bench) run(group topic.Group, own topic.Owner) (leave func() error) {
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.log.RunGroup(ctx, group, own) }()
	leave = func() error {
		cancel()
		err := <-ended
		ended <- err
		return err
	}
	b.Cleanup(func() { _ = leave() })
	return leave
}

// group is one that notices quickly what its members do.
func (b *bench) group(name string, partitions int) topic.Group {
	return topic.Group{Name: b.prefix + "group", Topics: map[string]int{name: partitions}, Session: 6 * time.Second, Rebalance: 6 * time.Second}
}

func (b *bench) testCommits() {
	name := b.topic("hits", 2)
	group := b.group(name, 2)
	var before []topic.Commit
	b.until("the group can be asked", func() (answered bool) { // a Kafka that has just started chooses its coordinator first
		var err error
		before, err = b.log.Committed(b.Context(), group.Name, name)
		return err == nil
	})
	if len(before) != 2 || before[0] != (topic.Commit{Offset: -1}) {
		b.Errorf("before any: %v", before)
	}

	done := make(chan struct{})
	leave := b.run(group, func(ctx context.Context, claim *topic.Claim) error {
		if claim.Partition == 1 {
			if err := claim.Commit(ctx, topic.Commit{Metadata: strings.Repeat("x", topic.MaxMetadata+1)}); !errors.Is(err, topic.ErrTooLarge) {
				b.Errorf("long metadata: %v", err)
			}
			for offset := range int64(4) {
				if err := claim.Commit(ctx, topic.Commit{Offset: offset, Metadata: strings.Repeat("m", int(offset))}); err != nil {
					b.Error(err)
				}
			}
			close(done)
		}
		<-ctx.Done()
		return nil
	})
	<-done
	if commits, err := b.log.Committed(b.Context(), group.Name, name); err != nil || commits[0].Offset != -1 || commits[1] != (topic.Commit{Offset: 3, Metadata: "mmm"}) {
		b.Errorf("%v, %v", commits, err)
	}
	states, err := b.log.Groups(b.Context(), b.prefix, b.prefix+"none")
	if err != nil || len(states) != 2 || states[0].Members != 1 || states[0].Commits[name][1].Offset != 3 || states[1].Name != b.prefix+"none" || states[1].Members != 0 {
		b.Errorf("%+v, %v", states, err)
	}
	if err := leave(); err != nil {
		b.Error(err)
	}
	if commits, err := b.log.Committed(b.Context(), group.Name, name); err != nil || commits[1].Offset != 3 {
		b.Errorf("after the end: %v, %v", commits, err)
	}
}

// A register records the owners of partitions, that each has one at most, and how many owners of a member have begun.
type register struct {
	*bench
	mu     sync.Mutex
	owners map[int]string
	begun  map[string]int
}

func (r *register) own(name string) topic.Owner {
	return func(ctx context.Context, claim *topic.Claim) error {
		r.mu.Lock()
		if other := r.owners[claim.Partition]; other != "" {
			r.Errorf("partition %d is %s's and %s's", claim.Partition, other, name)
		}
		r.owners[claim.Partition] = name
		r.begun[name]++
		r.mu.Unlock()

		r.commitOften(ctx, claim, name)
		if err := claim.Commit(context.WithoutCancel(ctx), topic.Commit{Offset: 1, Metadata: name}); err != nil {
			r.Errorf("the last commit of %s: %v", name, err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.owners, claim.Partition)
		return nil
	}
}

// commitOften commits until the context ends, also while members come and go.
func (r *register) commitOften(ctx context.Context, claim *topic.Claim, name string) {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if err := claim.Commit(ctx, topic.Commit{Metadata: name}); err != nil && ctx.Err() == nil {
			r.Errorf("a commit of %s for partition %d: %v", name, claim.Partition, err)
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// counts returns how many partitions each member owns.
func (r *register) counts() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := map[string]int{}
	for _, name := range r.owners {
		counts[name]++
	}
	return counts
}

// A partition has one owner, all are owned, and members have equal shares. While members come and go, the owner of a
// partition that stays goes on.
func (b *bench) testOneOwner() {
	name := b.topic("hits", 6)
	group := b.group(name, 6)
	r := &register{bench: b, owners: map[int]string{}, begun: map[string]int{}}
	var places sync.Map
	group.Place = func(has bool) { places.Store("first", has) }
	leaveFirst := b.run(group, r.own("first"))
	b.until("the only member has all", func() bool { return r.counts()["first"] == 6 })
	if has, _ := places.Load("first"); has != true {
		b.Error("the first member has no place")
	}
	group.Place = nil
	leaveSecond := b.run(group, r.own("second"))
	b.until("two members share", func() bool { return r.counts()["first"] == 3 && r.counts()["second"] == 3 })
	leaveThird := b.run(group, r.own("third"))
	b.until("three members share", func() bool { return r.counts()["first"] == 2 && r.counts()["second"] == 2 && r.counts()["third"] == 2 })
	if err := leaveFirst(); err != nil {
		b.Error(err)
	}
	if has, _ := places.Load("first"); has != false {
		b.Error("a member that has left has a place")
	}
	b.until("two are left", func() bool { return r.counts()["second"] == 3 && r.counts()["third"] == 3 })
	if want := map[string]int{"first": 6, "second": 4, "third": 3}; !maps.Equal(r.begun, want) {
		b.Errorf("so many owners have begun: %v, want %v", r.begun, want)
	}
	if err := errors.Join(leaveSecond(), leaveThird()); err != nil || len(r.counts()) != 0 {
		b.Errorf("%v, %v", r.counts(), err)
	}
}

// An owner that does not return in time loses its partition, and cannot commit.
func (b *bench) testAFormerOwner() {
	name := b.topic("hits", 2)
	group := b.group(name, 2)
	kept := make(chan *topic.Claim, 2)
	goOn := make(chan struct{})
	leaveFirst := b.run(group, func(ctx context.Context, claim *topic.Claim) error {
		if err := claim.Commit(ctx, topic.Commit{Offset: 1}); err != nil {
			b.Error(err)
		}
		kept <- claim
		<-goOn
		return nil
	})
	claims := map[int]*topic.Claim{}
	for range 2 {
		claim := <-kept
		claims[claim.Partition] = claim
	}

	taken := make(chan *topic.Claim, 2)
	leaveSecond := b.run(group, func(ctx context.Context, claim *topic.Claim) error {
		if err := claim.Commit(ctx, topic.Commit{Offset: 5}); err != nil && ctx.Err() == nil {
			b.Error(err)
		}
		taken <- claim
		<-ctx.Done()
		return nil
	})
	moved := <-taken
	if err := claims[moved.Partition].Commit(b.Context(), topic.Commit{Offset: 2}); !errors.Is(err, topic.ErrExpelled) {
		b.Errorf("the former owner's commit: %v", err)
	}
	if commits, err := b.log.Committed(b.Context(), group.Name, name); err != nil || commits[moved.Partition].Offset != 5 {
		b.Errorf("%v, %v", commits, err)
	}
	close(goOn)
	if err := errors.Join(leaveFirst(), leaveSecond()); err != nil {
		b.Error(err)
	}
}

// An owner's error ends its member; an owner that returns without one rests.
func (b *bench) testOwnersThatFail() {
	name := b.topic("hits", 2)
	broken := errors.New("broken")
	rested := make(chan struct{})
	err := b.log.RunGroup(b.Context(), b.group(name, 2), func(_ context.Context, claim *topic.Claim) error {
		if claim.Partition == 0 {
			close(rested) // twice would panic
			return nil
		}
		<-rested
		return broken
	})
	if !errors.Is(err, broken) {
		b.Errorf("%v", err)
	}
	err = b.log.RunGroup(b.Context(), b.group(name, 3), func(context.Context, *topic.Claim) error { return nil })
	if !errors.Is(err, topic.ErrPartitions) {
		b.Errorf("other partitions: %v", err)
	}
}

// A member waits for its topic.
func (b *bench) testATopicThatIsLate() {
	group := b.group(b.prefix+"late", 1)
	owned := make(chan struct{}, 10)
	leave := b.run(group, func(ctx context.Context, _ *topic.Claim) error {
		owned <- struct{}{}
		<-ctx.Done()
		return nil
	})
	time.Sleep(50 * time.Millisecond)
	select {
	case <-owned:
		b.Error("a topic that does not exist has an owner")
	default:
	}
	b.topic("late", 1)
	<-owned
	if err := leave(); err != nil {
		b.Error(err)
	}
}
