package objects_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"weir/pkg/collector/pipeline"
	"weir/test/hdfs"
	"weir/test/streams"
	"weir/test/wait"
)

// counted adds lines to what is to be counted.
func counted(b *streams.Bench, lines []string) {
	for _, line := range lines {
		address, _, _ := strings.Cut(line, " ")
		b.Want["per-ip "+address]++
	}
}

func noneLost(t *testing.T, b *streams.Bench) {
	t.Helper()
	if lost := b.Status().Lost; lost != 0 {
		t.Errorf("%d files are lost: %s", lost, b.Said.String())
	}
}

// Each line of a file counts once, and soon, while it is written: also after the file is renamed, out of the path too,
// closed, opened again, added to and closed, and also if the collector stops while nothing is acknowledged.
func eachLineOfAFileThatIsBeingWritten(t *testing.T, server *hdfs.Server) {
	b := newHDFS(t, server, "/logs/*.log", new(true), time.Hour)
	writer := server.NewWriter()
	writer.Create("/logs/_tmp.log")
	writer.Write(b.Lines(10))
	b.Start()
	server.Put("/logs/closed.log", text(b.Lines(10)))
	server.Rename("/logs/_tmp.log", "/logs/a.log")
	b.Await()
	line := b.Lines(1)[0]
	writer.WritePart(line[:40])
	b.Settle()
	writer.WritePart(line[40:])
	writer.Write(append([]string{""}, b.Lines(10)...))
	b.Await()

	b.Sink.Set(func() { b.Sink.Mute = true })
	writer.Write(b.Lines(20_000))
	b.Sink.Await(t, b.Want)
	b.Restart(func() { writer.Write(b.Lines(10)) })
	b.Sink.Unmute()
	b.Await()

	server.Rename("/logs/a.log", "/logs/a.done")
	writer.Write(b.Lines(10))
	b.Await()
	server.Rename("/logs/a.done", "/logs/b.log")
	writer.Write(b.Lines(10))
	writer.Close()
	b.Await()
	writer.Append("/logs/b.log")
	writer.Write(b.Lines(10))
	b.Await()
	b.Restart(writer.Close)
	server.Append("/logs/b.log", bytes.TrimSuffix(text(b.Lines(10)), []byte("\n")))
	b.Await()
	server.Append("/logs/b.log", text(b.Lines(10)))
	b.Await()
	server.Append("/logs/b.log", text(b.Lines(10)))
	b.Await()
	noneLost(t, b)
}

// A packed file is read once it is closed, and a file that takes the place of another one is another one.
func otherFilesWhereFilesAreReadEarly(t *testing.T, server *hdfs.Server) {
	b := newHDFS(t, server, "/logs", new(true), time.Hour)
	server.Make("/logs")
	b.Start()
	whole := packed(b.Unread(100_000))
	end := server.Begin("/logs/a.gz", whole)
	server.Put("/logs/empty", nil)
	server.Put("/logs/b", text(b.Lines(10)))
	b.Await()
	end()
	for n := range 100_000 {
		counted(b, []string{streams.Line(n + 1)})
	}
	b.Await()
	server.Put("/logs/b", text(b.Lines(20)))
	b.Await()
	server.Append("/logs/empty", text(b.Lines(5)))
	server.Append("/logs/a.gz", packed(b.Lines(5)))
	b.Await()
	b.Restart(func() { server.Append("/logs/empty", text(b.Lines(5))) })
	b.Await()
	noneLost(t, b)
}

// A writer that is killed leaves its file open. Its data node is killed too, and loses what it did not sync: others are read
// meanwhile. Once HDFS closes the file it is shorter than what was read, which is reported. Nothing counts twice.
func aFileThatIsCutOff(t *testing.T, server *hdfs.Server) {
	b := newHDFS(t, server, "/logs", new(true), time.Hour)
	writer := server.NewWriter()
	writer.Create("/logs/a")
	writer.Write(b.Lines(100))
	b.Start()
	b.Await()
	server.Put("/logs/b", text(b.Lines(10)))
	b.Await()
	writer.Kill()
	server.RestartData(func() { server.CutOpenBlocks(1000) })
	server.Put("/logs/c", text(b.Lines(10)))
	b.Await()
	b.Trouble(server.Root + "/logs/a: it is being written, and it cannot be read now")

	other := server.NewWriter()
	other.Recover("/logs/a")
	b.Says("bytes that were read are not in it any more")
	b.Await()
	other.Append("/logs/a")
	other.Write(b.Lines(20))
	b.Await()
	other.Close()
	b.Restart(func() {})
	server.Append("/logs/a", text(b.Lines(10)))
	b.Await()
	noneLost(t, b)
}

