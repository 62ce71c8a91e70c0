package journald

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A child is a journalctl that writes entries into a pipe. It ends by itself when the pipe is closed, also because this
// process was killed.
type child struct {
	command *exec.Cmd
	out     *os.File
	said    said
	decoder *decoder
	waits   bool  // a read may wait for the child
	err     error // why it gives no more entries
}

// errNone means that the child has no entry for now.
var errNone = errors.New("no entry yet")

// startChild starts a journalctl.
func startChild(keep, arguments []string) (*child, error) {
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	c := &child{out: out, command: exec.Command("journalctl", arguments...)}
	c.command.Stdout, c.command.Stderr = in, &c.said
	c.command.Env = []string{"LC_ALL=C.UTF-8", "PATH=" + os.Getenv("PATH")}
	c.command.WaitDelay = time.Second
	if err := c.command.Start(); err != nil {
		_ = out.Close()
		if errors.Is(err, exec.ErrNotFound) {
			err = fmt.Errorf("%w; install systemd, whose journalctl reads the files", err)
		}
		return nil, err
	}
	c.decoder = newDecoder(c, keep)
	return c, nil
}

// next returns an entry. Without one it waits, where it may, until the context is done or some time has passed.
func (c *child) next(ctx context.Context, wait time.Duration) (entry, error) {
	if c.err != nil {
		return entry{}, c.err
	}
	c.waits = wait > 0
	if c.waits {
		_ = c.out.SetReadDeadline(time.Now().Add(wait))
		stop := context.AfterFunc(ctx, func() { _ = c.out.SetReadDeadline(time.Unix(1, 0)) })
		defer stop()
	}
	e, err := c.decoder.next()
	switch {
	case err == nil:
		return e, nil
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, errNone):
		return e, errNone
	case errors.Is(err, io.EOF):
		err = c.ended()
	}
	c.err = err
	return e, err
}

// Read reads from the pipe, for the decoder.
func (c *child) Read(b []byte) (n int, err error) {
	if c.waits {
		return c.out.Read(b)
	}
	_ = c.out.SetReadDeadline(time.Time{})
	raw, err := c.out.SyscallConn()
	if err != nil {
		return 0, err
	}
	var fault error
	err = raw.Read(func(fd uintptr) bool {
		n, fault = unix.Read(int(fd), b)
		return true
	})
	switch {
	case err != nil:
		return 0, err
	case errors.Is(fault, unix.EAGAIN), errors.Is(fault, unix.EINTR):
		return 0, errNone
	case fault != nil:
		return 0, fault
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// ended waits for the end of the child, which has closed the pipe. The error is EOF when it has written all.
func (c *child) ended() error {
	err := c.command.Wait()
	if err == nil {
		return io.EOF
	}
	if text := c.said.text(); text != "" {
		return fmt.Errorf("journalctl: %s: %w", text, err)
	}
	return fmt.Errorf("journalctl: %w", err)
}

// end kills the child, if it runs.
func (c *child) end() {
	_ = c.out.Close()
	if c.command.ProcessState == nil {
		_ = c.command.Process.Kill()
		_ = c.command.Wait()
	}
}

// said is the end of what a child wrote to standard error.
type said struct {
	mu   sync.Mutex
	last []byte
}

const mostSaid = 1 << 10

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = append(s.last, b...)
	s.last = bytes.Clone(s.last[max(0, len(s.last)-mostSaid):])
	return len(b), nil
}

func (s *said) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.ReplaceAll(strings.TrimSpace(strings.ToValidUTF8(string(s.last), "")), "\n", "; ")
}
