// Package journals writes real journal files for tests, by systemd-journal-remote.
package journals

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/test/real"
	"weir/test/wait"
)

const program = "/lib/systemd/systemd-journal-remote"

// A Writer writes into one journal file. It belongs to the test's goroutine.
type Writer struct {
	Path string // of the file

	t       testing.TB
	command *exec.Cmd
	in      io.WriteCloser
	said    bytes.Buffer
	clock   int64  // of the last entry, Unix µs
	written int64  // entries since the start
	before  header // at the start
	left    string // the ID of the file that a kill left; the next entry begins another one
}

// Start starts a writer of a file in a folder: Start(t, folder, "system") writes system.journal.
func Start(t testing.TB, folder, log string) *Writer {
	t.Helper()
	real.Program(t, "journalctl", "systemd")
	if _, err := os.Stat(program); err != nil {
		real.Missing(t, program+" is missing: apt-get install systemd-journal-remote")
	}
	w := &Writer{t: t, Path: filepath.Join(folder, log+".journal")}
	w.Restart()
	t.Cleanup(w.Kill)
	return w
}

// Restart starts the writer again after Stop or Kill.
func (w *Writer) Restart() {
	w.t.Helper()
	if w.left == "" {
		w.before = w.header()
	}
	w.command, w.clock, w.written = exec.Command(program, "--output="+w.Path, "-"), 0, 0
	w.command.Stdout, w.command.Stderr = &w.said, &w.said
	var err error
	if w.in, err = w.command.StdinPipe(); err == nil {
		err = w.command.Start()
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// Stop ends the writer, when it has written all.
func (w *Writer) Stop() {
	w.t.Helper()
	_ = w.in.Close() // the end of its input
	if err := w.command.Wait(); err != nil {
		w.t.Fatal(err, w.said.String())
	}
	w.command = nil
	w.left = ""
}

// Kill ends the writer at once, as kill -9 does. Then the next entry begins another file.
func (w *Writer) Kill() {
	if w.command != nil {
		_ = w.command.Process.Kill()
		_ = w.command.Wait()
		w.command = nil
		w.before = w.header()
		w.left = w.before.id
	}
}

// Add writes an entry for each line, of nginx's unit.
func (w *Writer) Add(lines []string) {
	w.t.Helper()
	var entries bytes.Buffer
	for _, line := range lines {
		w.entry(&entries, time.Now(), "MESSAGE="+line, "_SYSTEMD_UNIT=nginx.service", "SYSLOG_IDENTIFIER=nginx")
	}
	w.write(&entries, len(lines))
}

// Entry writes an entry of fields NAME=value with a time.
func (w *Writer) Entry(at time.Time, fields ...string) {
	w.t.Helper()
	var entries bytes.Buffer
	w.entry(&entries, at, fields...)
	w.write(&entries, 1)
}

func (w *Writer) entry(to *bytes.Buffer, at time.Time, fields ...string) {
	w.clock = max(w.clock+1, at.UnixMicro())
	fmt.Fprintf(to, "__REALTIME_TIMESTAMP=%d\n__MONOTONIC_TIMESTAMP=%d\n_BOOT_ID=0123456789abcdef0123456789abcdef\n", w.clock, w.clock)
	for _, field := range fields {
		name, value, _ := strings.Cut(field, "=")
		to.WriteString(name + "\n")
		_ = binary.Write(to, binary.LittleEndian, uint64(len(value))) // a buffer takes all
		to.WriteString(value + "\n")
	}
	to.WriteByte('\n')
}

func (w *Writer) write(entries *bytes.Buffer, n int) {
	w.t.Helper()
	if _, err := w.in.Write(entries.Bytes()); err != nil {
		w.t.Fatal(err, w.said.String())
	}
	w.written += int64(n)
}

// Rename makes the file an old one of its log, after Stop or Kill. Then the next entry begins another series.
func (w *Writer) Rename() {
	w.t.Helper()
	name := fmt.Sprintf("%s@%032x-%016x-%016x.journal", strings.TrimSuffix(w.Path, ".journal"), time.Now().UnixNano(), 1, time.Now().UnixMicro())
	if err := os.Rename(w.Path, name); err != nil {
		w.t.Fatal(err)
	}
}

// Old returns the paths of the files that entries are not added to any more.
func (w *Writer) Old() (paths []string) {
	w.t.Helper()
	all, err := os.ReadDir(filepath.Dir(w.Path))
	if err != nil {
		w.t.Fatal(err)
	}
	log := strings.TrimSuffix(filepath.Base(w.Path), ".journal")
	for _, file := range all {
		if strings.HasPrefix(file.Name(), log+"@") {
			paths = append(paths, filepath.Join(filepath.Dir(w.Path), file.Name()))
		}
	}
	return paths
}

// Settle waits until all entries are in the file.
func (w *Writer) Settle() {
	w.t.Helper()
	wait.Until(w.t, fmt.Sprintf("the journal to have %d more entries", w.written), func() bool {
		now := w.header()
		before := w.before.tail
		if now.series != w.before.series {
			before = 0
		}
		return now.id != w.left && now.tail >= before+w.written
	})
}

// A header is a part of what a file says of itself.
type header struct {
	id, series string
	tail       int64 // the number of its last entry
}

func (w *Writer) header() (h header) {
	of, err := os.Open(w.Path)
	if err != nil {
		return h
	}
	defer of.Close()
	b := make([]byte, 168)
	if _, err := of.ReadAt(b, 0); err != nil {
		return h
	}
	return header{string(b[24:40]), string(b[72:88]), int64(binary.LittleEndian.Uint64(b[160:]))}
}
