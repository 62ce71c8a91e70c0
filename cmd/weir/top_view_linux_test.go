package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"weir/test/tty"
)

// onTerminal starts weir on a terminal.
func onTerminal(t *testing.T, columns, rows int, args ...string) (*tty.Terminal, *exec.Cmd) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := exec.Command(program)
	p.Args = append([]string{"weir"}, args...)
	p.Env = append(os.Environ(), "TERM=xterm-256color", "HOME="+t.TempDir(), "TZ=Europe/Berlin")
	return tty.Start(t, p, columns, rows), p
}

// hostile is a key as a client may choose it.
const hostile = "\x1b]0;owned\x07\x1b[2J\u202e<script>\r\n=1+1"

// heavy is a system with some keys: flags name it.
func heavy(t *testing.T) (flags []string) {
	t.Helper()
	aggregator := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/top" {
			fmt.Fprintf(w, `{"rule":"per-ip","key":"203.0.113.7","partition":3,"where":"hot","at":"2026-03-03T08:00:07Z","limits":[{"limit":"10/min","count":11,"clears":null}]}`)
			return
		}
		var keys []string
		for i := range 60 {
			keys = append(keys, fmt.Sprintf(`{"rule":"per-ip","key":"192.0.2.%d","limit":"100/min","count":%d,"share":%v}`, i, 60-i, float64(60-i)/100))
		}
		keys = append(keys, fmt.Sprintf(`{"rule":"by-agent","key":%q,"limit":"1000/min","count":900,"share":0.05}`, hostile), `{"rule":"per-ip","key":"203.0.113.7","limit":"10/min","count":11,"share":1.1}`)
		text := strings.ReplaceAll("["+strings.Join(keys, ",")+"]", `\x1b`, `\u001b`)
		io.WriteString(w, strings.ReplaceAll(text, `\a`, `\u0007`))
	}))
	t.Cleanup(aggregator.Close)
	enforcer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/v1/find" && r.URL.Query().Get("key") == "203.0.113.7":
			io.WriteString(w, `{"entries":[{"v":1,"id":"x","rule":"per-ip","key":"203.0.113.7","fields":{"ip":"203.0.113.7"},"from":"2026-03-03T08:00:00Z","until":"2036-03-03T08:10:00Z",
				"decided":"2026-03-03T08:00:00Z","limit":"10/min","count":11,"level":1,"mode":"enforce","source":"verdict","by":"weir","why":""}]}`)
		case r.URL.Path == "/v1/find":
			io.WriteString(w, `{"entries":[]}`)
		case r.URL.Path == "/v1/top":
			io.WriteString(w, "[]")
		default:
			w.WriteHeader(http.StatusNotFound)
			io.WriteString(w, `{"detail":"there is nothing"}`)
		}
	}))
	t.Cleanup(enforcer.Close)
	return []string{"--aggregator", aggregator.URL, "--url", enforcer.URL, "--set", "rules=[{name: per-ip, key: ip, limits: [10/min]}]"}
}

func has(texts ...string) func(string) bool {
	return func(screen string) bool {
		for _, text := range texts {
			if !strings.Contains(screen, text) {
				return false
			}
		}
		return true
	}
}

// rowsOf returns the first columns of the rows on the screen.
func rowsOf(screen string) (rows []string) {
	for line := range strings.Lines(screen) {
		if strings.Contains(line, "per-ip  ") || strings.Contains(line, "by-agent  ") {
			rows = append(rows, strings.TrimSpace(line))
		}
	}
	return rows
}

