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

// newHDFS is a collector that reads the files of a real HDFS.
func newHDFS(t *testing.T, path string) (*streams.Bench, *hdfs.Server) {
	return newHDFSOf(t, path, new(bool))
}

func newHDFSOf(t *testing.T, path string, open *bool) (*streams.Bench, *hdfs.Server) {
	t.Helper()
	return newHDFSWithin(t, path, open, time.Hour)
}

func newHDFSWithin(t *testing.T, path string, open *bool, delay time.Duration) (*streams.Bench, *hdfs.Server) {
	t.Helper()
	t.Parallel()
	server := hdfs.Start(t)
	b := streams.New(t, "hdfs", func() ([]ordered.Log, error) {
		store, err := webhdfs.New(webhdfs.Options{URLs: []string{"http://127.0.0.1:1", server.URL}, Path: path, User: "reader"})
		if err != nil {
			return nil, err
		}
		log, err := objects.Open(objects.Options{URL: "hdfs:/" + path, Delay: delay, Store: store, Open: *open, ListEvery: 50 * time.Millisecond})
		return []ordered.Log{log}, err
	})
	return b, server
}

// Each line of each closed file counts once: packed or not, in folders with many files, renamed, and added to, and also if
// the collector stops while nothing is acknowledged.
func TestEachLineOfEachFileOfHDFSCountsOnce(t *testing.T) {
	b, server := newHDFS(t, "/logs/**")
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
func TestAFileOfHDFSThatIsBeingWritten(t *testing.T) {
	b, server := newHDFS(t, "/logs/*/access-*.log")
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
func TestFaultsOfHDFS(t *testing.T) {
	b, server := newHDFS(t, "/logs")
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
