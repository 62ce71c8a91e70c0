package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir/internal/kafka"
	"weir/internal/kafka/kafkatest"
	"weir/internal/topic"
	"weir/test/real"
)

const logPartitions = 6

// A shipper writes a site's lines to a topic, without keys, to all of its partitions in turn. When a broker is killed a
// line may be written twice, as by every shipper: the topic's content counts.
type shipper struct {
	t        testing.TB
	client   *kafka.Client
	producer *kafka.Producer
	random   *rand.Rand
	lines    int
	stop     chan struct{}
	ended    sync.WaitGroup
}

func newShipper(t testing.TB, brokers []string, seed uint64) *shipper {
	t.Helper()
	client := kafkatest.Client(t, kafka.Config{Brokers: brokers, Create: true})
	if err := client.EnsureTopics(t.Context(), topic.Topic{Name: "logs", Partitions: logPartitions}); err != nil {
		t.Fatal(err)
	}
	return &shipper{t: t, client: client, producer: client.OpenProducer(topic.AppenderConfig{Topic: "logs", Partitions: logPartitions}),
		random: rand.New(rand.NewPCG(seed, 3)), stop: make(chan struct{})}
}

// run writes until close.
func (s *shipper) run() {
	s.ended.Go(func() {
		for {
			select {
			case <-s.stop:
				return
			case <-time.After(time.Duration(s.random.IntN(10)) * time.Millisecond):
			}
			var messages []topic.Message
			for range 1 + s.random.IntN(200) {
				messages = append(messages, s.line())
			}
			if err := s.producer.Send(context.Background(), messages...); err != nil {
				s.t.Error(err)
			}
		}
	})
}

func (s *shipper) line() topic.Message {
	s.lines++
	line := fmt.Sprintf("203.0.113.%d - - [%s] \"GET /%d?n=%d HTTP/1.1\" 200 2 \"-\" \"test\"",
		s.random.IntN(50), time.Now().UTC().Format("02/Jan/2006:15:04:05 -0700"), s.random.IntN(20), s.lines)
	return topic.Message{Partition: s.lines % logPartitions, Value: []byte(line)}
}

// close stops the writing and returns the counts of the topic's content.
func (s *shipper) close() map[string]int64 {
	s.t.Helper()
	close(s.stop)
	s.ended.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), 3*time.Minute)
	defer cancel()
	if err := s.producer.Close(ctx); err != nil {
		s.t.Fatal(err)
	}
	spans, err := s.client.Offsets(ctx, "logs")
	if err != nil {
		s.t.Fatal(err)
	}
	want := map[string]int64{}
	for p, span := range spans {
		for reader := s.client.NewReader("logs", p, 0); reader.Next() < span.End; {
			records, err := reader.Fetch(ctx)
			if err != nil && ctx.Err() != nil {
				s.t.Fatal(err)
			}
			for _, record := range records {
				words := strings.Fields(string(record.Value))
				path, _, _ := strings.Cut(words[6], "?")
				want["per-ip "+words[0]]++
				want["per-path "+path]++
			}
		}
	}
	return want
}

// installReader writes the configuration of one of several collectors that read the topic.
func installReader(t testing.TB, brokers []string) *installation {
	t.Helper()
	i := install(t, brokers, ownPrefix, "unused")
	i.write("weir.yaml", fmt.Sprintf(`
data: data
kafka: {brokers: [%s], hits: {partitions: %d}}
collector:
  listen: ""
  sources: [{kafka: [logs], format: combined}]
`, strings.Join(brokers, ", "), partitions))
	return i
}

func (i *installation) signal(signal syscall.Signal) {
	i.t.Helper()
	if err := i.process.Process.Signal(signal); err != nil {
		i.t.Fatal(err)
	}
}

// Three collectors read a topic. They are killed and started again; one is stopped (SIGSTOP) for longer than its group
// waits for it, with unacknowledged batches, and goes on while others own its partitions; and the broker is killed
// under all of them.
func TestCollectorsOfATopicThatAreKilledAndStoppedCountEveryRecordOnce(t *testing.T) {
	real.Long(t)
	t.Parallel()
	kills := number(t, "WEIR_CRASH_KILLS", 8) / 2 // one in four is a stop, and takes long
	seed := uint64(number(t, "WEIR_CRASH_SEED", int(time.Now().UnixNano()%1e9)))
	cluster := kafkatest.Real(t, kafkatest.Options{})
	random := rand.New(rand.NewPCG(seed, 4))
	shipper := newShipper(t, cluster.Addresses(), seed)
	var readers []*installation
	for range 3 {
		readers = append(readers, installReader(t, cluster.Addresses()))
	}
	for _, r := range readers {
		r.start()
	}
	shipper.run()
	time.Sleep(2 * time.Second)
	for n := range kills {
		r := readers[random.IntN(len(readers))]
		if n%4 == 1 {
			r.signal(syscall.SIGSTOP)
			time.Sleep(12 * time.Second) // its session is 9 s
			r.signal(syscall.SIGCONT)
			time.Sleep(time.Duration(random.IntN(2000)) * time.Millisecond)
			continue
		}
		r.kill()
		time.Sleep(time.Duration(random.IntN(700)) * time.Millisecond)
		r.start()
		time.Sleep(time.Duration(random.IntN(2000)) * time.Millisecond)
	}
	cluster.Kill(0)
	time.Sleep(time.Second)
	if err := cluster.StartBroker(0); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := shipper.close()
	c := newCounter(t, cluster.Addresses(), ownPrefix)
	c.await(t, want)
	for _, r := range readers {
		r.stop()
		if strings.Contains(r.said.String(), "panic") {
			t.Error(r.said.String())
		}
	}
	c.await(t, want)
	t.Logf("%d lines, %d hits, %d kills, verdicts %v", shipper.lines, c.total(), kills, c.verdicts)
	if t.Failed() {
		for _, r := range readers {
			t.Log(r.said.String())
		}
	}
}
