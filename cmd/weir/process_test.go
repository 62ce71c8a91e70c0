package main

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// A process is weir as a shell starts it: this test's own program under another name, see TestMain.
type process struct {
	*exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	outEnd io.Closer
	err    *bytes.Buffer
}

func start(t *testing.T, args ...string) process {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := process{Cmd: exec.Command(program), err: &bytes.Buffer{}}
	p.Args = append([]string{"weir"}, args...)
	p.Stderr = p.err
	in, inErr := p.StdinPipe()
	out, outErr := p.StdoutPipe()
	if inErr != nil || outErr != nil {
		t.Fatal(inErr, outErr)
	}
	p.in, p.out, p.outEnd = in, bufio.NewReader(out), out
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // of a test that did not come to its end
		if p.ProcessState == nil {
			_ = p.Process.Kill()
			_ = p.Wait()
		}
	})
	return p
}

const oneLine = `203.0.113.7 - - [03/Mar/2026:08:00:00 +0000] "GET / HTTP/1.1" 200 1 "-" "-"` + "\n"

// follow gives parse one line and waits for what it says of it, which is at once, though the pipe stays open.
func follow(t *testing.T) process {
	t.Helper()
	p := start(t, "parse", "--json", "-")
	if _, err := io.WriteString(p.in, oneLine); err != nil {
		t.Fatal(err)
	}
	shown, err := p.out.ReadString('\n')
	if err != nil || !strings.Contains(shown, `"ip":"203.0.113.7"`) {
		t.Fatalf("got %q, %v", shown, err)
	}
	return p
}

func TestAnInterruptEndsAWaitingRead(t *testing.T) {
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		p := follow(t)
		if err := p.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if err := p.Wait(); p.ProcessState.ExitCode() != exitFailed || p.err.String() != "weir: stopped before the end\n" {
			t.Errorf("%v: %v, and %q", signal, err, p.err)
		}
	}
}

func TestAClosedPipeEndsQuietly(t *testing.T) {
	p := follow(t)
	p.outEnd.Close()
	io.WriteString(p.in, oneLine)
	p.in.Close()
	if err := p.Wait(); p.err.Len() > 0 {
		t.Errorf("%v, and %q", err, p.err)
	}
}
