package rabbit_test

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"weir/test/rabbit"
)

// refusedHeaders are headers that the server accepts, and that our library refuses to read.
func refusedHeaders() map[string]amqp.Table {
	deep, wide := amqp.Table{}, amqp.Table{}
	for range 50 {
		deep = amqp.Table{"a": deep}
	}
	for i := range 9000 {
		wide[fmt.Sprint(i)] = true
	}
	return map[string]amqp.Table{"deep": deep, "wide": wide, "many": {"a": make([]any, 10_000)}}
}

// Messages count whatever headers they have, and those behind them too.
func TestHeadersOfAnyForm(t *testing.T) {
	server := rabbit.Start(t, "")
	for _, kind := range []string{"classic", "quorum", "stream"} {
		t.Run(kind, func(t *testing.T) {
			b := queueBenchOn(t, server, kind)
			b.options.Acknowledge = kind != "stream"
			b.make()
			defer server.Delete("logs")
			for _, headers := range refusedHeaders() {
				for _, line := range b.Lines(10) {
					server.Publish("logs", amqp.Publishing{Body: []byte(line), Headers: headers, ContentType: "text/plain", ContentEncoding: "a", MessageId: "b"})
				}
			}
			server.Add("logs", b.Lines(10))
			b.Start()
			b.Await()
		})
	}

	// The server adds to the headers of a dead letter, which are then larger than a frame.
	t.Run("dead letters", func(t *testing.T) {
		b := queueBenchOn(t, server, "classic")
		b.make()
		server.Make("first", "classic", "x-dead-letter-exchange", "", "x-dead-letter-routing-key", "logs", "x-message-ttl", int64(10))
		for _, line := range b.Lines(10) {
			server.Publish("first", amqp.Publishing{Body: []byte(line), Headers: amqp.Table{"a": strings.Repeat("x", 128<<10-60)}})
		}
		b.Start()
		b.Await()
		b.empty()
	})
}

// A publisher cannot move the position: of its headers that have the name of the server's, the server replaces only one.
func TestAPublisherHasNoSayInOffsets(t *testing.T) {
	server := rabbit.Start(t, "")
	b := queueBenchOn(t, server, "stream")
	b.options.Acknowledge = false
	b.make()
	conn, err := amqp.DialConfig(server.URL, amqp.Config{Dial: func(network, address string) (net.Conn, error) {
		conn, err := amqp.DefaultDial(10*time.Second)(network, address)
		return renaming{conn}, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	channel, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if err := channel.Confirm(false); err != nil {
		t.Fatal(err)
	}
	b.Start()
	for _, line := range b.Lines(5) {
		headers := amqp.Table{"x-stream-offset": int64(1 << 40), "x-stream-offseA": int64(1 << 41), "x-stream-offseB": "a"}
		confirm, err := channel.PublishWithDeferredConfirmWithContext(t.Context(), "", "logs", true, false, amqp.Publishing{Body: []byte(line), Headers: headers})
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := confirm.WaitContext(t.Context()); err != nil || !ok {
			t.Fatal(ok, err)
		}
	}
	server.Add("logs", b.Lines(5))
	b.Await()
}

// A renaming connection gives several headers the same name, which no map can.
type renaming struct{ net.Conn }

func (r renaming) Write(p []byte) (int, error) {
	for _, name := range []string{"x-stream-offseA", "x-stream-offseB"} {
		p = bytes.ReplaceAll(p, []byte(name), []byte("x-stream-offset"))
	}
	return r.Conn.Write(p)
}
