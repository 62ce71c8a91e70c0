package crash

import (
	"fmt"
	"testing"

	"weir/test/rabbit"
)

func newRabbitStream(t testing.TB) *streamServer {
	t.Helper()
	server := rabbit.Start(t, "")
	server.Make("logs", "stream")
	return &streamServer{
		source: fmt.Sprintf("{amqp: {url: %q, queue: logs}, format: combined}", "amqp://"+server.Addr),
		write:  func(lines []string) { server.Add("logs", lines) },
		restart: func() {
			server.Kill()
			server.Restart()
		},
	}
}
