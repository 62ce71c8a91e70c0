package crash

import (
	"fmt"
	"os"
	"testing"

	"weir/test/kinesis"
	"weir/test/s3"
)

// newKinesis is a stream whose first shard is split, and split again, while the server restarts.
func newKinesis(t testing.TB) *streamServer {
	t.Helper()
	server := kinesis.Start(t, 2)
	os.Setenv("AWS_ACCESS_KEY_ID", s3.User)
	os.Setenv("AWS_SECRET_ACCESS_KEY", s3.Secret)
	return &streamServer{
		source: fmt.Sprintf("{kinesis: {stream: logs, region: %s, endpoint: %q}, format: combined}", kinesis.Region, server.Endpoint),
		write:  server.Add,
		restart: func() {
			server.Split(0, "85070591730234615865843651857942052864")
			server.Kill()
			server.Restart()
			server.Split(2, "42535295865117307932921825928971026432")
		},
	}
}
