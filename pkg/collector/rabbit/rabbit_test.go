package rabbit_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	collected "weir/pkg/collector/rabbit"

	"weir/pkg/collector/ordered"
	"weir/test/rabbit"
	"weir/test/streams"
	"weir/test/wait"
)

// A bench is a RabbitMQ, and a collector that reads a stream there.
type bench struct {
	*streams.Bench
	server  *rabbit.Server
	kind    string // of the queue
	options collected.Options
}

func newBench(t *testing.T) *bench { return newBenchOn(t, "") }

// newBenchOn starts a server with a configuration.
func newBenchOn(t *testing.T, configuration string) *bench {
	t.Helper()
	b := &bench{server: rabbit.Start(t, configuration)}
	b.options = collected.Options{URL: "amqp://" + b.server.Addr, Queue: "logs"}
	b.again(t)
	return b
}

// again makes another collector.
func (b *bench) again(t *testing.T) {
	b.Bench = streams.New(t, "amqp", func() ([]ordered.Log, error) {
		log, err := collected.Open(b.options)
		return []ordered.Log{log}, err
	})
}

// Each message counts once, although the collector and the server are stopped and started, and whatever headers it has.
func TestAStreamIsCountedOnce(t *testing.T) {
	b := newBench(t)
	b.Start()
	b.Trouble("reading logs: it does not exist")
	b.server.Make("logs", "stream")
	b.server.Add("logs", b.Lines(5000))
	b.Await()
	b.server.Add("logs", b.Lines(1))
	b.Await()
	headers := amqp.Table{"x-stream-offset": int64(1 << 40), "nested": amqp.Table{"a": []any{"b", strings.Repeat("c", 100_000)}}}
	for _, line := range b.Lines(10) {
		b.server.Publish("logs", amqp.Publishing{Body: []byte(line), Headers: headers, ContentType: "text/\xff"})
	}
	b.Await()
	b.Restart(func() { b.server.Add("logs", b.Lines(100)) })
	b.Await()
	b.Sink.Set(func() { b.Sink.Mute = true })
	b.server.Add("logs", b.Lines(50))
	b.Sink.Await(t, b.Want)
	b.server.Kill()
	b.Trouble("reading logs")
	b.server.Restart()
	b.Sink.Unmute()
	b.server.Add("logs", b.Lines(20))
	b.Await()
	if log := b.Status().Logs[0]; log.Lag != 0 || log.Position != 5181 || log.Log != "logs" {
		t.Errorf("the status is %+v", log)
	}

	// A stream that was made again is another one, whether it is shorter or longer.
	for _, n := range []int{50, 200} {
		b.server.Delete("logs")
		b.server.Make("logs", "stream")
		b.server.Add("logs", b.Lines(n))
		b.Await()
	}
	b.Restart(func() {
		b.server.Delete("logs")
		b.server.Make("logs", "stream")
		b.server.Add("logs", b.Lines(300))
	})
	b.Await()
	b.Says("the stream was deleted and made again")
}

// start decides where a stream begins about which nothing is stored. A long message is counted as such.
func TestStart(t *testing.T) {
	b := newBench(t)
	b.server.Make("logs", "stream")
	b.Source.Ordered.Start.Latest = true
	b.server.Add("logs", b.Unread(700))
	b.Start()
	b.Settle()
	b.server.Add("logs", b.Lines(5))
	b.server.Add("logs", []string{strings.Repeat("x", 17<<20)})
	b.server.Add("logs", b.Lines(5))
	b.Await()
	wait.Until(t, "the long message to be counted", func() bool { return b.Status().Uncounted["long"] == 1 })
	b.Stop()

	b.again(t)
	b.Source.Ordered.Start.Before = time.Hour
	b.server.Delete("logs")
	b.server.Make("logs", "stream")
	b.server.Add("logs", b.Lines(20))
	b.Start()
	b.Await()
}

// Messages that the server deleted before they were read are counted as lost. Offsets at which it has no message, because
// it keeps there what consumers told it to remember, are not.
func TestOffsetsWithoutMessages(t *testing.T) {
	b := newBenchOn(t, rabbit.WithStreams)
	b.server.Make("logs", "stream", "x-max-length-bytes", int64(20_000), "x-stream-max-segment-size-bytes", int64(10_000))
	b.server.Add("logs", b.Lines(3))
	b.server.StoreOffsets("logs", "one", "two")
	b.server.Add("logs", b.Lines(3))
	b.Start()
	b.Await()
	b.server.StoreOffsets("logs", "one")
	b.server.Add("logs", b.Lines(3))
	b.Await()
	before := b.Status().Logs[0].Position
	if lost := b.Status().Lost; before < 11 || lost != 0 {
		t.Errorf("at offset %d after 9 messages, %d are lost", before, lost)
	}
	b.Stop()

	for range 10 {
		b.server.Add("logs", b.Unread(100))
	}
	b.Start()
	wait.Until(t, "messages to be counted as lost", func() bool { return b.Status().Lost > 0 })
	b.Settle()
	s := b.Status()
	if lost, offsets := s.Lost, s.Logs[0].Position-before; lost < 1000-s.Requests || lost+s.Requests > offsets {
		t.Errorf("the status is %+v, before it was at %d", s, before)
	}
}

