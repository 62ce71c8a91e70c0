package kafka_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
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

// produced records the produce requests that a fake's brokers got.
type produced struct {
	mu       sync.Mutex
	batches  [][]int // the partitions of each request
	records  []int   // the records of each request
	underWay map[int32]bool
	overlaps int
	careless int           // requests without acks=all
	arrived  chan int      // each request's number
	proceed  chan struct{} // one for each request that may be answered; nil answers at once
}

// observe records produce requests, and delays each until proceed releases it.
func observe(cluster *kfake.Cluster, hold bool) *produced {
	p := &produced{underWay: map[int32]bool{}, arrived: make(chan int, 1000)}
	if hold {
		p.proceed = make(chan struct{}, 1000)
	}
	cluster.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		topic := request.(*kmsg.ProduceRequest).Topics[0]
		p.arrive(topic.Partitions, request.(*kmsg.ProduceRequest).Acks)
		if p.proceed != nil {
			cluster.SleepControl(func() { <-p.proceed })
		}
		p.leave(topic.Partitions)
		return nil, nil, false
	})
	return p
}

func (p *produced) arrive(partitions []kmsg.ProduceRequestTopicPartition, acks int16) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if acks != -1 {
		p.careless++
	}
	var numbers []int
	records := 0
	for _, partition := range partitions {
		if p.underWay[partition.Partition] {
			p.overlaps++
		}
		p.underWay[partition.Partition] = true
		numbers = append(numbers, int(partition.Partition))
		var batch kmsg.RecordBatch
		batch.ReadFrom(partition.Records)
		records += int(batch.NumRecords)
	}
	slices.Sort(numbers)
	p.batches, p.records = append(p.batches, numbers), append(p.records, records)
	p.arrived <- len(p.batches)
}

func (p *produced) leave(partitions []kmsg.ProduceRequestTopicPartition) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, partition := range partitions {
		p.underWay[partition.Partition] = false
	}
}

// Messages that queue during a request go into the next one, all partitions together.
func TestProducerGathers(t *testing.T) {
	const partitions = 8
	cluster, config := fake(t, kfake.SeedTopics(partitions, "hits"))
	seen := observe(cluster, true)
	client := kafkatest.Client(t, config)
	producer := client.OpenProducer(topic.AppenderConfig{Topic: "hits", Partitions: partitions})
	ctx := within(t, time.Minute)
	var w written
	send(t, producer, w.message(0, 0, []byte("alone")))
	<-seen.arrived
	for p := range partitions {
		for i := range 5 {
			send(t, producer, w.message(p, (i+one(p == 0)), []byte("gathered")))
		}
	}
	seen.proceed <- struct{}{}
	<-seen.arrived
	seen.proceed <- struct{}{}
	if err := producer.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if want := []int{1, 5 * partitions}; !slices.Equal(seen.records, want) {
		t.Fatalf("the requests had %v records, not %v", seen.records, want)
	}
	if want := []int{0, 1, 2, 3, 4, 5, 6, 7}; !slices.Equal(seen.batches[1], want) {
		t.Fatalf("the second request was for %v", seen.batches[1])
	}
	w.inOrder(t, 0, 6)
}

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

func send(t *testing.T, producer *kafka.Producer, messages ...topic.Message) {
	t.Helper()
	if err := producer.Send(within(t, time.Minute), messages...); err != nil {
		t.Fatal(err)
	}
}

// TestProducerOrder makes brokers refuse, time out after writing, lose connections and swap leaders.
func TestProducerOrder(t *testing.T) {
	t.Parallel()
	const partitions, messages = 6, 400
	cluster, config := fake(t, kfake.NumBrokers(3), kfake.SeedTopics(partitions, "hits"))
	seen := observe(cluster, false)
	client := kafkatest.Client(t, config)
	producer := client.OpenProducer(topic.AppenderConfig{Topic: "hits", Partitions: partitions})
	var w written
	for i := range messages {
		switch i % 100 {
		case 20:
			cluster.ShufflePartitionLeaders()
		case 40:
			cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: 2})
		case 60:
			cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.RequestTimedOut, Count: 2})
		case 80:
			cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
				return nil, errors.New("the connection is lost"), true
			})
		}
		for p := range partitions {
			send(t, producer, w.message(p, i, fmt.Appendf(nil, "%d", i)))
		}
		if i%10 == 9 {
			w.await(t, upTo(partitions), i+1)
		}
	}
	if err := producer.Close(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	for p := range partitions {
		w.inOrder(t, p, messages)
		w.logged(t, p, readAll(t, client, "hits", p, 0))
	}
	if seen.overlaps > 0 {
		t.Fatalf("%d times two requests for one partition were under way", seen.overlaps)
	}
	if seen.careless > 0 {
		t.Fatalf("%d requests were not for all replicas", seen.careless)
	}
}

