package rabbit_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	collected "weir/pkg/collector/rabbit"

	"weir/pkg/collector/pipeline"
	"weir/test/rabbit"
	"weir/test/wait"
)

// newQueueBench is a bench whose collector takes the messages of a queue.
func newQueueBench(t *testing.T, kind string) *bench {
	t.Helper()
	return queueBenchOn(t, rabbit.Start(t, ""), kind)
}

func queueBenchOn(t *testing.T, server *rabbit.Server, kind string) *bench {
	b := &bench{server: server, kind: kind}
	b.options = collected.Options{URL: "amqp://" + server.Addr, Queue: "logs", Acknowledge: true}
	b.again(t)
	return b
}

func (b *bench) make() { b.server.Make("logs", b.kind) }

// empty checks that all messages are acknowledged: those that are not are in the queue again when the collector stops.
func (b *bench) empty() {
	b.T.Helper()
	b.Restart(func() {
		if n := b.server.Ready("logs"); n > 0 {
			b.T.Errorf("%d messages are left in the queue", n)
		}
	})
}

// Messages of classic and of quorum queues count, and are gone once they have; those that are not acknowledged when the
// server is killed come again.
func TestAQueueIsEmptied(t *testing.T) {
	for _, kind := range []string{"classic", "quorum"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := newQueueBench(t, kind)
			b.Start()
			b.Trouble("reading logs: it does not exist")
			b.make()
			b.server.Add("logs", b.Lines(5000))
			b.Await()
			b.empty()
			b.server.Publish("logs", amqp.Publishing{Body: []byte(b.Lines(1)[0]), Headers: amqp.Table{"x-stream-offset": int64(1 << 40)}, ContentType: "text/\xff"})
			b.Await()
			b.Restart(func() { b.server.Add("logs", b.Lines(100)) })
			b.Await()
			if s := b.Status(); s.Redelivered != 0 || s.Requests != 100 || s.Logs[0].Lag != 0 {
				t.Errorf("the status is %+v", s)
			}
			b.empty()

			// The collector does not acknowledge messages that Kafka has not acknowledged.
			b.Sink.Set(func() { b.Sink.Mute = true })
			b.server.Add("logs", b.Lines(50))
			b.Sink.Await(t, b.Want)
			wait.Until(t, "the 50 that Kafka has not acknowledged to be in the queue", func() bool { // its counts may be late
				return b.server.Control("list_queues", "--no-table-headers", "messages") == "50\n"
			})
			b.Sink.Unmute()
			b.Await()
			b.empty()

			// A queue that was made again is read again.
			b.server.Delete("logs")
			b.Trouble("reading logs: it does not exist")
			b.make()
			b.server.Add("logs", b.Lines(20))
			b.Await()
			b.empty()
		})
	}
}

// id is the format of lines with an id.
const id = `$remote_addr [$time_iso8601] "$request" $status $request_id`

// identified makes lines with ids that are to be counted, each once.
func (b *bench) identified(from, n int) (lines []string) {
	for i := range n {
		b.Want[fmt.Sprintf("per-ip 203.0.113.%d", (from+i)%50)]++
		lines = append(lines, fmt.Sprintf("203.0.113.%d [%s] \"GET / HTTP/1.1\" 200 id-%d", (from+i)%50, time.Now().UTC().Format(time.RFC3339), from+i))
	}
	return lines
}

// Messages that come again although Kafka has their hits count twice, and once with dedupe.
func TestMessagesThatComeAgain(t *testing.T) {
	for kind, dedupe := range map[string]bool{"classic": true, "quorum": false} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := newQueueBench(t, kind)
			b.Source.Format = id
			if dedupe {
				b.Source.Dedupe = pipeline.Dedupe{By: "request_id", Within: time.Hour, Most: 10_000}
			}
			b.make()
			b.Start()
			b.server.Add("logs", b.identified(0, 100))
			b.Await()
			b.Sink.Set(func() { b.Sink.Mute = true })
			lines := b.identified(100, 500)
			b.server.Add("logs", lines)
			b.Sink.Await(t, b.Want)
			b.server.Disconnect()
			b.Trouble("reading logs: the server cannot be reached: the server ended the consumer: CONNECTION_FORCED - a test")
			b.Sink.Unmute()
			if !dedupe {
				b.identified(100, 500)
			}
			wait.Until(t, "the messages to come again", func() bool { return b.Status().Redelivered == 500 })
			b.Await()
			if s := b.Status(); dedupe != (s.Uncounted["seen"] == 500) {
				t.Errorf("the status is %+v", s)
			}
			b.empty()
		})
	}
}

