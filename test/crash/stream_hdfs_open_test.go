package crash

import (
	"fmt"
	"testing"

	"weir/test/hdfs"
)

// newOpenHDFS is an HDFS with one file that is being written. When the nodes end, its writer ends too: HDFS closes that
// file, and another one begins.
func newOpenHDFS(t testing.TB) *streamServer {
	t.Helper()
	server := hdfs.Start(t)
	server.Make("/logs")
	files := 0
	name := func() string { return fmt.Sprintf("/logs/%06d.log", files) }
	writer := server.NewWriter()
	writer.Create(name())
	return &streamServer{
		source: fmt.Sprintf("{hdfs: {url: %q, path: /logs, user: %s, open: true}, format: combined}", server.URL, hdfs.User),
		write:  writer.Write,
		restart: func() {
			server.Kill()
			server.Restart()
			writer.Kill()
			*writer = *server.NewWriter()
			writer.Recover(name())
			files++
			writer.Create(name())
		},
	}
}