func upTo(partitions int) []int {
	var all []int
	for p := range partitions {
		all = append(all, p)
	}
	return all
}

// await waits until so many messages of each partition are done.
func (w *written) await(t *testing.T, partitions []int, messages int) {
	t.Helper()
	wait.Until(t, "the messages to be done", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return !slices.ContainsFunc(partitions, func(p int) bool { return len(w.done[p]) < messages })
	})
}

// logged fails unless every acknowledged message is at its offset, and the first copies of all messages are in order.
func (w *written) logged(t *testing.T, partition int, records []topic.Record) {
	t.Helper()
	at, seen := map[int64]string{}, map[string]bool{}
	var first []string
	for _, r := range records {
		value := string(r.Value)
		at[r.Offset] = value
		if !seen[value] {
			first = append(first, value)
		}
		seen[value] = true
	}
	for i, a := range w.done[partition] {
		if at[a.offset] != fmt.Sprint(a.number) {
			t.Fatalf("partition %d: %q is at offset %d, where message %d was acknowledged", partition, at[a.offset], a.offset, a.number)
		}
		if first[i] != fmt.Sprint(i) {
			t.Fatalf("partition %d: the %d. new message in the log is %s", partition, i, first[i])
		}
	}
}

// A batch that is too large is halved until it fits. A message that is larger than Kafka's default limit is returned
// with an error, and those around it are written.
func TestProducerSplits(t *testing.T) {
	onBoth(t, func(t *testing.T, config kafka.Config) {
		client := kafkatest.Client(t, config)
		name := newTopic(t, client, 1, "max.message.bytes=20000")
		producer := client.OpenProducer(topic.AppenderConfig{Topic: name, Partitions: 1})
		var mu sync.Mutex
		var refused []int
		var batch []topic.Message
		for i := range 200 {
			size := 1000
			if i == 77 {
				size = 1_050_000
			}
			batch = append(batch, topic.Message{Value: bytes.Repeat([]byte{byte(i)}, size), Done: func(_ int64, err error) {
				mu.Lock()
				defer mu.Unlock()
				if err != nil && errors.Is(err, topic.ErrTooLarge) && errors.Is(err, topic.ErrPermanent) {
					refused = append(refused, i)
				}
			}})
		}
		send(t, producer, batch...)
		if err := producer.Close(within(t, time.Minute)); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(refused, []int{77}) {
			t.Fatalf("%v were refused", refused)
		}
		var got []byte
		for _, r := range readAll(t, client, name, 0, 0) {
			got = append(got, r.Value[0])
		}
		var want []byte
		for i := range 200 {
			if i != 77 {
				want = append(want, byte(i))
			}
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("the log has %v", got)
		}
	})
}

