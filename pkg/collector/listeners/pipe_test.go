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
