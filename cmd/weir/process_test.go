package main

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/cmd/internal/exit"
	"weir/test/port"
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
	t.Cleanup(func() { // when the test failed before the process ended
		if p.ProcessState == nil {
			_ = p.Process.Kill()
			_ = p.Wait()
		}
	})
	return p
}

const oneLine = `203.0.113.7 - - [03/Mar/2026:08:00:00 +0000] "GET / HTTP/1.1" 200 1 "-" "-"` + "\n"

// follow writes one line to parse and waits for its output, which comes at once though the pipe stays open.
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
		if err := p.Wait(); p.ProcessState.ExitCode() != exit.Failed || p.err.String() != "weir: stopped before the end\n" {
			t.Errorf("%v: %v, and %q", signal, err, p.err)
		}
	}
}

func TestAClosedPipeEndsQuietly(t *testing.T) {
	p := follow(t)
	p.outEnd.Close()
	io.WriteString(p.in, oneLine)
	p.in.Close()
	err := p.Wait()
	if status, ok := p.ProcessState.Sys().(syscall.WaitStatus); p.err.Len() > 0 || !ok || status.Signal() != syscall.SIGPIPE {
		t.Errorf("%v, and %q", err, p.err)
	}
}

// One signal ends a command that waits for a named pipe, whichever command it is.
func TestASignalEndsTheWaitForAPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"backtest", "--limit", "10/min", pipe},
		{"backtest", "--rules", pipe, "../../examples/access.log"},
		{"backtest", "--limit", "10/min", "--never", pipe, "../../examples/access.log"},
		{"parse", pipe},
		{"check", pipe},
		{"check", "-"},
		{"test", pipe},
		{"send", "--to", "http://127.0.0.1:9", pipe},
	} {
		t.Run(strings.Join(args[:len(args)-1], " "), func(t *testing.T) {
			t.Parallel()
			p := start(t, args...)
			time.Sleep(300 * time.Millisecond) // by now it waits; if not, it ends all the same
			if err := p.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := p.Wait(); err == nil {
				t.Error("it ended as if it had done what it was to do")
			}
		})
	}
}

// A part works on when the reader of its log hangs or has ended, as journald may.
func TestARunOutlivesTheReaderOfItsLog(t *testing.T) {
	for _, reader := range []string{"ended", "hangs"} {
		t.Run(reader, func(t *testing.T) {
			folder := t.TempDir()
			write := func(name, text string) {
				t.Helper()
				if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write("access.log", oneLine)
			write("rules.yaml", "rules: [{name: per-ip, key: ip, limits: [10/min]}]\n")
			write("weir.yaml", `
data: data
log: {level: debug}
collector: {listen: "`+port.Reserve(t, "127.0.0.1")+`", sources: [{file: access.log}]}
aggregator: {listen: "`+port.Reserve(t, "127.0.0.1")+`"}
enforcer: {listen: "`+port.Reserve(t, "127.0.0.1")+`", admin: "`+port.Reserve(t, "127.0.0.1")+`"}
`)
			program, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			read, stderr, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer read.Close()
			if reader == "hangs" {
				fill(t, stderr)
			} else {
				read.Close()
			}

			run := exec.Command(program)
			run.Args = []string{"weir", "run", "--config", filepath.Join(folder, "weir.yaml")}
			run.Stderr = stderr
			if err := run.Start(); err != nil {
				t.Fatal(err)
			}
			stderr.Close()
			ended := make(chan error, 1)
			go func() { ended <- run.Wait() }()

			socket, patience := filepath.Join(folder, "data", "weir.sock"), time.After(3*time.Minute)
			for _, err := os.Stat(socket); err != nil; _, err = os.Stat(socket) {
				select {
				case <-patience:
					_ = run.Process.Kill()
					t.Fatal("it does not start")
				case err := <-ended:
					t.Fatalf("it ended: %v", err)
				case <-time.After(20 * time.Millisecond):
				}
			}
			if err := run.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-ended:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(time.Minute):
				_ = run.Process.Kill()
				t.Error("it did not end")
			}
		})
	}
}

// fill writes into a pipe until it takes nothing more.
func fill(t *testing.T, pipe *os.File) {
	t.Helper()
	if err := pipe.SetWriteDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := pipe.Write(make([]byte, 4096)); err != nil {
			break
		}
	}
	if err := pipe.SetWriteDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
}
