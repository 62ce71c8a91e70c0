package rabbit_test

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	collected "weir/pkg/collector/rabbit"

	"weir/pkg/collector/ordered"
	"weir/test/rabbit"
	"weir/test/streams"
	"weir/test/wait"
)

const benchMessages = 100_000

// BenchmarkQueues measures a collector that reads a stream, or empties a queue, and counts its lines, and bare clients of
// the same library that only do the first.
//
//	go test -run '^$' -bench Queues -benchtime 3x ./pkg/collector/rabbit
func BenchmarkQueues(b *testing.B) {
	server := rabbit.Start(b, "")
	lines := make([]string, benchMessages)
	for n := range lines {
		lines[n] = streams.Line(n)
	}
	for _, kind := range []string{"stream", "classic", "quorum"} {
		server.Make(kind, kind)
		add := func() {
			for n := 0; n < benchMessages; n += 1000 {
				server.Add(kind, lines[n:n+1000])
			}
		}
		add()
		measure := func(name string, read func(b *testing.B)) {
			b.Run(kind+"/"+name, func(b *testing.B) {
				for b.Loop() {
					if kind != "stream" {
						b.StopTimer()
						wait.Until(b, "the messages to be there", func() bool {
							if server.Ready(kind) == 0 {
								add()
							}
							return server.Ready(kind) == benchMessages
						})
						b.StartTimer()
					}
					read(b)
				}
				b.ReportMetric(float64(b.N)*benchMessages/b.Elapsed().Seconds(), "lines/s")
			})
		}
		measure("weir", func(b *testing.B) {
			c := streams.New(b, "amqp", func() ([]ordered.Log, error) {
				log, err := collected.Open(collected.Options{URL: "amqp://" + server.Addr, Queue: kind, Acknowledge: kind != "stream"})
				return []ordered.Log{log}, err
			})
			c.Start()
			for c.Status().Requests < benchMessages || c.Status().Logs[0].InFlight > 0 {
				time.Sleep(time.Millisecond)
			}
			c.Stop()
		})
		measure("bare-client", func(b *testing.B) { readBare(b, server, kind) })
	}
}

// readBare reads all messages, and acknowledges them a hundred at a time.
func readBare(b *testing.B, server *rabbit.Server, kind string) {
	b.Helper()
	conn, err := amqp.Dial(server.URL)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	channel, err := conn.Channel()
	if err != nil {
		b.Fatal(err)
	}
	prefetch, arguments := 2000, amqp.Table(nil)
	if kind == "stream" {
		prefetch, arguments = 100, amqp.Table{"x-stream-offset": "first"}
	}
	if err := channel.Qos(prefetch, 0, false); err != nil {
		b.Fatal(err)
	}
	deliveries, err := channel.Consume(kind, "", false, false, false, false, arguments)
	if err != nil {
		b.Fatal(err)
	}
	for n := 1; n <= benchMessages; n++ {
		d := <-deliveries
		if n%50 == 0 {
			if err := d.Ack(true); err != nil {
				b.Fatal(err)
			}
		}
	}
}
