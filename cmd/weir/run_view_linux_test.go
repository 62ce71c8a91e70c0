package main

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"weir/test/tty"
)

// In a terminal the demonstration shows what happens now, with the log above it, and at Ctrl-C what it saw. The terminal
// stays as it is throughout, so that even a kill leaves it so.
func TestTheDemonstrationOnATerminal(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	_, flags := apart(t)
	tty, p := onTerminal(t, 80, 24, append([]string{"run", "--demo"}, flags...)...)
	tty.Await("the view", func(screen string) bool {
		return has("weir run  ", "requests/s", "keys blocked now, ", "Last changes of the list:", "  blocked  203.0.113.66", "Refused most:", "Nearest to a limit:", "Ctrl-C ends it.  Console: http://")(screen)
	})
	if screen := tty.Screen(); strings.Count(screen, "weir run  ") != 1 || strings.Count(screen, "Ctrl-C ends") != 1 {
		t.Errorf("the view is there more than once:\n%s", screen)
	}
	if not := tty.Restored(); not != "" {
		t.Error(not)
	}
	for _, want := range []string{"rule       per-client: 30/10s 100/min by ip, enforce", "msg=runs part=weir"} {
		if !strings.Contains(tty.Past()+tty.Screen(), want) {
			t.Errorf("%q is not above the view:\n%s%s", want, tty.Past(), tty.Screen())
		}
	}

	tty.Resize(60, 16)
	tty.Await("the view on a smaller terminal", func(screen string) bool {
		return has("weir run  ", "Ctrl-C ends it.")(screen) && strings.Count(screen, "weir run  ") == 1 && strings.Count(screen, "\n") < 16
	})
	tty.Type("\x03")
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
	tty.Await("what the demonstration saw", has("Weir had it refuse", "  203.0.113.66       POST /login", "No request of a visitor was refused."))
	if screen := tty.Screen(); strings.Contains(screen, "Ctrl-C ends") || strings.Contains(screen, "Nearest") {
		t.Errorf("the view is still there:\n%s", screen)
	}
	if not := tty.Restored(); not != "" {
		t.Error(not)
	}
}

// With --plain, on a terminal that cannot draw, or with the output in a pipe, there are lines and no sequences. A log that
// goes to a file stays there.
func TestARunWithoutAView(t *testing.T) {
	for name, one := range map[string]struct {
		kind  string
		plain bool
	}{"plain": {"xterm", true}, "dumb": {"dumb", false}} {
		t.Setenv("TMPDIR", t.TempDir())
		_, flags := apart(t)
		if one.plain {
			flags = append(flags, "--plain")
		}
		program, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		p := exec.Command(program)
		p.Args = append([]string{"weir", "run", "--demo"}, flags...)
		p.Env = append(os.Environ(), "TERM="+one.kind)
		tty := tty.Start(t, p, 80, 24)
		tty.Await(name+": the summary", func(string) bool { return strings.Contains(tty.Raw(), "see        weir watch") })
		p.Process.Signal(syscall.SIGTERM)
		if err := p.Wait(); err != nil {
			t.Error(name, err)
		}
		if strings.Contains(tty.Raw(), "\x1b") {
			t.Errorf("%s: %q", name, tty.Raw())
		}
	}
}

// In the background of a shell, a run draws nothing over what the shell and the user write.
func TestARunInTheBackground(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	_, flags := apart(t)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := t.TempDir() + "/weir" // the test's program is weir by this name
	if err := os.Symlink(program, link); err != nil {
		t.Fatal(err)
	}
	p := exec.Command("sh", append([]string{"-c", `set -m; "$@" & trap 'kill $!' TERM; wait; wait`, "sh", link, "run", "--demo"}, flags...)...)
	p.Env = append(os.Environ(), "TERM=xterm")
	tty := tty.Start(t, p, 80, 24)
	tty.Await("a block in the log", func(string) bool {
		return strings.Contains(tty.Raw(), "see        weir watch") && strings.Contains(tty.Raw(), "msg=blocked")
	})
	p.Process.Signal(syscall.SIGTERM)
	_ = p.Wait() // the shell's status is that of its trap
	tty.Await("the end", func(string) bool { return strings.Contains(tty.Raw(), "Weir had it refuse") })
	if raw := tty.Raw(); strings.Contains(raw, "requests/s, ") || strings.Contains(raw, "\x1b[J") {
		t.Errorf("it draws:\n%s", raw)
	}
}