// Messages that the server cannot send are passed over once a later one comes, and counted, with those that it cannot send
// because of them. All others count once, also if the collector begins, or begins again, next to them.
func TestMessagesThatTheServerCannotSend(t *testing.T) {
	b := newBenchOn(t, rabbit.WithStreams)
	b.server.Make("logs", "stream")
	lost := func(want int64) {
		t.Helper()
		wait.Until(t, "the messages to be counted as lost", func() bool { return b.Status().Lost >= want })
		if s := b.Status(); s.Lost != want {
			t.Errorf("the status is %+v, want %d lost", s, want)
		}
	}
	b.server.Add("logs", b.Lines(300))
	b.server.PublishRaw("logs", "no AMQP 1.0")
	b.server.Add("logs", b.Lines(3))
	b.server.PublishRaw("logs", "no", "neither", data(b.Lines(1)[0]), data(b.Lines(1)[0]))
	b.Start()
	b.Await()
	lost(3)
	b.Settle()
	b.server.Add("logs", b.Lines(300))
	b.Await()

	b.Restart(func() {
		b.server.Add("logs", b.Lines(3))
		b.server.PublishRaw("logs", data("not read"), "no")
	})
	b.Sink.Await(t, b.Want)
	b.Trouble("the server has failed to send a message")
	b.server.Add("logs", b.Lines(3))
	b.Await()
	lost(2)
	b.Restart(func() {})
	b.server.Add("logs", b.Lines(3))
	b.Await()
	if n := b.Status().Lost; n != 0 {
		t.Errorf("%d messages are lost after a restart", n)
	}
}

// A server that fails at each consumer is asked again with a pause, and the status has it. No message is passed over.
func TestAServerThatFailsAtEachConsumer(t *testing.T) {
	b := newBench(t)
	front := newFront(t, b.server.Addr)
	b.options.URL = "amqp://" + front.address
	b.server.Make("logs", "stream")
	b.server.Add("logs", b.Lines(300))
	b.Start()
	b.Await()
	front.fails.Store(true)
	b.server.Disconnect()
	b.Trouble("the server has failed to send a message")
	front.fails.Store(false)
	b.server.Add("logs", b.Lines(300))
	b.Await()
	if lost := b.Status().Lost; lost != 0 {
		t.Errorf("%d messages are lost", lost)
	}
}

// A stream is read on behind offsets without messages also if the server cannot send its first messages.
func TestAStreamThatBeginsWithMessagesThatTheServerCannotSend(t *testing.T) {
	b := newBenchOn(t, rabbit.WithStreams)
	b.server.Make("logs", "stream", "x-max-length-bytes", int64(20_000), "x-stream-max-segment-size-bytes", int64(10_000))
	for range 10 {
		b.server.PublishRaw("logs", strings.Repeat("x", 9_000))
	}
	b.server.Add("logs", b.Lines(3))
	b.server.StoreOffsets("logs", "one", "two")
	b.server.Add("logs", b.Lines(3))
	b.Start()
	b.Await()
	b.server.StoreOffsets("logs", "one")
	b.server.Add("logs", b.Lines(3))
	b.Await()
	if lost := b.Status().Lost; lost != 10 {
		t.Errorf("%d messages are lost, want 10", lost)
	}
}

// With start: latest, the old messages are not read either if the server cannot send the last ones.
func TestLatestBehindMessagesThatTheServerCannotSend(t *testing.T) {
	b := newBenchOn(t, rabbit.WithStreams)
	b.Source.Ordered.Start.Latest = true
	b.server.Make("logs", "stream")
	b.server.Add("logs", b.Unread(300))
	b.server.PublishRaw("logs", "no AMQP 1.0")
	wait.Until(t, "the server to count the messages", func() bool { return b.server.Ready("logs") == 301 })
	b.Start()
	wait.Until(t, "the stream to begin", func() bool { return strings.Contains(b.Said.String(), "a log begins as a new source") })
	b.server.Add("logs", b.Lines(5))
	b.Await()
}

// data is a message of AMQP 1.0.
func data(body string) string { return "\x00Su\xa0" + string([]byte{byte(len(body))}) + body }

// Faults of the login and the queue are named, and a password is read again.
func TestErrors(t *testing.T) {
	b := newBench(t)
	b.server.Make("logs", "stream")
	b.server.Add("logs", b.Lines(20))
	var mu sync.Mutex
	password := "wrong"
	b.options.User = "guest"
	b.options.Password = func() (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if password == "" {
			return "", errors.New("the file is gone")
		}
		return password, nil
	}
	set := func(to string) {
		mu.Lock()
		defer mu.Unlock()
		password = to
	}
	b.Start()
	b.Trouble("the server refuses our user")
	set("")
	b.Trouble("the file is gone")
	set("guest")
	b.Await()
	b.Stop()

	b.server.Make("classic", "classic")
	b.options.Queue = "classic"
	b.Restart(func() {})
	b.Trouble("the queue is not a stream")
}

func FuzzMark(f *testing.F) {
	f.Add("1:2")
	f.Add("")
	f.Add("9223372036854775807:-1")
	f.Fuzz(collected.CheckMark)
}
