package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/cmd/internal/exit"
	"weir/pkg/attempts"
	"weir/test/port"
	"weir/test/running"
)

// attemptsIn writes a configuration with these rules and further lines, and returns the folder and the enforcer's address.
func attemptsIn(t *testing.T, rules, more string) (folder, enforcer string) {
	t.Helper()
	folder, enforcer = running.Folder(t), port.Reserve(t, "127.0.0.1")
	text := fmt.Sprintf("data: data\nenforcer: {listen: %q, admin: %q}\ncollector: {listen: %q, sources: [{file: access.log, format: combined}]}\naggregator: {listen: %q}\nrules: %s\n%s", enforcer, port.Reserve(t, "127.0.0.1"),
		port.Reserve(t, "127.0.0.1"), port.Reserve(t, "127.0.0.1"), rules, more)
	if err := os.WriteFile(filepath.Join(folder, "weir.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return folder, enforcer
}

// recordsOf returns the records that weir cat attempts prints.
func recordsOf(t *testing.T, config string) (all []attempts.Record) {
	t.Helper()
	p := start(t, "cat", "attempts", "--json", "--config", config)
	var out bytes.Buffer
	_, _ = out.ReadFrom(p.out)
	if err := p.Wait(); err != nil {
		t.Fatalf("%v: %s", err, p.err)
	}
	for line := range bytes.Lines(out.Bytes()) {
		var r attempts.Record
		if err := attempts.Parse(bytes.TrimSpace(line), &r); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		all = append(all, r)
	}
	return all
}

// A process without Kafka keeps the attempts at inline rules, also over a restart.
func TestARunKeepsAttempts(t *testing.T) {
	folder, enforcer := attemptsIn(t, "[{name: quota, key: ip, limits: [2/min], inline: true}]", "inline: {history: 1h}\n")
	config := filepath.Join(folder, "weir.yaml")
	for round := range 2 {
		p := start(t, "run", "--config", config)
		awaitAnswer(t, p, enforcer, "203.0.113.1", 200)
		for range 3 {
			answers(enforcer, "203.0.113.9")
		}
		// Those before are there while the process runs.
		for deadline := time.Now().Add(time.Minute); len(recordsOf(t, config)) < 4*(round+1); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d records\n%s", len(recordsOf(t, config)), p.err)
			}
		}
		if err := p.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		_, _ = p.out.WriteTo(&bytes.Buffer{})
		if err := p.Wait(); err != nil {
			t.Fatal(err, p.err)
		}
	}

	var shown []string
	from := map[string]bool{}
	for _, r := range recordsOf(t, config) {
		from[r.From] = true
		shown = append(shown, fmt.Sprintf("%s %s", r.Takes[0].Key, r.Takes[0].Verdict))
	}
	round := "203.0.113.1 admitted, 203.0.113.9 admitted, 203.0.113.9 admitted, 203.0.113.9 refused"
	if got := strings.Join(shown, ", "); got != round+", "+round || len(from) != 2 {
		t.Errorf("%s, from %d", got, len(from))
	}
	runs(t, exit.Done, "  refused  quota 203.0.113.9: refused, 0 of 2/min remain", "cat", "attempts", "--config", config)
}
