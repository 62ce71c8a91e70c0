package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/internal/kafka"
	"weir/internal/kafka/kafkatest"
	"weir/internal/topic"
)

const committed = 12 // partitions

// together runs a function with the claims of all partitions at the same time, and returns the commits afterwards.
func together(t *testing.T, client *kafka.Client, own func(context.Context, *topic.Claim) error) []topic.Commit {
	t.Helper()
	name := newTopic(t, client, committed)
	ctx, leave := context.WithCancel(within(t, time.Minute))
	defer leave()
	var owning atomic.Int32
	err := client.RunGroup(ctx, topic.Group{Name: name, Topics: map[string]int{name: committed}}, func(ctx context.Context, claim *topic.Claim) error {
		err := own(ctx, claim)
		if owning.Add(1) == committed {
			leave()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	commits, err := client.Committed(within(t, time.Minute), name, name)
	if err != nil {
		t.Fatal(err)
	}
	return commits
}

// Commits of many partitions at the same time go in few requests, in the order of each partition.
func TestCommitsGoTogether(t *testing.T) {
	const rounds = 20
	cluster, config := fake(t)
	var requests atomic.Int32
	cluster.ControlKey(int16(kmsg.OffsetCommit), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		requests.Add(1)
		return nil, nil, false
	})
	var ready sync.WaitGroup
	ready.Add(committed)
	commits := together(t, kafkatest.Client(t, config), func(ctx context.Context, claim *topic.Claim) error {
		ready.Done()
		ready.Wait()
		for round := range rounds {
			if err := claim.Commit(ctx, topic.Commit{Offset: int64(round), Metadata: fmt.Sprint(claim.Partition)}); err != nil {
				return err
			}
		}
		return nil
	})
	for p, commit := range commits {
		if commit != (topic.Commit{Offset: rounds - 1, Metadata: fmt.Sprint(p)}) {
			t.Errorf("partition %d: %v", p, commit)
		}
	}
	if n := requests.Load(); n > rounds*committed/2 {
		t.Errorf("%d requests for %d commits", n, rounds*committed)
	}
}

// Commits that go together each get their own result: one that is refused does not refuse the others.
func TestOneOfTheCommitsIsRefused(t *testing.T) {
	cluster, config := fake(t)
	cluster.ControlKey(int16(kmsg.OffsetCommit), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		asked := request.(*kmsg.OffsetCommitRequest)
		answer := asked.ResponseKind().(*kmsg.OffsetCommitResponse)
		refused := false
		for _, topic := range asked.Topics {
			said := kmsg.NewOffsetCommitResponseTopic()
			said.Topic = topic.Topic
			for _, p := range topic.Partitions {
				one := kmsg.NewOffsetCommitResponseTopicPartition()
				if one.Partition = p.Partition; p.Partition == 3 {
					one.ErrorCode, refused = 25, true // an unknown member
				}
				said.Partitions = append(said.Partitions, one)
			}
			answer.Topics = append(answer.Topics, said)
		}
		return answer, nil, refused
	})
	together(t, kafkatest.Client(t, config), func(ctx context.Context, claim *topic.Claim) error {
		err := claim.Commit(ctx, topic.Commit{Offset: 1})
		if expelled := errors.Is(err, topic.ErrExpelled); expelled != (claim.Partition == 3) {
			t.Errorf("partition %d: %v", claim.Partition, err)
		}
		return nil
	})
}

// A caller that stops waiting does not end the commits of the others.
func TestGivingUpACommitEndsNoOther(t *testing.T) {
	cluster, config := fake(t)
	var held atomic.Bool
	hold := make(chan struct{})
	cluster.ControlKey(int16(kmsg.OffsetCommit), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if held.CompareAndSwap(false, true) {
			cluster.SleepControl(func() { <-hold })
		}
		return nil, nil, false
	})
	first, gaveUp := make(chan struct{}), make(chan struct{})
	var one sync.Once
	given := -1 // the partition whose commit was given up
	commits := together(t, kafkatest.Client(t, config), func(ctx context.Context, claim *topic.Claim) error {
		mine := false
		one.Do(func() { mine = true })
		if !mine {
			<-first
			return claim.Commit(ctx, topic.Commit{Offset: 5})
		}
		impatient, cancel := context.WithCancel(ctx)
		time.AfterFunc(200*time.Millisecond, func() {
			close(first)
			cancel()
		})
		if err := claim.Commit(impatient, topic.Commit{Offset: 4}); !errors.Is(err, context.Canceled) {
			t.Errorf("who gave up is told %v", err)
		}
		close(gaveUp)
		close(hold)
		given = claim.Partition
		return claim.Commit(ctx, topic.Commit{Offset: 5}) // the one that was given up may arrive behind it
	})
	<-gaveUp
	for p, commit := range commits {
		if p != given && commit.Offset != 5 {
			t.Errorf("partition %d: %v", p, commit)
		}
	}
}
