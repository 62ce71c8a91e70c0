package objects_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/internal/webhdfs"
	"weir/pkg/collector/objects"
	"weir/pkg/collector/ordered"
	"weir/test/hdfs"
	"weir/test/streams"
)

// Most tests of HDFS share a server, each with a folder of its own.
func TestHDFS(t *testing.T) {
	t.Parallel()
	server := hdfs.Start(t)
	tests := map[string]func(*testing.T, *hdfs.Server){
		"each line of each file counts once":           eachLineOfEachFile,
		"a file that is being written":                 aFileThatIsBeingWritten,
		"each line of a file that is being written":    eachLineOfAFileThatIsBeingWritten,
		"other files where files are read early":       otherFilesWhereFilesAreReadEarly,
		"the option to read files early is changed":    theOptionIsChanged,
		"a file is deleted while no collector runs":    aFileIsDeletedWhileNoCollectorRuns,
		"files that are replaced, or were open before": filesThatAreReplacedOrWereOpenBefore,
		"a long line of a file that is being written":  aLongLineOfAFileThatIsBeingWritten,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, server.Below(t, "/"+strings.NewReplacer(" ", "-", ",", "").Replace(name)))
		})
	}
}

// These kill the nodes.
func TestAnHDFSThatIsKilled(t *testing.T) {
	t.Parallel()
	server := hdfs.Start(t)
	t.Run("a file that is cut off", func(t *testing.T) { aFileThatIsCutOff(t, server.Below(t, "/cut")) })
	t.Run("faults", func(t *testing.T) { faults(t, server.Below(t, "/faults")) })
}

// newHDFS returns a collector of a path of a server. Files that are being written are read if open points to true.
func newHDFS(t *testing.T, server *hdfs.Server, path string, open *bool, delay time.Duration) *streams.Bench {
	t.Helper()
	path = server.Root + path
	return streams.New(t, "hdfs", func() ([]ordered.Log, error) {
		store, err := webhdfs.New(webhdfs.Options{URLs: []string{"http://127.0.0.1:1", server.URL}, Path: path, User: "reader"})
		if err != nil {
			return nil, err
		}
		log, err := objects.Open(objects.Options{URL: "hdfs:/" + path, Delay: delay, Store: store, Open: *open, ListEvery: 50 * time.Millisecond})
		return []ordered.Log{log}, err
	})
}

// Each line of each closed file counts once: packed or not, in folders with many files, renamed, and added to, and also if
// the collector stops while nothing is acknowledged.
func eachLineOfEachFile(t *testing.T, server *hdfs.Server) {
	b := newHDFS(t, server, "/logs/**", new(bool), time.Hour)
	b.Start()
	b.Trouble("it does not exist")
	server.Make("/logs")
	server.Put("/other/a.log", text(b.Unread(5)))
	server.Put("/logs/_temporary/0/part", text(b.Unread(5)))
	server.Put("/logs/.hidden", text(b.Unread(5)))
	for n := range 12 {
		server.Put(fmt.Sprintf("/logs/day 1+%%/%d", n), text(b.Lines(3)))
	}
	b.Await()
	server.Rename("/logs/day 1+%", "/logs/day2")
	b.Sink.Set(func() { b.Sink.Mute = true })
	server.Put("/logs/b.log.gz", packed(b.Lines(3000)))
	server.Put("/logs/c.zst", packedZstd(b.Lines(10)))
	server.Put("/logs/d", bytes.TrimSuffix(text(b.Lines(10)), []byte("\n")))
	server.Put("/logs/f._COPYING_", text(b.Lines(20_000)))
	b.Sink.Await(t, b.Want)
	b.Restart(func() { server.Rename("/logs/f._COPYING_", "/logs/f") })
	b.Sink.Unmute()
	b.Await()
	server.Append("/logs/f", text(b.Lines(10)))
	b.Await()
	if lost := b.Status().Lost; lost != 0 {
		t.Errorf("%d files are lost: %s", lost, b.Said.String())
	}
}

// A file that is being written is read once it is closed. Others are read meanwhile.
func aFileThatIsBeingWritten(t *testing.T, server *hdfs.Server) {
	b := newHDFS(t, server, "/logs/*/access-*.log", new(bool), time.Hour)
	end := server.Begin("/logs/a/access-1.log", text(b.Unread(10)))
	server.Put("/logs/a/access-2.log", text(b.Lines(10)))
	server.Put("/logs/a/error.log", text(b.Unread(10)))
	server.Put("/logs/access-3.log", text(b.Unread(10)))
	b.Start()
	b.Await()
	end()
	for n := range 10 {
		address, _, _ := strings.Cut(streams.Line(n+1), " ")
		b.Want["per-ip "+address]++
	}
	b.Await()
}

// A server that ends, and files that may not be read, are named in the status.
func faults(t *testing.T, server *hdfs.Server) {
	b := newHDFS(t, server, "/logs", new(bool), time.Hour)
	server.Put("/logs/a", text(b.Lines(10)))
	b.Start()
	b.Await()
	server.Put("/new", text(b.Lines(10)))
	server.Permit("/new", "600")
	server.Rename("/new", "/logs/c")
	b.Trouble("the user may not read it: Permission denied: user=reader")
	server.Permit("/logs/c", "644")
	server.Kill()
	b.Trouble("connection refused")
	server.Restart()
	server.Put("/logs/d", text(b.Lines(10)))
	b.Await()
}
