package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"weir/internal/kafka"
	"weir/internal/kafka/kafkatest"
	"weir/internal/topic"
	"weir/test/wait"
)

// A ledger records the current owner of each partition, and fails a test when there are two.
type ledger struct {
	t  *testing.T
	mu sync.Mutex

	owner      map[int]string
	members    map[string]string // by name, the id it last had
	taken      map[string]int    // by name, how many partitions it has got over time
	checkpoint time.Duration     // how long it takes
	fenced     bool              // members lose partitions while they own them
}

func newLedger(t *testing.T) *ledger {
	return &ledger{t: t, owner: map[int]string{}, members: map[string]string{}, taken: map[string]int{}}
}

// own is an owner that records itself, and needs a while for its checkpoint.
func (l *ledger) own(name string) topic.Owner {
	return func(ctx context.Context, claim *topic.Claim) error {
		checkpoint := l.take(name, claim)
		<-ctx.Done()
		time.Sleep(checkpoint)
		err := claim.Commit(context.WithoutCancel(ctx), topic.Commit{Offset: 7, Metadata: name})
		if err != nil && !(l.fenced && errors.Is(err, topic.ErrExpelled)) {
			l.t.Errorf("%s: the checkpoint of partition %d: %v", name, claim.Partition, err)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.owner[claim.Partition] == name {
			delete(l.owner, claim.Partition)
		}
		return nil
	}
}

func (l *ledger) take(name string, claim *topic.Claim) (checkpoint time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if other := l.owner[claim.Partition]; other != "" && !l.fenced {
		l.t.Errorf("%s was given partition %d while %s has it", name, claim.Partition, other)
	}
	l.owner[claim.Partition] = name
	l.taken[name]++
	l.members[name] = claim.Member
	return l.checkpoint
}

func (l *ledger) setCheckpoint(checkpoint time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.checkpoint = checkpoint
}

// of returns the partitions of a member.
func (l *ledger) of(name string) []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []int
	for partition, owner := range l.owner {
		if owner == name {
			all = append(all, partition)
		}
	}
	slices.Sort(all)
	return all
}

func (l *ledger) member(name string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.members[name]
}

func (l *ledger) timesTaken(name string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.taken[name]
}

func (l *ledger) await(name string, partitions int) {
	l.t.Helper()
	wait.Until(l.t, fmt.Sprintf("%s to have %d partitions", name, partitions), func() bool {
		return len(l.of(name)) == partitions
	})
}

// join runs a member until the returned function is called, which waits for its end.
func join(t *testing.T, client *kafka.Client, group topic.Group, own topic.Owner) (leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	left := make(chan error, 1)
	go func() { left <- client.RunGroup(ctx, group, own) }()
	var once sync.Once
	leave = func() {
		once.Do(func() {
			cancel()
			if err := <-left; err != nil {
				t.Errorf("RunGroup: %v", err)
			}
		})
	}
	t.Cleanup(leave)
	return leave
}

// A partition moves only after its owner's checkpoint, even if that lasts longer than the session; a partition that
// need not move stays.
func TestGroupGivesUpAfterTheCheckpoint(t *testing.T) {
	t.Run("fake", func(t *testing.T) {
		_, config := fake(t, kfake.NumBrokers(3), kfake.GroupMinSessionTimeout(time.Millisecond))
		// A short session would make the broker drop its second member while that waits.
		giveUpAfterCheckpoint(t, config, 600*time.Millisecond, 20*time.Second)
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		giveUpAfterCheckpoint(t, onReal(t), 6*time.Second, 6*time.Second)
	})
}

func giveUpAfterCheckpoint(t *testing.T, config kafka.Config, session, otherSession time.Duration) {
	const partitions = 8
	var log lines
	config.Logger = slog.New(slog.NewTextHandler(&log, nil))
	client := kafkatest.Client(t, config)
	name := newTopic(t, client, partitions)
	group := topic.Group{Name: name, Topics: map[string]int{name: partitions}, Session: session, Rebalance: 30 * time.Second}
	l := newLedger(t)
	l.setCheckpoint(session * 3 / 2)
	leaveOne := join(t, client, group, l.own("one"))
	l.await("one", partitions)
	id := l.member("one")
	l.setCheckpoint(0)
	group.Session = otherSession
	leaveTwo := join(t, client, group, l.own("two"))
	l.await("two", partitions/2)
	l.await("one", partitions/2)
	if l.member("one") != id {
		t.Errorf("one has lost its place: it was %s and is %s", id, l.member("one"))
	}
	leaveTwo()
	l.await("one", partitions)
	leaveOne()
	commits, err := client.Committed(within(t, time.Minute), name, name)
	if err != nil {
		t.Fatal(err)
	}
	for p, commit := range commits {
		if commit != (topic.Commit{Offset: 7, Metadata: "one"}) {
			t.Errorf("partition %d: %+v is committed", p, commit)
		}
	}
	if said := log.count("level=WARN"); said > 0 {
		t.Errorf("%d warnings where all is well:\n%s", said, strings.Join(log.all(), "\n"))
	}
}