// The keys are shown in place: sorted, filtered and opened by keys. Texts of clients do nothing to the terminal. It is given
// back at the end.
func TestTopOnATerminal(t *testing.T) {
	t.Parallel()
	tty, p := onTerminal(t, 80, 24, append([]string{"top"}, heavy(t)...)...)
	tty.Await("the keys", func(screen string) bool {
		return has("weir top  ", "62 keys with hits", "RULE", "> per-ip", "q: leave")(screen) && strings.HasPrefix(rowsOf(screen)[0], "> per-ip  203.0.113.7")
	})
	if first := rowsOf(tty.Screen())[0]; !strings.Contains(first, "110%") || !strings.HasSuffix(first, "yes") {
		t.Errorf("the first row is %q", first)
	}
	if lines := strings.Count(tty.Screen(), "\n") + 1; lines != 24 {
		t.Errorf("%d lines", lines)
	}

	tty.Type("s") // by hits
	tty.Await("the order by hits", func(screen string) bool {
		return has("(by hits)")(screen) && strings.HasPrefix(rowsOf(screen)[0], `> by-agent  \x1b]0;owned\a\x1b[2J\u202e<script>`)
	})
	if strings.Contains(tty.Raw(), "owned\x07") || strings.Contains(tty.Raw(), "\x1b[2J") || strings.Contains(tty.Raw(), "\u202e") {
		t.Errorf("the terminal gets what a client sent:\n%q", tty.Raw())
	}
	tty.Type("/192.0.2.1\r")
	tty.Await("the filter", func(screen string) bool { return has(`11 of 62 with "192.0.2.1"`)(screen) && len(rowsOf(screen)) == 11 })
	tty.Type("\x1b")
	tty.Await("no filter", func(screen string) bool { return len(rowsOf(screen)) > 11 })

	tty.Type("sss\x1b[B\x1b[A") // by use again; down and up
	tty.Await("the order by use", has("(by use)", "> per-ip  203.0.113.7"))
	tty.Type("\r")
	tty.Await("the open key", has("On the list: 203.0.113.7 by per-ip, until", " hits broke 10/min", "Esc: back"))
	if strings.Contains(tty.Screen(), "2036-03-03T08:10:00Z") || !strings.Contains(tty.Screen(), "3 Mar 2036 09:10") {
		t.Errorf("times are not local:\n%s", tty.Screen())
	}
	tty.Resize(40, 8)
	tty.Type("q")
	tty.Await("the rows on a small screen", func(screen string) bool {
		return has("203.0.113.7")(screen) && strings.Count(screen, "\n")+1 == 8
	})
	tty.Type("q")
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
	tty.Await("the terminal as it was", func(string) bool { return tty.Restored() == "" })
	if left := tty.Screen(); left != "" {
		t.Errorf("it leaves %q", left)
	}
}

// However the view ends, the terminal is as it was.
func TestTheTerminalIsGivenBack(t *testing.T) {
	t.Parallel()
	flags := heavy(t)
	for name, end := range map[string]func(*tty.Terminal, *os.Process){
		"Ctrl-C":  func(tty *tty.Terminal, _ *os.Process) { tty.Type("\x03") },
		"SIGTERM": func(_ *tty.Terminal, p *os.Process) { p.Signal(syscall.SIGTERM) },
		"SIGHUP":  func(_ *tty.Terminal, p *os.Process) { p.Signal(syscall.SIGHUP) },
		"SIGQUIT": func(_ *tty.Terminal, p *os.Process) { p.Signal(syscall.SIGQUIT) },
	} {
		tty, p := onTerminal(t, 80, 24, append([]string{"top"}, flags...)...)
		tty.Await(name+": the keys", has("203.0.113.7"))
		if tty.Restored() == "" {
			t.Errorf("%s: nothing was changed before", name)
		}
		end(tty, p.Process)
		if err := p.Wait(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		tty.Await(name+": the terminal as it was", func(string) bool { return tty.Restored() == "" })
	}
}

// Without a terminal that draws, or with --plain, top writes its lines once; NO_COLOR has no colours.
func TestTopWithoutAView(t *testing.T) {
	t.Parallel()
	flags := heavy(t)
	for _, one := range [][]string{{"TERM=dumb", "top"}, {"TERM=", "top"}, {"TERM=xterm", "top", "--plain"}, {"TERM=xterm", "top", "--json"}} {
		program, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		p := exec.Command(program)
		p.Args = append(append([]string{"weir"}, one[1:]...), flags...)
		p.Env = append(os.Environ(), one[0], "HOME="+t.TempDir())
		tty := tty.Start(t, p, 80, 24)
		if err := p.Wait(); err != nil {
			t.Errorf("%v: %v", one, err)
		}
		tty.Await("the last key", has("192.0.2.18"))
		if strings.Contains(tty.Raw(), "\x1b") {
			t.Errorf("%v: %q", one, tty.Raw())
		}
	}
}

func TestAViewWithoutColors(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	tty, _ := onTerminal(t, 80, 24, append([]string{"top"}, heavy(t)...)...)
	tty.Await("the keys", has("203.0.113.7"))
	if raw := tty.Raw(); strings.Contains(raw, "\x1b[3") || strings.Contains(raw, "\x1b[7m") {
		t.Errorf("%q", raw)
	}
}
