package crash

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"weir/test/moto"
	"weir/test/s3"
)

// newObjects is a server of S3; each write is an object.
func newObjects(t testing.TB) *streamServer {
	t.Helper()
	server := s3.Start(t)
	// All collectors of these tests have them. t.Setenv is not for tests that run at the same time.
	os.Setenv("AWS_ACCESS_KEY_ID", s3.User)
	os.Setenv("AWS_SECRET_ACCESS_KEY", s3.Secret)
	written := 0
	return &streamServer{
		source: fmt.Sprintf("{s3: \"s3://logs/web/\", region: %s, endpoint: %q, format: combined}", s3.Region, server.Endpoint),
		write: func(lines []string) {
			written++
			server.Put(fmt.Sprintf("web/%06d.log", written), []byte(strings.Join(lines, "\n")+"\n"))
		},
		restart: func() {
			server.Kill()
			server.Restart()
		},
	}
}

// newObjectsOfEvents has a stand-in of S3 and SQS. It keeps all in memory, so it is not restarted.
func newObjectsOfEvents(t testing.TB) *streamServer {
	t.Helper()
	server := moto.Start(t, "5")
	os.Setenv("AWS_ACCESS_KEY_ID", s3.User)
	os.Setenv("AWS_SECRET_ACCESS_KEY", s3.Secret)
	written := 0
	return &streamServer{
		source: fmt.Sprintf("{s3: \"s3://logs/web/\", sqs: %q, region: %s, endpoint: %q, format: combined}", server.Queue, moto.Region, server.Endpoint),
		write: func(lines []string) {
			written++
			server.Put(fmt.Sprintf("web/%06d.log", written), []byte(strings.Join(lines, "\n")+"\n"))
		},
		restart: func() {},
	}
}