// With more members each keeps a part of its partitions, without interruption, and gets no others.
func TestGroupMovesNoMoreThanItMust(t *testing.T) {
	t.Parallel()
	_, config := fake(t, kfake.SeedTopics(12, "hits"))
	client := kafkatest.Client(t, config)
	group := topic.Group{Name: "g", Topics: map[string]int{"hits": 12}, Session: 6 * time.Second}
	l := newLedger(t)
	join(t, client, group, l.own("one"))
	l.await("one", 12)
	join(t, client, group, l.own("two"))
	l.await("two", 6)
	l.await("one", 6)
	ones, twos := l.of("one"), l.of("two")
	join(t, client, group, l.own("three"))
	l.await("three", 4)
	l.await("one", 4)
	l.await("two", 4)
	for name, taken := range map[string]int{"one": 12, "two": 6, "three": 4} {
		if l.timesTaken(name) != taken {
			t.Errorf("%s has begun to own partitions %d times, want %d", name, l.timesTaken(name), taken)
		}
	}
	for _, p := range l.of("one") {
		if !slices.Contains(ones, p) {
			t.Errorf("one has partition %d now and had %v", p, ones)
		}
	}
	for _, p := range l.of("two") {
		if !slices.Contains(twos, p) {
			t.Errorf("two has partition %d now and had %v", p, twos)
		}
	}
}

// Members that want all partitions leave them to one of them, also when others come or it is killed. When it no longer
// wants them, all have their shares.
func TestGroupOfOneThatWantsAll(t *testing.T) {
	t.Run("fake", func(t *testing.T) {
		_, config := fake(t, kfake.NumBrokers(3))
		oneWantsAll(t, config)
	})
	t.Run("real", func(t *testing.T) {
		oneWantsAll(t, kafka.Config{Brokers: kafkatest.Shared(t).Addresses(), Create: true})
	})
}

func oneWantsAll(t *testing.T, config kafka.Config) {
	client := kafkatest.Client(t, config)
	name := fmt.Sprintf("alone.%d", time.Now().UnixNano())
	if err := client.EnsureTopics(t.Context(), topic.Topic{Name: name, Partitions: 8}); err != nil {
		t.Fatal(err)
	}
	l := newLedger(t)
	var wanted atomic.Bool
	var placed func() int // how often the last member has got a place
	member := func(of string) (leave func()) {
		group := topic.Group{Name: name, Topics: map[string]int{name: 8}, Session: 6 * time.Second}
		group.Alone = func() bool { return wanted.Load() && len(l.of(of)) > 0 }
		placed = places(&group)
		return join(t, client, group, l.own(of))
	}
	names := []string{"one", "two", "three"}
	leave := map[string]func(){}
	for _, of := range names {
		leave[of] = member(of)
	}
	shared := func(members ...string) {
		t.Helper()
		wait.Until(t, "all to have a share", func() bool {
			total, least := 0, 8
			for _, of := range members {
				total, least = total+len(l.of(of)), min(least, len(l.of(of)))
			}
			return total == 8 && least >= 8/len(members)
		})
	}
	alone := func(members ...string) (of string) {
		t.Helper()
		wait.Until(t, "one to have all", func() bool {
			i := slices.IndexFunc(members, func(of string) bool { return len(l.of(of)) == 8 })
			if i >= 0 {
				of = members[i]
			}
			return i >= 0
		})
		return of
	}

	shared(names...)
	wanted.Store(true)
	first := alone(names...)
	leave["four"] = member("four")
	names = append(slices.DeleteFunc(names, func(of string) bool { return of == first }), "four")
	wait.Until(t, "the fourth to take part", func() bool { return placed() > 0 })
	if len(l.of(first)) != 8 || l.timesTaken("four") > 0 {
		t.Errorf("%s has %d partitions, and the fourth has got %d", first, len(l.of(first)), l.timesTaken("four"))
	}
	leave[first]()
	alone(names...)
	wanted.Store(false)
	shared(names...)
}

// places counts how often a member has got a place in its group.
func places(group *topic.Group) (count func() int) {
	var times atomic.Int64
	group.Place = func(has bool) {
		if has {
			times.Add(1)
		}
	}
	return func() int { return int(times.Load()) }
}

