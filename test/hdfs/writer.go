package hdfs

import (
	"bufio"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"weir/test/real"
	"weir/test/wait"
)

//go:embed Writer.java
var writerSource []byte

// A Writer is a process with Hadoop's own client, which keeps a file open.
type Writer struct {
	server  *Server
	process *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Scanner
}

// NewWriter starts a writer.
func (s *Server) NewWriter() *Writer {
	s.t.Helper()
	if _, err := os.Stat(filepath.Join(s.folder, "Writer.class")); err != nil {
		if _, err := exec.LookPath("javac"); err != nil {
			real.Missing(s.t, "javac is missing")
		}
		source := filepath.Join(s.folder, "Writer.java")
		s.must(os.WriteFile(source, writerSource, 0o644))
		if out, err := exec.Command("javac", "-cp", s.jars+"/*", "-d", s.folder, source).CombinedOutput(); err != nil {
			s.t.Fatalf("javac: %v: %s", err, out)
		}
	}
	w := &Writer{server: s, process: s.command("Writer")}
	in, err := w.process.StdinPipe()
	s.must(err)
	out, err := w.process.StdoutPipe()
	s.must(err)
	w.in, w.out = in, bufio.NewScanner(out)
	s.must(w.process.Start())
	s.t.Cleanup(w.Kill)
	return w
}

// Kill ends the process at once. Its file stays open.
func (w *Writer) Kill() {
	_ = w.process.Process.Kill()
	_ = w.process.Wait()
}

// Create begins a file.
func (w *Writer) Create(path string) { w.server.t.Helper(); w.do("create " + w.server.Root + path) }

// Append opens a file again.
func (w *Writer) Append(path string) { w.server.t.Helper(); w.do("append " + w.server.Root + path) }

// Write writes lines, and makes them visible to readers.
func (w *Writer) Write(lines []string) {
	w.server.t.Helper()
	for _, line := range lines {
		w.do("write " + line)
	}
	w.do("hflush")
}

// WritePart writes the beginning of a line, and makes it visible.
func (w *Writer) WritePart(text string) {
	w.server.t.Helper()
	w.do("part " + text)
	w.do("hflush")
}

// Close closes the file.
func (w *Writer) Close() { w.server.t.Helper(); w.do("close") }

// Recover closes the file of a process that ended, as HDFS does by itself after some minutes.
func (w *Writer) Recover(path string) {
	w.server.t.Helper()
	wait.Until(w.server.t, "the lease to be recovered", func() bool { return w.ask("recover "+w.server.Root+path) == "ok" })
}

func (w *Writer) do(command string) {
	w.server.t.Helper()
	if answer := w.ask(command); answer != "ok" {
		w.server.t.Fatalf("%.100s: %s", command, answer)
	}
}

func (w *Writer) ask(command string) string {
	w.server.t.Helper()
	_, err := fmt.Fprintln(w.in, command)
	s := w.server
	s.must(err)
	if !w.out.Scan() {
		s.t.Fatalf("the writer ended: %v", w.out.Err())
	}
	return strings.TrimSpace(w.out.Text())
}
