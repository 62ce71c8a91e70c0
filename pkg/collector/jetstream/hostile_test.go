package jetstream_test

import (
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
)

// Messages that the client takes for answers of the server stop no reading.
func TestMessagesThatLookLikeAnswersStopNothing(t *testing.T) {
	for name, subject := range map[string]string{"all": "", "a subject": "logs.a.>"} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "")
			b.options.Subject = subject
			b.make()
			client := b.server.Client()
			publish := func(body, status, description string) {
				headers := natsgo.Header{"Status": {status}, "Description": {description}}
				if _, err := client.PublishMsg(t.Context(), &natsgo.Msg{Subject: "logs.a.b", Data: []byte(body), Header: headers}); err != nil {
					t.Fatal(err)
				}
			}
			hostile := func() {
				for status, description := range map[string]string{
					"404": "No Messages", "408": "Request Timeout", "100": "Idle Heartbeat", "503": "", "400": "Bad Request", "x": "",
				} {
					publish("", status, description)
				}
				for _, description := range []string{"Consumer Deleted", "Message Size Exceeds MaxBytes", "Leadership Change", "Consumer is push based", ""} {
					publish("", "409", description)
				}
			}

			b.Source.Ordered.Start.Before = time.Hour
			hostile()
			publish(b.Lines(1)[0], "404", "No Messages")
			hostile()
			b.Start()
			b.Await()
			for range 3 {
				hostile()
				publish(b.Lines(1)[0], "409", "Consumer Deleted")
				b.Await()
			}
			hostile()
			b.Restart(func() { publish(b.Lines(1)[0], "", "") })
			b.Await()
		})
	}
}