// Lines that were read while a file was written are not read again by a collector that reads closed files only, and the other way
// round.
func theOptionIsChanged(t *testing.T, server *hdfs.Server) {
	open := false
	b := newHDFS(t, server, "/logs", &open, time.Hour)
	writer := server.NewWriter()
	server.Put("/logs/a", text(b.Lines(10)))
	b.Start()
	b.Await()
	change := func(meanwhile func()) {
		t.Helper()
		b.Restart(func() {
			open = !open
			meanwhile()
		})
		b.Await()
	}
	change(func() {
		server.Append("/logs/a", text(b.Lines(10)))
		writer.Create("/logs/b")
		writer.Write(b.Lines(10))
	})
	change(func() {
		writer.Write(b.Lines(10))
		writer.Close()
		server.Append("/logs/a", text(b.Lines(10)))
	})
	change(func() { server.Append("/logs/a", text(b.Lines(10))) })
	server.Append("/logs/b", text(b.Lines(10)))
	b.Await()

	b.Sink.Set(func() { b.Sink.Mute = true })
	server.Put("/logs/c", text(b.Lines(20_000)))
	b.Sink.Await(t, b.Want)
	change(func() {})
	b.Sink.Unmute()
	b.Await()
	noneLost(t, b)
}

// A file that was being written and is gone when the collector runs again is lost once, if it does not come back within
// the delay: what was written last is not known.
func aFileIsDeletedWhileNoCollectorRuns(t *testing.T, server *hdfs.Server) {
	b := newHDFS(t, server, "/logs", new(true), 3*time.Second)
	writer := server.NewWriter()
	writer.Create("/logs/a")
	writer.Write(b.Lines(10))
	b.Start()
	b.Await()
	b.Restart(func() {
		writer.Write(b.Unread(5))
		writer.Close()
		server.Delete("/logs/a")
	})
	wait.Until(t, "the file to be lost", func() bool { return b.Status().Lost == 1 })
	b.Says("was deleted or moved out of the path while no collector ran")
	server.Put("/logs/b", text(b.Lines(10)))
	b.Restart(func() {})
	b.Await()
	noneLost(t, b)
}

// A file that takes the place of one that is being written is another one. The last lines of the one before are not known,
// so that counts as lost. With start: latest, a file that is open already is read once it is closed.
func filesThatAreReplacedOrWereOpenBefore(t *testing.T, server *hdfs.Server) {
	b := newHDFS(t, server, "/logs", new(true), time.Hour)
	b.Source.Ordered.Start = pipeline.Start{Latest: true}
	before := server.NewWriter()
	before.Create("/logs/before")
	before.Write(b.Lines(10))
	made := time.Now()
	wait.Until(t, "a later second", func() bool { return time.Since(made) > 2*time.Second }) // by which times of modification are compared
	b.Start()
	wait.Until(t, "the prefix to be listed", b.CaughtUp)
	writer := server.NewWriter()
	writer.Create("/logs/a")
	writer.Write(b.Lines(10))
	before.Close()
	b.Await()
	noneLost(t, b)
	server.Put("/logs/a", text(b.Lines(20)))
	b.Await()
	wait.Until(t, "the file before to be lost", func() bool { return b.Status().Lost == 1 })
}

// A line that is too long is left until its end is written, so that its end is never a line of its own.
func aLongLineOfAFileThatIsBeingWritten(t *testing.T, server *hdfs.Server) {
	b := newHDFS(t, server, "/logs", new(true), time.Hour)
	writer := server.NewWriter()
	writer.Create("/logs/a")
	writer.Write(b.Lines(5))
	writer.WritePart(strings.Repeat("x", 17<<20))
	b.Start()
	b.Await()
	server.Put("/logs/b", text(b.Lines(5)))
	b.Await()
	writer.Write(append(b.Unread(1), b.Lines(5)...)) // the end of the long one is a line by itself
	b.Await()
	writer.Close()
	b.Settle()
	if long := b.Status().Uncounted["long"]; long != 1 {
		t.Errorf("%d lines are too long: %v", long, b.Status().Uncounted)
	}
	noneLost(t, b)
}
