package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/cmd/internal/config"
	"weir/cmd/internal/daemon"
	"weir/cmd/internal/exit"
	"weir/internal/kafka"
	"weir/internal/kafka/kafkatest"
	"weir/internal/topic"
	"weir/pkg/blocklist"
	"weir/pkg/hit"
	"weir/test/locked"
	"weir/test/running"
	"weir/test/wait"
)

// On a real Kafka, with the aggregator and the enforcer that people run: a verdict and manual entries are listed, watched
// and removed, and weir history shows them.
func TestByHandOnKafka(t *testing.T) {
	t.Parallel()
	folder := running.Folder(t)
	brokers := kafkatest.Shared(t).Addresses()
	prefix := fmt.Sprintf("h%d.", time.Now().UnixNano())
	file := filepath.Join(folder, "weir.yaml")
	text := fmt.Sprintf(`data: %s
rules: [{name: per-ip, key: ip, limits: [3/min]}]
kafka: {brokers: [%s], prefix: %q, hits: {partitions: 2}, events: {partitions: 2}}
aggregator: {listen: ""}
enforcer: {listen: "", admin: ""}
log: {level: warn}
`, folder, strings.Join(brokers, ", "), prefix)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	runPart(t, daemon.Aggregator, file)
	runPart(t, daemon.Enforcer, file)
	with := func(args ...string) []string { return append(args, "--config", file) }
	wait.Until(t, "whole", func() bool { return showsBy(with("list")) == exit.Done })

	watched := watchLive(t, with("watch", "--json"))
	hitNow(t, brokers, prefix+"hits", "2001:db8::/64", 4)
	watched.await(t, `"key":"2001:db8::/64"`)
	runs(t, exit.Done, "per-ip  2001:db8::/64", with("list", "2001:db8::5")...)
	runs(t, exit.Done, "user:eve is blocked until", with("block", "user:eve", "--why", "a try", "--for", "1h")...)
	watched.await(t, `"key":"eve"`)
	runs(t, exit.Done, "Taken off: 2001:db8::/64 by per-ip", with("unblock", "2001:db8::5", "--why", "let them")...)
	runs(t, exit.Done, "Taken off: user:eve by manual", with("unblock", "user:eve")...)
	watched.await(t, `"pardons"`)
	runs(t, exit.NotMet, "", with("list", "2001:db8::5")...)
	for _, want := range []string{"  blocked  ", "  unblock ", "  lifted  ", "4 hits broke 3/min", ": let them"} {
		wait.Until(t, "told: "+want, func() bool { return strings.Contains(toldOf(with("history", "2001:db8::5")), want) })
	}
	wait.Until(t, "told: it was lifted", func() bool {
		return strings.Contains(toldOf(with("history", "user:eve", "--json")), `"event":"lifted"`)
	})
	wait.Until(t, "Kafka has an order before it is answered", func() bool { // the enforcer waits for it half a second
		return strings.Contains(toldOf(with("block", "user:eve", "--why", "once more")), "The topics have it, so all other enforcers apply it too.")
	})
}

// runPart runs a part as its process does until the test ends.
func runPart(t *testing.T, part daemon.Part, file string) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan int, 1)
	var stderr locked.Buffer
	go func() { ended <- daemon.Run(ctx, part, config.Options{File: file}, &stderr) }()
	t.Cleanup(func() {
		cancel()
		if code := <-ended; code != exit.Done || t.Failed() {
			t.Errorf("%s: exit code %d: %s", part.Name, code, stderr.String())
		}
	})
}

func showsBy(args []string) int {
	return run(append([]string{"weir"}, args...), strings.NewReader(""), &locked.Buffer{}, &locked.Buffer{})
}

func toldOf(args []string) string {
	var stdout locked.Buffer
	run(append([]string{"weir"}, args...), strings.NewReader(""), &stdout, &locked.Buffer{})
	return stdout.String()
}

// hitNow sends hits of an address as a collector does.
func hitNow(t *testing.T, brokers []string, name, key string, hits int64) {
	t.Helper()
	now := time.Now().UnixMilli()
	w := hit.NewWriter()
	w.Reset([]string{"per-ip"})
	w.Add(0, []byte(key), now, hits)
	batch, err := w.Append(nil, hit.Header{Source: "test", From: 0, To: 1, Clock: now, Fingerprint: "f00d"})
	if err != nil {
		t.Fatal(err)
	}
	client := kafkatest.Client(t, kafka.Config{Brokers: brokers, Topics: []string{name}})
	log := &running.Topic{Client: client, Name: name, Partitions: 2}
	if err := log.Put(running.Within(t, 2*time.Minute), topic.Message{Partition: hit.Partition("per-ip", []byte(key), 2), Value: batch}); err != nil {
		t.Fatal(err)
	}
}

// A watchedLive is weir watch while it runs.
type watchedLive struct{ stdout, stderr locked.Buffer }

// watchLive returns when the command has read the list. An interrupt at the test's end is the command's usual end.
func watchLive(t *testing.T, args []string) *watchedLive {
	w := &watchedLive{}
	root := newRoot(new(bool))
	root.SetArgs(args)
	root.SetOut(&w.stdout)
	root.SetErr(&w.stderr)
	ctx, interrupt := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	t.Cleanup(func() {
		interrupt()
		if err := <-ended; err != nil {
			t.Errorf("watch: %v, %s", err, w.stderr.String())
		}
	})
	wait.Text(t, &w.stderr, "changes from now on:")
	return w
}

func (w *watchedLive) await(t *testing.T, piece string) {
	t.Helper()
	wait.Text(t, &w.stdout, piece)
	for line := range strings.Lines(w.stdout.String()) {
		if strings.HasSuffix(line, "\n") && json.Unmarshal([]byte(line), &blocklist.Entry{}) != nil {
			t.Errorf("no entry: %s", line)
		}
	}
}