// A message that only this topic's limit refuses waits, in its order, until the limit is higher.
func TestProducerWaitsForALargerLimit(t *testing.T) {
	config := onReal(t)
	var log lines
	config.Logger = slog.New(slog.NewTextHandler(&log, nil))
	client := kafkatest.Client(t, config)
	name := newTopic(t, client, 1, "max.message.bytes=20000")
	producer := client.OpenProducer(topic.AppenderConfig{Topic: name, Partitions: 1})
	var w written
	for i := range 21 {
		message := w.message(0, i, fmt.Append(nil, i))
		if i == 10 {
			message.Key = make([]byte, 30_000)
		}
		send(t, producer, message)
	}

	wait.Text(t, &log, "raise its max.message.bytes")
	setTopic(t, config, name, "max.message.bytes", "1048588")
	if err := producer.Close(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	w.inOrder(t, 0, 21)
	w.logged(t, 0, readAll(t, client, name, 0, 0))
}

// A broker refuses a record whose time is far from its own. The record gets a new time whenever it is sent again.
func TestProducerWaitsForTheClock(t *testing.T) {
	cluster, config := fake(t, kfake.SeedTopics(1, "hits"))
	refusals := 3
	cluster.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if refusals == 0 {
			return nil, nil, false
		}
		refusals--
		answer := request.ResponseKind().(*kmsg.ProduceResponse)
		answer.Topics = []kmsg.ProduceResponseTopic{{Topic: "hits", Partitions: []kmsg.ProduceResponseTopicPartition{{ErrorCode: kerr.InvalidTimestamp.Code}}}}
		return answer, nil, true
	})
	client := kafkatest.Client(t, config)
	producer := client.OpenProducer(topic.AppenderConfig{Topic: "hits", Partitions: 1})
	var w written
	send(t, producer, w.message(0, 0, []byte("0")))
	if err := producer.Close(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	w.inOrder(t, 0, 1)
	w.logged(t, 0, readAll(t, client, "hits", 0, 0))
}

// Kafka refuses a complete batch because of one record without a key in a compacted topic. Such records wait, in their
// order, until the policy is right: what an administrator set by mistake loses none.
func TestProducerWaitsForThePolicy(t *testing.T) {
	config := onReal(t)
	var log lines
	config.Logger = slog.New(slog.NewTextHandler(&log, nil))
	client := kafkatest.Client(t, config)
	name := newTopic(t, client, 1, "cleanup.policy=compact")
	producer := client.OpenProducer(topic.AppenderConfig{Topic: name, Partitions: 1})
	var w written
	var batch []topic.Message
	for i := range 100 {
		message := w.message(0, i, fmt.Append(nil, i))
		if message.Key = fmt.Append(nil, i); i == 13 || i == 14 || i == 99 {
			message.Key = nil
		}
		batch = append(batch, message)
	}
	send(t, producer, batch...)

	wait.Text(t, &log, "Compacted topic cannot accept message without key")
	setTopic(t, config, name, "cleanup.policy", "delete")
	if err := producer.Close(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	w.inOrder(t, 0, 100)
	w.logged(t, 0, readAll(t, client, name, 0, 0))
}

// setTopic changes a setting of a topic.
func setTopic(t *testing.T, config kafka.Config, name, setting, value string) {
	t.Helper()
	change := kafkago.IncrementalAlterConfigsRequestResource{ResourceType: kafkago.ResourceTypeTopic, ResourceName: name,
		Configs: []kafkago.IncrementalAlterConfigsRequestConfig{{Name: setting, Value: value, ConfigOperation: kafkago.ConfigOperationSet}}}
	changed, err := (&kafkago.Client{Addr: kafkago.TCP(config.Brokers...)}).IncrementalAlterConfigs(t.Context(),
		&kafkago.IncrementalAlterConfigsRequest{Resources: []kafkago.IncrementalAlterConfigsRequestResource{change}})
	if err != nil || changed.Resources[0].Error != nil {
		t.Fatal(err, changed)
	}
}

// With a full queue Send waits and TrySend returns ErrFull; written messages make room.
func TestProducerFull(t *testing.T) {
	cluster, config := fake(t, kfake.SeedTopics(1, "hits"))
	seen := observe(cluster, true)
	client := kafkatest.Client(t, config)
	producer := client.OpenProducer(topic.AppenderConfig{Topic: "hits", Partitions: 1, QueueBytes: 10_000})
	var w written
	for i := range 10 {
		send(t, producer, w.message(0, i, make([]byte, 1000)))
	}
	<-seen.arrived
	if err := producer.TrySend(w.message(0, 10, nil)); !errors.Is(err, topic.ErrFull) {
		t.Fatalf("TrySend: %v", err)
	}
	impatient, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := producer.Send(impatient, w.message(0, 10, nil)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Send: %v", err)
	}
	sent := make(chan error)
	go func() { sent <- producer.Send(context.Background(), w.message(0, 10, nil)) }()
	seen.proceed <- struct{}{}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	close(seen.proceed)
	if err := producer.Close(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	w.inOrder(t, 0, 11)
	if held := producer.Held(); held != 0 {
		t.Fatalf("%d bytes are held by a closed producer", held)
	}
}

// Close returns the messages that Kafka does not accept in time, in order, and ends the callers that wait for room.
func TestProducerCloseGivesBack(t *testing.T) {
	ignored := goleak.IgnoreCurrent()
	cluster, config := fake(t, kfake.SeedTopics(2, "hits"))
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: -1})
	client := kafkatest.Client(t, config)
	producer := client.OpenProducer(topic.AppenderConfig{Topic: "hits", Partitions: 2, QueueBytes: 1000})
	var w written
	var batch []topic.Message
	for i := range 50 {
		batch = append(batch, w.message(0, i, []byte("a")), w.message(1, i, []byte("b")))
	}
	send(t, producer, batch...)
	waiting := make(chan error)
	go func() { waiting <- producer.Send(context.Background(), w.message(0, 50, nil)) }()
	impatient, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	err := producer.Close(impatient)
	if !errors.Is(err, topic.ErrClosed) || err.Error() != "100 messages for hits were not acknowledged" {
		t.Fatalf("Close: %v", err)
	}
	if err := <-waiting; !errors.Is(err, topic.ErrClosed) {
		t.Fatalf("Send: %v", err)
	}
	for p := range 2 {
		for i, a := range w.done[p] {
			if a.number != i || !errors.Is(a.err, topic.ErrClosed) {
				t.Fatalf("partition %d: done %d is %+v", p, i, a)
			}
		}
		if len(w.done[p]) != 50 {
			t.Fatalf("%d messages of partition %d were given back", len(w.done[p]), p)
		}
	}
	client.Close()
	cluster.Close()
	goleak.VerifyNone(t, ignored)
}

