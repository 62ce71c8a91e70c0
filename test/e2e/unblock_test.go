package e2e

import (
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/test/port"
	"weir/test/real"
	"weir/test/wait"
)

// An unblock command takes effect at every enforcer at once, though ten minutes of the client's hits wait to be
// counted, and still holds after these are counted. A client that then continues is blocked again.
func TestUnblockedWhileHitsWait(t *testing.T) {
	real.Long(t)
	f := newFleet(t, "rules: [{name: per-ip, key: ip, limits: [10/min], block: {for: 1h}}]\n", apart(t))
	other, otherAdmin := port.Reserve(t, "127.0.0.1"), port.Reserve(t, "127.0.0.1")
	f.start(build(t, "collector"))
	f.start(build(t, "enforcer"))
	second := &fleet{t: t, folder: f.folder, enforcer: other}
	f.start(build(t, "enforcer"), "--set", "enforcer.listen="+other, "--set", "enforcer.admin="+otherAdmin, "--set", "data=other")
	aggregator := f.start(build(t, "aggregator"))
	f.ready()
	const client = "203.0.113.7"
	f.log(client, 12, time.Now().Add(-11*time.Minute))
	for _, at := range []*fleet{f, second} {
		wait.Until(t, "refused", func() bool { return at.checks(client) == http.StatusTooManyRequests })
	}

	aggregator.end(t, syscall.SIGTERM)
	for minute := range 10 {
		f.log(client, 100, time.Now().Add(time.Duration(minute-10)*time.Minute))
	}
	said := f.tool("unblock", client, "--why", "a test")
	if !strings.Contains(said, client) {
		t.Error(said)
	}
	ordered := time.Now()
	for _, at := range []*fleet{f, second} {
		wait.Until(t, "let in", func() bool { return at.checks(client) == http.StatusOK })
	}
	t.Logf("let in everywhere after %v", time.Since(ordered))

	f.start(build(t, "aggregator"))
	const marker = "203.0.113.8" // counted after all waiting hits of its partition
	f.tool("status", "--wait", "2m")
	f.log(marker, 12, time.Now())
	wait.Until(t, "the marker was refused", func() bool { return f.checks(marker) == http.StatusTooManyRequests })
	for _, at := range []*fleet{f, second} {
		if got := at.checks(client); got != http.StatusOK {
			t.Errorf("when its hits are counted, %s gets %d", client, got)
		}
	}
	f.log(client, 12, time.Now())
	for _, at := range []*fleet{f, second} {
		wait.Until(t, "refused again", func() bool { return at.checks(client) == http.StatusTooManyRequests })
	}
}

// log writes lines of a client to the log, one second's number.
func (f *fleet) log(client string, lines int, at time.Time) {
	f.t.Helper()
	var b []byte
	for range lines {
		b = logLine(b, client, at)
	}
	f.append("access.log", b)
}

// tool runs weir and returns its output.
func (f *fleet) tool(arguments ...string) string {
	f.t.Helper()
	command := exec.Command(build(f.t, "weir"), append(arguments, "--config", f.path("weir.yaml"))...)
	said, err := command.CombinedOutput()
	if err != nil {
		f.t.Fatalf("weir %s: %v\n%s", strings.Join(arguments, " "), err, said)
	}
	return string(said)
}
