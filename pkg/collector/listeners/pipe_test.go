package listeners

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"weir/internal/logfile"
	"weir/pkg/collector/pipeline"
	"weir/pkg/rule"
	"weir/test/wait"
)

// A pipeBench is a bench whose source reads a pipe.
type pipeBench struct {
	*bench
	status func() pipeline.SourceStatus
}

// openPipe makes a source of a pipe, which runs.
func openPipe(t *testing.T, path string, input *os.File) *pipeBench {
	t.Helper()
	b := &pipeBench{bench: newBench(t)}
	p := pipeline.New(b.config.Config)
	set, err := rule.FromLimits([]string{"10/min"}, "ip")
	if err != nil {
		t.Fatal(err)
	}
	p.SetRules(set, nil)
	in, err := p.NewIntake(pipeline.IntakeConfig{Name: "pipe", Envelope: "auto", Format: "auto"})
	if err != nil {
		t.Fatal(err)
	}
	made, err := NewPipe(in, PipeConfig{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if input != nil {
		made.(*pipeSource).input = input
	}
	b.opened = &opened{sources: []pipeline.Source{made}}
	b.status = made.Status
	b.run()
	return b
}

// TestANamedPipeIsRead: writers come and go, and a line without an end is not counted before it has one.
func TestANamedPipeIsRead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "access.fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	b := openPipe(t, path, nil)
	write := func(text string) {
		pipe, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer pipe.Close()
		if _, err := pipe.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		write(b.body(200))
	}
	line := b.Line()
	write("\r\n\n" + line[:20])
	write(line[20:])
	b.sink.Await(t, b.Want)
	b.stop()
	if status := b.status(); status.Kind != "pipe" || status.Requests != 601 || !strings.HasPrefix(status.Format, "combined: ") {
		t.Errorf("%+v", status)
	}
}

// TestAPipeThatIsMadeAgainIsRead: also by the writers of the one before. While there is none, the source says so.
func TestAPipeThatIsMadeAgainIsRead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "access.fifo")
	makePipe := func() {
		t.Helper()
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	removePipe := func() {
		t.Helper()
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	makePipe()
	b := openPipe(t, path, nil)
	var writers []*os.File
	for i := range 3 {
		if i > 0 {
			removePipe()
			wait.Until(t, "the pipe is missed", func() bool {
				status := b.status()
				return !status.CaughtUp && strings.Contains(status.Error, "is gone")
			})
			makePipe()
		}
		wait.Until(t, "the pipe has a reader", func() bool {
			to, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
			if err == nil {
				writers = append(writers, to)
			}
			return err == nil
		})
		for _, to := range writers[max(0, i-1):] {
			if _, err := to.WriteString(b.body(50)); err != nil {
				t.Fatal(err)
			}
		}
		b.sink.Await(t, b.Want)
		wait.Until(t, "the source is well", func() bool { return b.status().Error == "" })
	}
	for _, to := range writers {
		to.Close()
	}

	removePipe()
	if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the file is named", func() bool { return strings.Contains(b.status().Error, "is not a named pipe any more") })
	b.stop()
}

// TestStandardInputIsRead: to its end, the last line without a newline too; a line that is too long counts as long.
func TestStandardInputIsRead(t *testing.T) {
	t.Parallel()
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	b := openPipe(t, Stdin, from)
	text := b.body(300) + strings.Repeat("x", logfile.MaxLine+5) + "\n" + strings.TrimSuffix(b.Line(), "\n")
	go func() {
		_, _ = to.WriteString(text)
		to.Close()
	}()
	b.sink.Await(t, b.Want)
	wait.Until(t, "the source has caught up", func() bool { return b.status().CaughtUp })
	if status := b.status(); status.Requests != 302 || status.Uncounted["long"] != 1 {
		t.Errorf("%+v", status)
	}
	b.stop()
}

// TestASilentPipeIsLeft: the source ends, although nothing comes.
func TestASilentPipeIsLeft(t *testing.T) {
	t.Parallel()
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	defer to.Close()
	openPipe(t, Stdin, from).stop()
}
