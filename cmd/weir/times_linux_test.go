package main

import (
	"os/exec"
	"regexp"
	"testing"

	"weir/test/running"
	"weir/test/tty"
)

// In a terminal times are those of its zone, which is named; none is in UTC.
func TestTimesOnATerminal(t *testing.T) {
	_, flags := idleFolder(t)
	part := running.NewPart(t, `{"caught_up":true,"rules":"x","partitions":[{"partition":0,"hot":1,"reached":"2026-03-03T08:00:00Z","lag":0,"lag_unknown_since":"2026-03-03T07:00:00Z"}],
		"sources":[{"source":"site","kind":"file","logs":[{"log":"a.log","lag":0,"newest":"2026-03-03T08:00:00Z"}]}],
		"notify":[{"receiver":"chat","kind":"slack","error":"refused","since":"2026-03-03T08:00:00Z"}]}`)
	utc := regexp.MustCompile(`\d{4}-\d\d-\d\dT|\dZ`)
	for name, one := range map[string]struct {
		args []string
		want []string
	}{
		"cat hits":      {[]string{"cat", "hits"}, []string{"Times are of CE", "2026-03-03 09:00:0"}},
		"cat blocklist": {[]string{"cat", "blocklist"}, []string{"Times are of CE"}},
		"status":        {[]string{"status", "--collector", part.URL, "--aggregator", part.URL, "--enforcer", part.URL}, []string{"(CE"}},
	} {
		var tty *tty.Terminal
		var p *exec.Cmd
		tty, p = onTerminal(t, 200, 50, append(one.args, flags...)...)
		_ = p.Wait() // status of a folder without a process is a failure
		tty.Await(name, has(one.want...))
		if text := tty.Past() + tty.Screen(); utc.MatchString(text) {
			t.Errorf("%s has times in UTC:\n%s", name, text)
		}
	}
}
