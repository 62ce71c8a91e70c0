package main

import (
	"strings"
	"testing"
	"time"

	"weir/cmd/internal/exit"
	"weir/test/locked"
	"weir/test/running"
)

// idleFolder returns a data folder whose process has ended, and the flags that name it.
func idleFolder(t *testing.T) (folder string, flags []string) {
	t.Helper()
	folder = running.Folder(t)
	b, err := running.StartTopics(folder, true)
	if err != nil {
		t.Fatal(err)
	}
	err = running.FillSamples(b.Log)
	b.Close()
	if err != nil {
		t.Fatal(err)
	}
	return folder, []string{"--set", "data=" + folder, "--set", "rules=[{name: r, key: ip, limits: [1/s]}]",
		"--set", "collector.listen=127.0.0.1:1", "--set", "aggregator.listen=127.0.0.1:1", "--set", "enforcer.admin=127.0.0.1:1"}
}

// When nothing runs, nothing has caught up, and the exit code is 3.
func TestNothingRuns(t *testing.T) {
	t.Parallel()
	_, flags := idleFolder(t)
	runs(t, exit.NotMet, "Nothing runs: 4 records wait for weir.aggregator.\n", append([]string{"status"}, flags...)...)
	runs(t, exit.NotMet, `"nothing_runs":true`, append([]string{"status", "--json", "--wait", "1s"}, flags...)...)
}

// While one process runs all parts, those that do not answer yet have not caught up: it is starting.
func TestStatusOfAProcessThatStarts(t *testing.T) {
	t.Parallel()
	folder := running.Folder(t)
	b, err := running.StartTopics(folder, true)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	part := running.NewPart(t, `{"caught_up": true}`)
	flags := []string{"--set", "data=" + folder, "--set", "enforcer.admin=127.0.0.1:1", "--collector", part.URL, "--aggregator", part.URL}
	runs(t, exit.NotMet, "Not caught up: the enforcer does not answer yet.\n", append([]string{"status", "--wait", "1s"}, flags...)...)
	runs(t, exit.Done, "Healthy: all have caught up.\n", append([]string{"status", "--wait", "1m", "--enforcer", part.URL}, flags...)...)
}

// While status waits for something to run, it leaves the folder of the topics to a process that starts on it.
func TestStatusLeavesTheFolderAlone(t *testing.T) {
	t.Parallel()
	folder, flags := idleFolder(t)
	var stdout, stderr locked.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- run(append([]string{"weir", "status", "--wait", "20s"}, flags...), strings.NewReader(""), &stdout, &stderr)
	}()
	for range 30 {
		b, err := running.StartTopics(folder, false)
		if err != nil {
			t.Fatal("while status waits: ", err)
		}
		b.Close()
		time.Sleep(20 * time.Millisecond) // status looks several times meanwhile
	}
	b, err := running.StartTopics(folder, true)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if code := <-ended; code != exit.NotMet || !strings.Contains(stdout.String()+stderr.String(), "weir.aggregator") {
		t.Errorf("exit code %d\n%s%s", code, stdout.String(), stderr.String())
	}
}

// TestNothingHasRun: without any topics nothing runs either.
func TestNothingHasRun(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	flags := []string{"--set", "data=" + folder, "--set", "collector.listen=127.0.0.1:1", "--set", "aggregator.listen=127.0.0.1:1", "--set", "enforcer.admin=127.0.0.1:1"}
	runs(t, exit.NotMet, "Nothing runs.\n", append([]string{"status"}, flags...)...)
	runs(t, exit.NotMet, `"nothing_runs":true`, append([]string{"status", "--json", "--wait", "1s"}, flags...)...)
}