// A partition that fails does not delay the others of its broker: it is sent separately.
func TestProducerGoesRoundTheFailing(t *testing.T) {
	cluster, config := fake(t, kfake.SeedTopics(3, "hits"))
	seen := observe(cluster, false)
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Partitions: []int32{1}, Err: kerr.NotEnoughReplicas, Count: -1})
	client := kafkatest.Client(t, config)
	producer := client.OpenProducer(topic.AppenderConfig{Topic: "hits", Partitions: 3})
	var w written
	for i := range 100 {
		send(t, producer, w.message(0, i, nil), w.message(1, i, nil), w.message(2, i, nil))
		w.await(t, []int{0, 2}, i+1)
	}
	if err := producer.Fault(); err == nil || !strings.Contains(err.Error(), "producing to hits/1: ") {
		t.Errorf("what waits for partition 1 waits because of %v", err)
	}
	impatient, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	producer.Close(impatient)
	w.inOrder(t, 0, 100)
	w.inOrder(t, 2, 100)
	alone, together := 0, 0
	for _, partitions := range seen.batches {
		switch {
		case slices.Equal(partitions, []int{1}):
			alone++
		case slices.Contains(partitions, 1):
			together++
		}
	}
	if alone == 0 || together > 1 {
		t.Fatalf("partition 1 was sent %d times alone and %d times with others", alone, together)
	}
}