// A member whose connections to the coordinator break, or whose coordinator moves, comes back under its id. Its owners
// go on meanwhile.
func TestGroupKeepsItsPlace(t *testing.T) {
	t.Parallel()
	cluster, config := fake(t, kfake.NumBrokers(3), kfake.SeedTopics(4, "hits"))
	client := kafkatest.Client(t, config)
	l := newLedger(t)
	group := topic.Group{Name: "g", Topics: map[string]int{"hits": 4}, Session: 6 * time.Second}
	joined := places(&group)
	join(t, client, group, l.own("one"))
	l.await("one", 4)
	id := l.member("one")
	// The coordinator closes the connection at a heartbeat, and then loads for a while.
	cluster.ControlKey(int16(kmsg.Heartbeat), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.FindCoordinator}, Err: kerr.CoordinatorNotAvailable, Count: 3})
		loading := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Err: kerr.CoordinatorLoadInProgress, Count: 3})
		cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.JoinGroup}, Err: kerr.CoordinatorLoadInProgress, Count: -1,
			When: func(kmsg.Request) bool { return loading.Hits() < 3 }})
		return nil, errors.New("cut"), true
	})
	wait.Until(t, "the next generation", func() bool { return joined() == 2 })
	if l.member("one") != id {
		t.Errorf("it was %s and is %s", id, l.member("one"))
	}
	if taken := l.timesTaken("one"); taken != 4 {
		t.Errorf("%d owners have begun for 4 partitions", taken)
	}
}

// That another broker becomes the coordinator is ordinary, and no warning.
func TestGroupWhoseCoordinatorMoves(t *testing.T) {
	t.Parallel()
	cluster, config := fake(t, kfake.NumBrokers(3), kfake.SeedTopics(1, "hits"))
	var log lines
	config.Logger = slog.New(slog.NewTextHandler(&log, nil))
	l := newLedger(t)
	group := topic.Group{Name: "g", Topics: map[string]int{"hits": 1}, Session: 6 * time.Second}
	joined := places(&group)
	leave := join(t, kafkatest.Client(t, config), group, l.own("one"))
	l.await("one", 1)

	moved := make(chan [2]*kfake.FaultHandle, 1)
	cluster.ControlKey(int16(kmsg.Heartbeat), func(kmsg.Request) (kmsg.Response, error, bool) {
		moved <- [2]*kfake.FaultHandle{
			cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Err: kerr.NotCoordinator, Count: 1}),
			cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.NotCoordinator, Count: 1}),
		}
		return nil, errors.New("cut"), true
	})
	faults := <-moved
	wait.Until(t, "the next generation", func() bool { return joined() == 2 })
	leave()
	for _, fault := range faults {
		if fault.Hits() != 1 {
			t.Error("the coordinator did not move")
		}
	}
	if log.count("level=WARN") > 0 {
		t.Errorf("it warns:\n%s", strings.Join(log.all(), "\n"))
	}
}

