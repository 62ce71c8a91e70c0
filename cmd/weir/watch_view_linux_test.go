package main

import (
	"strings"
	"testing"

	"weir/cmd/internal/exit"
	"weir/test/running"
)

// The changes of a real enforcer's list are shown in place, the newest first, and a key is opened. The loss of the enforcer is
// shown. The text of a person does nothing to the terminal.
func TestWatchOnATerminal(t *testing.T) {
	folder := running.Folder(t)
	e, err := running.StartEnforcer(folder, nil, running.List(1, running.SampleList()...))
	if err != nil {
		t.Fatal(err)
	}
	flags := []string{"--set", "data=" + folder, "--set", "enforcer.listen=127.0.0.1:1", "--set", "aggregator.listen=127.0.0.1:1", "--set", "rules=[{name: per-ip, key: ip, limits: [10/min]}]"}
	tty, p := onTerminal(t, 80, 24, append([]string{"watch"}, flags...)...)
	tty.Await("the list", has("weir watch  ", "0 changes since the start", "on the list of", "q: leave"))
	for _, key := range []string{"192.0.2.9", "198.51.100.0/24"} {
		runs(t, exit.Done, "blocked", append([]string{"block", key, "--why", "\x1b]0;owned\x07abuse", "--for", "1h", "--yes"}, flags...)...)
	}
	tty.Await("the changes", has("2 changes since the start", "> ", "block", "192.0.2.9", "198.51.100.0/24"))
	tty.Resize(60, 24)
	tty.Await("lines that are cut", has("…\n"))
	tty.Resize(80, 24)
	if screen := tty.Screen(); strings.Index(screen, "198.51.100.0/24") > strings.Index(screen, "192.0.2.9") || strings.Contains(tty.Raw(), "owned\x07") {
		t.Errorf("the newest is not first, or a text is obeyed:\n%s", screen)
	}
	tty.Type("/192.0.2\r")
	tty.Await("the filter", func(screen string) bool { return !strings.Contains(screen, "198.51.100.0") })
	tty.Type("\r")
	tty.Await("the open key", has("On the list: 192.0.2.9 by manual", "Esc: back"))
	tty.Type("\x1b")
	tty.Await("the rows", has("weir watch  "))
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	tty.Await("the loss", has("no enforcer answers"))
	tty.Type("\x03")
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
	tty.Await("the terminal as it was", func(string) bool { return tty.Restored() == "" })
}