// A topic that vanishes is reported, and its messages are written when it is back.
func TestProducerTopicVanishes(t *testing.T) {
	var log lines
	cluster, config := fake(t, kfake.SeedTopics(2, "hits"))
	config.Logger = slog.New(slog.NewTextHandler(&log, nil))
	client := kafkatest.Client(t, config)
	producer := client.OpenProducer(topic.AppenderConfig{Topic: "hits", Partitions: 2})
	var w written
	send(t, producer, w.message(0, 0, []byte("0")), w.message(1, 0, []byte("0")))
	w.await(t, []int{0, 1}, 1)
	if err := cluster.DeleteTopic("hits"); err != nil {
		t.Fatal(err)
	}
	send(t, producer, w.message(0, 1, []byte("1")), w.message(1, 1, []byte("1")))
	wait.Until(t, "the log to say it", log.has("the topic does not exist"))
	if err := cluster.CreateTopic("hits", 2, nil); err != nil {
		t.Fatal(err)
	}
	if err := producer.Close(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	for p := range 2 {
		if records := readAll(t, client, "hits", p, 0); len(records) != 1 || string(records[0].Value) != "1" {
			t.Errorf("partition %d has %+v", p, records)
		}
	}
}

// The throttle time of a broker is respected; kafka-go ignores it.
func TestThrottle(t *testing.T) {
	cluster, config := fake(t, kfake.SeedTopics(1, "hits"))
	const pause = 300 * time.Millisecond
	cluster.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
		response := request.ResponseKind().(*kmsg.ProduceResponse)
		topic := kmsg.NewProduceResponseTopic()
		topic.Topic, topic.Partitions = "hits", []kmsg.ProduceResponseTopicPartition{kmsg.NewProduceResponseTopicPartition()}
		response.Topics, response.ThrottleMillis = []kmsg.ProduceResponseTopic{topic}, int32(pause.Milliseconds())
		return response, nil, true
	})
	cluster.ControlKey(int16(kmsg.Fetch), func(request kmsg.Request) (kmsg.Response, error, bool) {
		response := request.ResponseKind().(*kmsg.FetchResponse)
		topic := kmsg.NewFetchResponseTopic()
		topic.Topic, topic.Partitions = "hits", []kmsg.FetchResponseTopicPartition{kmsg.NewFetchResponseTopicPartition()}
		response.Topics, response.ThrottleMillis = []kmsg.FetchResponseTopic{topic}, int32(pause.Milliseconds())
		return response, nil, true
	})
	client := kafkatest.Client(t, config)
	producer := client.OpenProducer(topic.AppenderConfig{Topic: "hits", Partitions: 1})
	var w written
	send(t, producer, w.message(0, 0, nil))
	w.await(t, []int{0}, 1)
	begun := time.Now()
	send(t, producer, w.message(0, 1, nil))
	w.await(t, []int{0}, 2)
	if took := time.Since(begun); took < pause/2 {
		t.Errorf("the next request was answered after %s", took)
	}
	producer.Close(within(t, time.Minute))
	reader := client.NewReader("hits", 0, 0)
	for i := range 2 {
		begun = time.Now()
		if _, err := reader.Fetch(within(t, time.Minute)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); i == 1 && took < pause/2 {
			t.Errorf("the next fetch was answered after %s", took)
		}
	}
}

func TestProducerRefusesUnknownPartitions(t *testing.T) {
	_, config := fake(t, kfake.SeedTopics(2, "hits"))
	producer := kafkatest.Client(t, config).OpenProducer(topic.AppenderConfig{Topic: "hits", Partitions: 2})
	defer producer.Close(t.Context())
	if err := producer.Send(t.Context(), topic.Message{Partition: 1}, topic.Message{Partition: 2}); !errors.Is(err, topic.ErrPartitions) {
		t.Fatalf("Send: %v", err)
	}
	if producer.Held() != 0 {
		t.Fatal("one of them was taken")
	}
}

// A topic that others have made again with fewer partitions: the reason names their numbers.
func TestAPartitionThatTheTopicDoesNotHave(t *testing.T) {
	_, config := fake(t)
	client, name := kafkatest.Client(t, config), "events"
	if err := client.EnsureTopics(within(t, time.Minute), topic.Topic{Name: name, Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	producer := client.OpenProducer(topic.AppenderConfig{Topic: name, Partitions: 2})
	done, end := context.WithCancel(t.Context())
	end()
	defer producer.Close(done)
	if err := producer.TrySend(topic.Message{Partition: 1, Value: []byte("x"), Done: func(int64, error) {}}); err != nil {
		t.Fatal(err)
	}
	want := "producing to " + name + "/1: the topic has 1 partitions and not 2"
	wait.Until(t, want, func() bool { err := producer.Fault(); return err != nil && strings.HasPrefix(err.Error(), want) })
}
