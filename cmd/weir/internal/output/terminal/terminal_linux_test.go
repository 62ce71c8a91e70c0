package terminal

import (
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"weir/test/tty"
)

// TestMain is also a program with a view, which panics.
func TestMain(m *testing.M) {
	if os.Getenv("PANICS") == "" {
		os.Exit(m.Run())
	}
	t, err := Open(os.Stdin, os.Stdout)
	if err != nil {
		panic(err)
	}
	var running sync.WaitGroup
	t.Go(&running, func() { panic("on purpose") })
	running.Wait()
}

// After a panic the terminal is as before, and the panic can be read.
func TestAPanicGivesTheTerminalBack(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := exec.Command(program)
	p.Env = append(os.Environ(), "PANICS=1", "TERM=xterm")
	tty := tty.Start(t, p, 80, 24)
	if err := p.Wait(); err == nil {
		t.Error("it did not panic")
	}
	tty.Await("the panic", func(string) bool { return strings.Contains(tty.Raw(), "panic: on purpose") })
	if not := tty.Restored(); not != "" {
		t.Error(not)
	}
	if !strings.Contains(tty.Past()+tty.Screen(), "panic: on purpose") {
		t.Errorf("the panic is not on the main screen:\n%s", tty.Screen())
	}
}
