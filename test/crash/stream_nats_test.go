package crash

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"weir/test/nats"
)

func newNATSStream(t testing.TB) *streamServer {
	t.Helper()
	server := nats.Start(t, nats.Unsynced)
	if _, err := server.Client().CreateStream(t.Context(), jetstream.StreamConfig{Name: "logs"}); err != nil {
		t.Fatal(err)
	}
	return &streamServer{
		source: fmt.Sprintf("{nats: {url: %q, stream: logs}, format: combined}", server.URL),
		write:  func(lines []string) { server.Add("logs", lines) },
		restart: func() {
			time.Sleep(time.Second) // until it has written what it acknowledged
			server.Kill()
			server.Restart()
		},
	}
}
