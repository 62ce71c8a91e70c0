package crash

import (
	"fmt"
	"strings"
	"testing"

	"weir/test/hdfs"
)

// newHDFS is an HDFS; each write is a file.
func newHDFS(t testing.TB) *streamServer {
	t.Helper()
	server := hdfs.Start(t)
	server.Make("/logs")
	written := 0
	return &streamServer{
		source: fmt.Sprintf("{hdfs: {url: %q, path: /logs, user: %s}, format: combined}", server.URL, hdfs.User),
		write: func(lines []string) {
			written++
			server.Put(fmt.Sprintf("/logs/%06d.log", written), []byte(strings.Join(lines, "\n")+"\n"))
		},
		restart: func() {
			server.Kill()
			server.Restart()
		},
	}
}
