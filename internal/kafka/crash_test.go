package kafka_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"weir/internal/kafka"
	"weir/internal/kafka/kafkatest"
	"weir/internal/sleep"
	"weir/internal/topic"
	"weir/test/real"
	"weir/test/wait"
)

// traffic produces numbered messages to all partitions and reads them back, until it is stopped.
type traffic struct {
	t          *testing.T
	client     *kafka.Client
	topic      string
	partitions []int
	written    written
	sent       int
	stop       context.CancelFunc
	stopped    chan struct{}
}

func startTraffic(t *testing.T, client *kafka.Client, name string, partitions int) *traffic {
	ctx, cancel := context.WithCancel(context.Background())
	f := &traffic{t: t, client: client, topic: name, partitions: upTo(partitions), stop: cancel, stopped: make(chan struct{})}
	go func() {
		defer close(f.stopped)
		producer := client.OpenProducer(topic.AppenderConfig{Topic: name, Partitions: partitions})
		for ctx.Err() == nil {
			var batch []topic.Message
			for _, p := range f.partitions {
				batch = append(batch, f.written.message(p, f.sent, fmt.Appendf(nil, "%d", f.sent)))
			}
			if err := producer.Send(context.Background(), batch...); err != nil {
				t.Error(err)
			}
			f.sent++
			time.Sleep(20 * time.Millisecond) // 50 a second are enough
		}
		if err := producer.Close(within(t, time.Minute)); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-f.stopped
	})
	return f
}

// flows waits until more messages of every partition are acknowledged.
func (f *traffic) flows() {
	f.t.Helper()
	f.written.mu.Lock()
	most := 0
	for _, acks := range f.written.done {
		most = max(most, len(acks))
	}
	f.written.mu.Unlock()
	f.written.await(f.t, f.partitions, most+20)
}

// check ends the traffic: no acknowledged message is lost or out of order.
func (f *traffic) check() {
	f.t.Helper()
	f.stop()
	<-f.stopped
	doubled := 0
	for _, p := range f.partitions {
		f.written.inOrder(f.t, p, f.sent)
		records := readAll(f.t, f.client, f.topic, p, 0)
		f.written.logged(f.t, p, records)
		doubled += len(records) - f.sent
	}
	f.t.Logf("%d messages, %d doubled", f.sent*len(f.partitions), doubled)
}

// follow reads a partition to the end of the test and fails it when an offset is skipped.
func follow(t *testing.T, ctx context.Context, client *kafka.Client, name string) (done chan struct{}) {
	done = make(chan struct{})
	go func() {
		defer close(done)
		reader := client.NewReader(name, 0, 0)
		next := int64(0)
		for ctx.Err() == nil {
			records, err := reader.Fetch(ctx)
			if err != nil && ctx.Err() == nil && strings.Contains(err.Error(), "the log ends") {
				t.Error(err)
			}
			for _, r := range records {
				if r.Offset != next {
					t.Errorf("offset %d came after %d", r.Offset, next-1)
				}
				next = r.Offset + 1
			}
		}
	}()
	return done
}

// TestABrokerDies kills one broker of three, the group's coordinator. The member keeps its place, and its owners commit
// at the next coordinator.
func TestABrokerDies(t *testing.T) {
	real.Long(t)
	t.Parallel()
	cluster := kafkatest.Real(t, kafkatest.Options{Brokers: 3})
	client := kafkatest.Client(t, kafka.Config{Brokers: cluster.Addresses(), Create: true})
	const partitions = 6
	name := newTopic(t, client, partitions)
	f := startTraffic(t, client, name, partitions)
	ctx, cancel := context.WithCancel(context.Background())
	followed := follow(t, ctx, client, name)
	l := newLedger(t)
	var committed [partitions]atomic.Int64 // when each partition last did, in Unix ns
	join(t, client, topic.Group{Name: name, Topics: map[string]int{name: partitions}, Session: 6 * time.Second}, func(ctx context.Context, claim *topic.Claim) error {
		ctx, cancel := context.WithCancel(ctx)
		var committing sync.WaitGroup
		defer committing.Wait()
		defer cancel()
		committing.Go(func() {
			for n := int64(1); ctx.Err() == nil; n++ {
				if claim.Commit(ctx, topic.Commit{Offset: n}) == nil {
					committed[claim.Partition].Store(time.Now().UnixNano())
				}
				sleep.For(ctx, 100*time.Millisecond)
			}
		})
		return l.working("one")(ctx, claim)
	})
	l.await("one", partitions)
	id := l.member("one")
	f.flows()
	victim := coordinatorOf(t, cluster, name)
	killed := time.Now()
	cluster.Kill(victim)
	f.flows()
	l.await("one", partitions)
	t.Logf("all partitions are written again after %s", time.Since(killed).Round(10*time.Millisecond))
	if err := cluster.StartBroker(victim); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Ready(within(t, 2*time.Minute)); err != nil {
		t.Fatal(err)
	}
	f.flows()
	l.await("one", partitions)
	for p := range committed {
		wait.Until(t, fmt.Sprint("partition ", p, " commits at the next coordinator"), func() bool { return committed[p].Load() > killed.UnixNano() })
	}
	if l.member("one") != id {
		t.Errorf("the member was %s and is %s", id, l.member("one"))
	}
	cancel()
	<-followed
	f.check()
}

// TestTheBrokerDies kills the only broker, and suspends it for longer than a request may last.
func TestTheBrokerDies(t *testing.T) {
	real.Long(t)
	cluster := kafkatest.Shared(t)
	client := kafkatest.Client(t, onReal(t))
	name := newTopic(t, client, 2)
	f := startTraffic(t, client, name, 2)
	ctx, cancel := context.WithCancel(context.Background())
	followed := follow(t, ctx, client, name)
	f.flows()
	killed := time.Now()
	cluster.Kill(0)
	if err := cluster.StartBroker(0); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Ready(within(t, 2*time.Minute)); err != nil {
		t.Fatal(err)
	}
	f.flows()
	t.Logf("written again after %s", time.Since(killed).Round(10*time.Millisecond))
	if err := cluster.Pause(0); err != nil {
		t.Fatal(err)
	}
	paused := time.Now()
	if _, err := kafkatest.Client(t, onReal(t)).Cluster(within(t, time.Minute)); err == nil || !strings.HasSuffix(err.Error(), "no answer from Kafka within 5s") {
		t.Errorf("while the broker is stopped: %v", err)
	}
	time.Sleep(time.Until(paused.Add(7 * time.Second))) // and unfinished requests are sent again
	if err := cluster.Resume(0); err != nil {
		t.Fatal(err)
	}
	f.flows()
	if err := cluster.Ready(within(t, 2*time.Minute)); err != nil {
		t.Fatal(err)
	}
	cancel()
	<-followed
	f.check()
}

// working is an owner without a commit: its coordinator may be gone when it returns.
func (l *ledger) working(name string) topic.Owner {
	return func(ctx context.Context, claim *topic.Claim) error {
		l.take(name, claim)
		<-ctx.Done()
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.owner, claim.Partition)
		return nil
	}
}

func coordinatorOf(t *testing.T, cluster *kafkatest.Cluster, group string) int {
	t.Helper()
	admin := kafkago.Client{Addr: kafkago.TCP(cluster.Addresses()...)}
	response, err := admin.FindCoordinator(within(t, time.Minute), &kafkago.FindCoordinatorRequest{Key: group})
	if err != nil || response.Error != nil {
		t.Fatal(err, response)
	}
	return response.Coordinator.NodeID
}