// When the server ends a consumer, the log has the reason, and the messages come again.
func TestAConsumerThatIsEnded(t *testing.T) {
	b := newQueueBench(t, "quorum")
	b.server.Control("eval", "application:set_env(rabbit, consumer_timeout, 1000), application:set_env(rabbit, channel_tick_interval, 500).")
	b.make()
	b.Start()
	b.Sink.Set(func() { b.Sink.Mute = true })
	b.server.Add("logs", b.Lines(10))
	b.Sink.Await(t, b.Want)
	b.Says("the server had ended the consumer: PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out")
	wait.Until(t, "the messages to come again", func() bool { return b.Status().Redelivered >= 10 })
}

// A queue may have messages of all kinds, and may be forbidden.
func TestQueues(t *testing.T) {
	server := rabbit.Start(t, "")
	for name, test := range map[string]func(*testing.T, *rabbit.Server){
		"long messages": hostileMessages, "large headers": messagesInLargeHeaders, "no hits": messagesWithoutHits,
		"a stream": aStreamIsNoQueue, "rights": rightsOfAQueue,
	} {
		t.Run(name, func(t *testing.T) {
			test(t, server)
			server.Delete("logs")
		})
	}
}

// Messages that are too long are counted as such, and others as unreadable; all are taken.
func hostileMessages(t *testing.T, server *rabbit.Server) {
	b := queueBenchOn(t, server, "classic")
	b.make()
	b.server.Add("logs", b.Lines(5))
	const long = 5
	message := amqp.Publishing{Body: []byte(strings.Repeat("x", 17<<20))}
	for range long {
		b.server.Publish("logs", message)
	}
	message.Body = nil
	b.server.Publish("logs", message, amqp.Publishing{Body: []byte("\x00\xff\n\n")}, amqp.Publishing{Body: []byte("{")})
	b.server.Add("logs", b.Lines(5))
	b.Start()
	b.Await()
	wait.Until(t, "the long messages to be counted", func() bool { return b.Status().Uncounted["long"] == long })
	b.empty()
}

// More messages with large headers than may wait do not stop the reading.
func messagesInLargeHeaders(t *testing.T, server *rabbit.Server) {
	b := queueBenchOn(t, server, "classic")
	b.make()
	headers := amqp.Table{"a": strings.Repeat("b", 100_000)}
	for range 10 {
		var messages []amqp.Publishing
		for _, line := range b.Lines(100) {
			messages = append(messages, amqp.Publishing{Body: []byte(line), Headers: headers})
		}
		b.server.Publish("logs", messages...)
	}
	b.Start()
	b.Await()
	b.empty()
}

// A stream is not read as a queue, and its messages stay.
func aStreamIsNoQueue(t *testing.T, server *rabbit.Server) {
	b := queueBenchOn(t, server, "stream")
	b.make()
	b.server.Add("logs", b.Unread(5))
	b.Start()
	b.Trouble("the queue is a stream, which is read without taking messages out of it; leave out acknowledge")
}

// A user that may only read the queue can take its messages; one that may not sees how to change that.
func rightsOfAQueue(t *testing.T, server *rabbit.Server) {
	b := queueBenchOn(t, server, "classic")
	b.make()
	b.server.Add("logs", b.Lines(5))
	b.server.Control("add_user", "weir", "hush")
	b.server.Control("set_permissions", "weir", "", "", "other")
	b.options.User, b.options.Password = "weir", func() (string, error) { return "hush", nil }
	b.Start()
	b.Trouble("rabbitmqctl set_permissions")
	b.server.Control("set_permissions", "weir", "", "", "logs")
	b.Await()
	b.empty()
}

// Messages that give no hit are acknowledged too.
func messagesWithoutHits(t *testing.T, server *rabbit.Server) {
	b := queueBenchOn(t, server, "classic")
	b.make()
	b.server.Add("logs", strings.Fields(strings.Repeat("x ", 5000)))
	b.Start()
	wait.Until(t, "all to be read", func() bool { return b.Status().Uncounted["format"] == 5000 })
	b.Settle()
	b.empty()
}
