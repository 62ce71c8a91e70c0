package kafka_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/internal/kafka"
	"weir/internal/kafka/kafkatest"
	"weir/internal/topic"
)

func TestGroups(t *testing.T) {
	onBoth(t, func(t *testing.T, config kafka.Config) {
		client := kafkatest.Client(t, config)
		name := newTopic(t, client, 2)
		prefix := name + "."
		ctx, leave := context.WithCancel(within(t, time.Minute))
		committed, left := make(chan struct{}), make(chan error, 1)
		go func() {
			left <- client.RunGroup(ctx, topic.Group{Name: prefix + "b", Topics: map[string]int{name: 2}}, func(ctx context.Context, claim *topic.Claim) error {
				if claim.Partition == 1 {
					if err := claim.Commit(ctx, topic.Commit{Offset: 7, Metadata: "note"}); err != nil {
						t.Error(err)
					}
					close(committed)
				}
				<-ctx.Done()
				return nil
			})
		}()
		<-committed
		none := topic.GroupState{Name: prefix + "a", Commits: map[string]map[int]topic.Commit{}}
		one := topic.GroupState{Name: prefix + "b", Members: 1, Commits: map[string]map[int]topic.Commit{name: {1: {Offset: 7, Metadata: "note"}}}}
		groups(t, client, prefix, []topic.GroupState{none, one}, prefix+"b", prefix+"a")
		leave()
		if err := <-left; err != nil {
			t.Error(err)
		}
		one.Members = 0
		groups(t, client, prefix, []topic.GroupState{one})
		groups(t, client, prefix+"none", nil)
	})
}

func groups(t *testing.T, client *kafka.Client, prefix string, want []topic.GroupState, named ...string) {
	t.Helper()
	got, err := client.Groups(within(t, time.Minute), prefix, named...)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

// A group that cannot be asked is an error, not a group that has committed nothing.
func TestGroupsLookAtErrors(t *testing.T) {
	for key, says := range map[kmsg.Key]string{kmsg.OffsetFetch: "asking for group g", kmsg.DescribeGroups: "asking for group g"} {
		cluster, config := fake(t, kfake.SeedTopics(1, "hits"))
		client := kafkatest.Client(t, config)
		cluster.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Err: kerr.GroupAuthorizationFailed, Count: -1})
		if states, err := client.Groups(within(t, time.Minute), "", "g"); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v, %v", key, states, err)
		}
	}
}

// Groups waits for a coordinator that is starting.
func TestGroupsWaitForTheCoordinator(t *testing.T) {
	cluster, config := fake(t, kfake.SeedTopics(1, "hits"))
	client := kafkatest.Client(t, config)
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Err: kerr.NotCoordinator, Count: 1})
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeGroups}, Err: kerr.CoordinatorLoadInProgress, Count: 1})
	groups(t, client, "", []topic.GroupState{{Name: "g", Commits: map[string]map[int]topic.Commit{}}}, "g")
}
