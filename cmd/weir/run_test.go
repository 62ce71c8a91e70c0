package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/demo"
	"weir/test/port"
	"weir/test/real"
)

// apart returns flags that make a run listen on addresses of its own.
func apart(t *testing.T) (enforcer string, flags []string) {
	t.Helper()
	enforcer = port.Reserve(t, "127.0.0.1")
	for _, setting := range []string{"collector.listen", "aggregator.listen", "enforcer.admin"} {
		flags = append(flags, "--set", setting+"="+port.Reserve(t, "127.0.0.1"))
	}
	return enforcer, append(flags, "--set", "enforcer.listen="+enforcer)
}

// answers returns the status of the enforcer's check of a client, 0 for no answer.
func answers(enforcer, client string) int {
	request, err := http.NewRequest(http.MethodGet, "http://"+enforcer+"/v1/check", nil)
	if err != nil {
		return 0
	}
	request.Header.Set("X-Forwarded-For", client)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0
	}
	answer.Body.Close()
	return answer.StatusCode
}

func awaitAnswer(t *testing.T, p process, enforcer, client string, want int) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); answers(enforcer, client) != want; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s never gets %d:\n%s", client, want, p.err)
		}
	}
}

func TestTheDemonstrationFindsItsAbusers(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	enforcer, flags := apart(t)
	p := start(t, append([]string{"run", "--demo"}, flags...)...)
	for _, address := range demo.Abusers() {
		awaitAnswer(t, p, enforcer, address.String(), http.StatusTooManyRequests)
	}
	if got := answers(enforcer, "192.0.2.1"); got != http.StatusOK {
		t.Errorf("a visitor gets %d", got)
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var told bytes.Buffer
	told.ReadFrom(p.out)
	if err := p.Wait(); err != nil {
		t.Error(err, p.err)
	}
	for _, want := range []string{"reads      demo: combined", "rule       per-client: 30/10s 100/min by ip, enforce", "enforcer   http://" + enforcer, "curl -i -H 'X-Forwarded-For: 203.0.113.66'"} {
		if !strings.Contains(told.String(), want) {
			t.Errorf("%q is not in\n%s", want, told.String())
		}
	}
	if left, _ := os.ReadDir(os.TempDir()); len(left) > 0 {
		t.Error("it leaves", left)
	}
}

// A run that is killed goes on where it was: the hits before and after count together, and none of them twice.
func TestARunThatIsKilledGoesOn(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	enforcer, flags := apart(t)
	log := filepath.Join(folder, "access.log")
	config := "data: data\nkafka: {hits: {partitions: 2, retention: 1h}}\nrules: [{name: per-ip, key: ip, limits: [10/hour]}]\n" +
		"client: {trusted_proxies: [127.0.0.1]}\ncollector: {sources: [{file: " + log + ", format: combined}]}\n"
	if err := os.WriteFile(filepath.Join(folder, "weir.yaml"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	write := func(client string, lines int) {
		file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		for range lines {
			fmt.Fprintf(file, "%s - - [%s] \"GET / HTTP/1.1\" 200 2 \"-\" \"-\"\n", client, time.Now().UTC().Format("02/Jan/2006:15:04:05 -0700"))
		}
	}
	arguments := append([]string{"run", "--config", filepath.Join(folder, "weir.yaml")}, flags...)
	const breaks, keeps = "203.0.113.1", "203.0.113.2"
	for round := range 5 { // two hits of each client in a round: ten before the last one
		p := start(t, arguments...)
		marker := fmt.Sprintf("198.51.100.%d", round)
		write(breaks, 2)
		write(keeps, 2)
		write(marker, 11)
		awaitAnswer(t, p, enforcer, marker, http.StatusTooManyRequests)
		for _, client := range []string{breaks, keeps} {
			if got := answers(enforcer, client); got != http.StatusOK {
				t.Fatalf("after %d hits %s gets %d: some count twice", 2*round+2, client, got)
			}
		}
		p.Process.Kill()
		p.Wait()
	}
	p := start(t, arguments...)
	write(breaks, 1)
	awaitAnswer(t, p, enforcer, breaks, http.StatusTooManyRequests)
	awaitAnswer(t, p, enforcer, "198.51.100.0", http.StatusTooManyRequests)
	if got := answers(enforcer, keeps); got != http.StatusOK {
		t.Errorf("who keeps the limit gets %d", got)
	}
	p.Process.Signal(syscall.SIGTERM)
	if err := p.Wait(); err != nil {
		t.Error(err, p.err)
	}
}

func TestARunWithoutLogsSaysWhatToDo(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, err := os.Stat("/etc/weir/weir.yaml"); err == nil {
		real.Missing(t, "a machine without /etc/weir/weir.yaml is missing")
	}
	c := newRun([]string{filepath.Join(t.TempDir(), "*.log")})
	c.SetArgs([]string{})
	c.SilenceErrors, c.SilenceUsage = true, true
	var errs bytes.Buffer
	c.SetErr(&errs)
	if code := exit.Report(c.ExecuteContext(t.Context()), &errs); code != exit.WrongUse || !strings.Contains(errs.String(), "weir run --demo") {
		t.Error(code, errs.String())
	}
}
