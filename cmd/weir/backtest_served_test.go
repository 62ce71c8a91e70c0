package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	js "github.com/nats-io/nats.go/jetstream"
	goredis "github.com/redis/go-redis/v9"

	"weir/cmd/internal/exit"
	"weir/internal/store/redis/redistest"
	"weir/test/journals"
	"weir/test/locked"
	"weir/test/nats"
	"weir/test/rabbit"
	"weir/test/s3"
	"weir/test/wait"
)

// What another server keeps is backtested as the file with the same lines is.
func TestBacktestOfOtherServers(t *testing.T) {
	text, err := os.ReadFile("../../examples/access.log")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		lines = append(lines, strings.TrimSuffix(line, "\n"))
	}
	report := func(t *testing.T, args ...string) (requests int, rules string) {
		t.Helper()
		out := toldOf(append([]string{"backtest", "--json"}, args...))
		var r struct {
			Requests int             `json:"requests"`
			Rules    json.RawMessage `json:"rules"`
		}
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return r.Requests, string(r.Rules)
	}
	requests, rules := report(t, "--limit", "10/min", "--limit", "100/hour", "../../examples/access.log")
	same := func(t *testing.T, args ...string) {
		t.Helper()
		if got, of := report(t, args...); got != requests || of != rules {
			t.Errorf("%s: %d requests, and the file has %d: %s, not %s", args, got, requests, of, rules)
		}
	}
	check := func(t *testing.T, source, address string) {
		t.Helper()
		same(t, "--limit", "10/min", "--limit", "100/hour", address)
		file := filepath.Join(t.TempDir(), "weir.yaml")
		config := "rules: [{name: limit, key: ip, limits: [10/min, 100/hour]}]\ncollector: {sources: [{name: web, format: combined, " + source + "}]}\n"
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, _ := report(t, "--config", file, "source:web"); got != requests {
			t.Errorf("source:web has %d requests, not %d", got, requests)
		}
		if got, _ := report(t, "--config", file, "source:web?from="+time.Now().Add(time.Hour).UTC().Format(time.RFC3339)); got != 0 {
			t.Errorf("%d requests after now", got)
		}
	}

	t.Run("s3", func(t *testing.T) {
		server := s3.Start(t)
		t.Setenv("AWS_ACCESS_KEY_ID", s3.User)
		t.Setenv("AWS_SECRET_ACCESS_KEY", s3.Secret)
		t.Setenv("AWS_REGION", s3.Region)
		t.Setenv("AWS_ENDPOINT_URL", server.Endpoint)
		t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
		for i := range 7 {
			part := lines[i*len(lines)/7 : (i+1)*len(lines)/7]
			server.Put(fmt.Sprintf("web/%d.log", i), []byte(strings.Join(part, "\n")))
		}
		check(t, `s3: "s3://logs/web/"`, "s3://logs/web/")
		server.Put("web/8.zip", []byte("PK\x03\x04 and so on"))
		var stderr locked.Buffer
		if code := run([]string{"weir", "backtest", "--limit", "10/min", "s3://logs/web/"}, nil, &locked.Buffer{}, &stderr); code != exit.Failed || !strings.Contains(stderr.String(), "zip is not read") {
			t.Errorf("exit code %d: %s", code, stderr.String())
		}
	})

	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t)
		for part := range slices.Chunk(lines, 1000) {
			if _, err := server.Client.Pipelined(t.Context(), func(p goredis.Pipeliner) error {
				for _, line := range part {
					p.XAdd(t.Context(), &goredis.XAddArgs{Stream: "logs", Values: []string{"line", line}})
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		check(t, `redis_stream: {url: "redis://`+server.Addr+`", keys: [logs]}`, "redis://"+server.Addr+"/logs")
	})

	t.Run("nats", func(t *testing.T) {
		t.Parallel()
		server := nats.Start(t, nats.Synced)
		if _, err := server.Client().CreateStream(t.Context(), js.StreamConfig{Name: "logs", Subjects: []string{"logs.>"}}); err != nil {
			t.Fatal(err)
		}
		server.Add("logs.a", lines)
		check(t, `nats: {url: "`+server.URL+`", stream: logs}`, server.URL+"/logs")
	})

	t.Run("amqp", func(t *testing.T) {
		t.Parallel()
		server := rabbit.Start(t, "")
		server.Make("logs", "stream")
		server.Add("logs", lines)
		check(t, `amqp: {url: "amqp://`+server.Addr+`", queue: logs}`, "amqp://"+server.Addr+"/logs")
	})

	t.Run("journald", func(t *testing.T) {
		t.Parallel()
		folder := t.TempDir()
		writer := journals.Start(t, folder, "system")
		writer.Add(lines)
		file := filepath.Join(t.TempDir(), "weir.yaml")
		config := fmt.Sprintf("rules: [{name: limit, key: ip, limits: [10/min, 100/hour]}]\ncollector: {sources: [{name: web, format: combined, journald: {folder: %q}}]}\n", folder)
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		wait.Until(t, "the journal to have all entries", func() bool {
			got, _ := report(t, "--config", file, "source:web")
			return got == requests
		})
	})

	t.Run("wrong", func(t *testing.T) {
		t.Parallel()
		for want, args := range map[string][]string{
			"there is no weir.yaml":    {"source:web"},
			"names no log":             {"nats://127.0.0.1:1"},
			"contains a login":         {"redis://user:secret@127.0.0.1:1/logs"},
			"till is not known":        {"s3://logs/web/?till=1h"},
			"is not a place in S3":     {"s3://"},
			"yesterday is not a time":  {"journald:nginx?from=yesterday"},
			"connection refused":       {"redis://127.0.0.1:1/logs"},
			"no servers available":     {"nats://127.0.0.1:1/logs"},
			"127.0.0.1:1: connect: co": {"amqp://127.0.0.1:1/logs"},
		} {
			var stderr locked.Buffer
			code := run(append([]string{"weir", "backtest", "--limit", "10/min"}, args...), bytes.NewReader(nil), &locked.Buffer{}, &stderr)
			if code == exit.Done || !strings.Contains(stderr.String(), want) || strings.Contains(stderr.String(), "secret") {
				t.Errorf("%q: exit code %d: %s", args, code, stderr.String())
			}
		}
	})
}