// A member waits until members that share partitions in another way have left, and logs what it waits for.
func TestGroupOfAnotherVersion(t *testing.T) {
	onBoth(t, func(t *testing.T, config kafka.Config) {
		var log lines
		config.Logger = slog.New(slog.NewTextHandler(&log, nil))
		client := kafkatest.Client(t, config)
		name := newTopic(t, client, 2)
		other, err := kafkago.NewConsumerGroup(kafkago.ConsumerGroupConfig{ID: name, Topics: []string{name}, Brokers: config.Brokers,
			GroupBalancers: []kafkago.GroupBalancer{kafkago.RangeGroupBalancer{}}, SessionTimeout: 6 * time.Second, HeartbeatInterval: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		wait.Until(t, "the other member to have joined", func() bool { // a new cluster makes the coordinator first
			_, err := other.Next(within(t, time.Minute))
			return err == nil
		})
		l := newLedger(t)
		join(t, client, topic.Group{Name: name, Topics: map[string]int{name: 2}}, l.own("one"))
		wait.Until(t, "the log to say what is waited for", log.has("it has members of another version"))
		if err := other.Close(); err != nil {
			t.Fatal(err)
		}
		l.await("one", 2)
	})
}

func TestGroupEndsWithAnOwnersError(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	broken := errors.New("the store went back")
	cluster, config := fake(t, kfake.SeedTopics(4, "hits"))
	client := kafkatest.Client(t, config)
	var mu sync.Mutex
	returned := 0
	err := client.RunGroup(within(t, time.Minute), topic.Group{Name: "g", Topics: map[string]int{"hits": 4}}, func(ctx context.Context, claim *topic.Claim) error {
		if claim.Partition == 2 {
			return broken
		}
		<-ctx.Done()
		mu.Lock()
		defer mu.Unlock()
		returned++
		return errors.New("too late to matter")
	})
	if err != broken {
		t.Fatalf("RunGroup: %v", err)
	}
	if returned != 3 {
		t.Fatalf("%d owners had returned before RunGroup did", returned)
	}
	if info := cluster.GroupInfo("g"); info != nil && len(info.Members) > 0 {
		t.Fatalf("the group still has %d members", len(info.Members))
	}
	client.Close()
	cluster.Close()
}

// A member waits for a topic that is created late, and does not create it by joining.
func TestGroupWaitsForItsTopic(t *testing.T) {
	var log lines
	config := onReal(t)
	config.Logger = slog.New(slog.NewTextHandler(&log, nil))
	client := kafkatest.Client(t, config)
	name := fmt.Sprintf("late.%d", topics.Add(1))
	l := newLedger(t)
	join(t, client, topic.Group{Name: name, Topics: map[string]int{name: 3}, Session: 6 * time.Second}, l.own("one"))
	wait.Until(t, "the log to say what is missing", log.has("joining group "+name+": topic "+name+": the topic does not exist"))
	if err := client.EnsureTopics(within(t, time.Minute), topic.Topic{Name: name, Partitions: 3}); err != nil {
		t.Fatal(err)
	}
	l.await("one", 3)
}

func TestGroupAndPartitions(t *testing.T) {
	t.Parallel()
	_, config := fake(t, kfake.SeedTopics(3, "hits", "logs"))
	client := kafkatest.Client(t, config)
	ctx := within(t, time.Minute)
	fixed := topic.Group{Name: "fixed", Topics: map[string]int{"hits": 4}}
	err := client.RunGroup(ctx, fixed, nil)
	if !errors.Is(err, topic.ErrPartitions) || !errors.Is(err, topic.ErrPermanent) || !strings.Contains(err.Error(), "topic hits has 3 partitions and not 4") {
		t.Fatalf("RunGroup: %v", err)
	}
	fixed.Topics["hits"] = 3
	l, ends := newLedger(t), make(chan error)
	go func() { ends <- client.RunGroup(ctx, fixed, l.own("fixed")) }()
	growing := newLedger(t)
	join(t, client, topic.Group{Name: "growing", Topics: map[string]int{"logs": 0}}, growing.own("growing"))
	l.await("fixed", 3)
	growing.await("growing", 3)
	grow(t, config, "hits", 5)
	grow(t, config, "logs", 5)
	if err := <-ends; !errors.Is(err, topic.ErrPartitions) {
		t.Fatalf("RunGroup: %v", err)
	}
	growing.await("growing", 5)
}

func grow(t *testing.T, config kafka.Config, name string, partitions int32) {
	t.Helper()
	admin := kafkago.Client{Addr: kafkago.TCP(config.Brokers...)}
	response, err := admin.CreatePartitions(within(t, time.Minute), &kafkago.CreatePartitionsRequest{Topics: []kafkago.TopicPartitionsConfig{{Name: name, Count: partitions}}})
	if err != nil || response.Errors[name] != nil {
		t.Fatal(err, response)
	}
}

func TestCommit(t *testing.T) {
	onBoth(t, func(t *testing.T, config kafka.Config) {
		client := kafkatest.Client(t, config)
		name := newTopic(t, client, 2)
		ctx, leave := context.WithCancel(within(t, time.Minute))
		longest := strings.Repeat("m", topic.MaxMetadata)
		var late *topic.Claim
		err := client.RunGroup(ctx, topic.Group{Name: name, Topics: map[string]int{name: 2}}, func(ctx context.Context, claim *topic.Claim) error {
			if claim.Partition == 1 {
				return nil
			}
			defer leave()
			late = claim
			if err := claim.Commit(ctx, topic.Commit{Offset: 1, Metadata: longest + "m"}); !errors.Is(err, topic.ErrTooLarge) {
				return fmt.Errorf("metadata too long: %w", err)
			}
			return claim.Commit(ctx, topic.Commit{Offset: 42, Metadata: longest})
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := late.Commit(within(t, time.Minute), topic.Commit{Offset: 43}); !errors.Is(err, topic.ErrExpelled) {
			t.Errorf("a commit after leaving: %v", err)
		}
		commits, err := client.Committed(within(t, time.Minute), name, name)
		if err != nil {
			t.Fatal(err)
		}
		if want := []topic.Commit{{Offset: 42, Metadata: longest}, {Offset: -1}}; !slices.Equal(commits, want) {
			t.Errorf("committed is %v", commits)
		}
	})
}

// A member leaves promptly while the brokers are away.
func TestGroupLeavesWithoutABroker(t *testing.T) {
	t.Parallel()
	cluster, config := fake(t, kfake.SeedTopics(2, "hits"))
	client := kafkatest.Client(t, config)
	started := make(chan bool, 2)
	leave := join(t, client, topic.Group{Name: "g", Topics: map[string]int{"hits": 2}}, func(ctx context.Context, _ *topic.Claim) error {
		started <- true
		<-ctx.Done()
		return nil
	})
	<-started
	cluster.Close()
	begun := time.Now()
	leave()
	if took := time.Since(begun); took > 20*time.Second {
		t.Fatalf("it took %s", took)
	}
}
