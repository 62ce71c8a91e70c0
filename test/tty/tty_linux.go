// Package tty runs a program on a terminal of its own, for tests: it types, and sees the screen as a person would.
package tty

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"weir/test/wait"
)

// A Terminal is a terminal with a program on it.
type Terminal struct {
	t      testing.TB
	master *os.File
	slave  *os.File
	before unix.Termios
	ended  chan struct{}

	mu     sync.Mutex
	screen *screen
	raw    bytes.Buffer
}

// Start starts a program on a terminal of a size. Streams that are set already stay as they are.
func Start(t testing.TB, program *exec.Cmd, columns, rows int) *Terminal {
	t.Helper()
	master, slave, err := open()
	if err != nil {
		t.Fatal(err)
	}
	tty := &Terminal{t: t, master: master, slave: slave, ended: make(chan struct{}), screen: newScreen(columns, rows)}
	tty.Resize(columns, rows)
	tty.before = tty.mode()
	if program.Stdin == nil {
		program.Stdin = slave
	}
	if program.Stdout == nil {
		program.Stdout = slave
	}
	if program.Stderr == nil {
		program.Stderr = slave
	}
	program.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	go tty.read()
	t.Cleanup(func() {
		if program.ProcessState == nil {
			_ = program.Process.Kill()
			_ = program.Wait()
		}
		master.Close()
		slave.Close()
		<-tty.ended
	})
	return tty
}

func open() (master, slave *os.File, err error) {
	if master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		return nil, nil, err
	}
	number, err := unix.IoctlGetUint32(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		master.Close()
	}
	return master, slave, err
}

func (t *Terminal) read() {
	defer close(t.ended)
	buffer := make([]byte, 64<<10)
	for {
		n, err := t.master.Read(buffer)
		t.mu.Lock()
		t.raw.Write(buffer[:n])
		t.screen.write(buffer[:n])
		t.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (t *Terminal) mode() unix.Termios {
	mode, err := unix.IoctlGetTermios(int(t.slave.Fd()), unix.TCGETS)
	if err != nil {
		t.t.Fatal(err)
	}
	return *mode
}

// Resize changes the size, with SIGWINCH for the program.
func (t *Terminal) Resize(columns, rows int) {
	t.mu.Lock()
	t.screen.resize(columns, rows)
	t.mu.Unlock()
	if err := unix.IoctlSetWinsize(int(t.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(columns), Row: uint16(rows)}); err != nil {
		t.t.Fatal(err)
	}
}

// Type presses keys.
func (t *Terminal) Type(keys string) {
	t.t.Helper()
	if _, err := t.master.WriteString(keys); err != nil {
		t.t.Fatal(err)
	}
}

// Screen returns the lines on the screen, without spaces at their ends.
func (t *Terminal) Screen() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.screen.String()
}

// Past returns the lines that have left the screen at its top.
func (t *Terminal) Past() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.screen.past.String()
}

// Raw returns all that was written.
func (t *Terminal) Raw() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.raw.String()
}

// Await waits until the screen is as wanted.
func (t *Terminal) Await(what string, is func(screen string) bool) {
	t.t.Helper()
	defer func() {
		if t.t.Failed() {
			t.t.Logf("the screen:\n%s", t.Screen())
		}
	}()
	wait.Until(t.t, what, func() bool { return is(t.Screen()) })
}

// Restored returns what of the terminal is not as it was before the program; empty when all is.
func (t *Terminal) Restored() string {
	mode := t.mode()
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case mode != t.before:
		return fmt.Sprintf("the mode is %+v, was %+v", mode, t.before)
	case t.screen.main != nil:
		return "the other screen is shown"
	case t.screen.hidden:
		return "the cursor is hidden"
	case t.screen.cuts:
		return "long lines are cut"
	}
	return ""
}
