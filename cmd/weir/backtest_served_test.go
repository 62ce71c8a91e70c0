package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	js "github.com/nats-io/nats.go/jetstream"
	goredis "github.com/redis/go-redis/v9"

	"weir/cmd/internal/exit"
	"weir/internal/store/redis/redistest"
	"weir/test/hdfs"
	"weir/test/journals"
	"weir/test/kinesis"
	"weir/test/locked"
	"weir/test/moto"
	"weir/test/nats"
	"weir/test/rabbit"
	"weir/test/s3"
	"weir/test/wait"
)

// A backtest of lines that another server keeps gives the same report as one of a file with these lines.
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
		var stdout, stderr locked.Buffer
		run(append([]string{"weir", "backtest", "--json"}, args...), strings.NewReader(""), &stdout, &stderr)
		var r struct {
			Requests int             `json:"requests"`
			Rules    json.RawMessage `json:"rules"`
		}
		if err := json.Unmarshal([]byte(stdout.String()), &r); err != nil {
			t.Fatalf("%v: %s%s", err, stdout.String(), stderr.String())
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
	const to = "2026-03-03T12:00:00Z"
	early, all := report(t, "--limit", "10/min", before(t, lines, to))
	if early == 0 || early == requests {
		t.Fatalf("%d of %d requests are before %s", early, requests, to)
	}
	check := func(t *testing.T, source, address string) {
		t.Helper()
		same(t, "--limit", "10/min", "--limit", "100/hour", address)
		if got, of := report(t, "--limit", "10/min", address+"?to="+to); got != early || of != all {
			t.Errorf("%s has %d requests before %s, and the file %d: %s, not %s", address, got, to, early, of, all)
		}
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

	t.Run("kinesis", func(t *testing.T) {
		endpoint := moto.Start(t, "30").Endpoint
		t.Setenv("AWS_ACCESS_KEY_ID", kinesis.User)
		t.Setenv("AWS_SECRET_ACCESS_KEY", kinesis.Secret)
		t.Setenv("AWS_ENDPOINT_URL", endpoint)
		t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
		server := kinesis.At(t, endpoint)
		server.Make(3)
		server.Add(lines)
		check(t, "kinesis: {stream: logs, region: "+kinesis.Region+"}", "kinesis://"+kinesis.Region+"/logs")
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

	t.Run("hdfs", func(t *testing.T) {
		t.Parallel()
		server := hdfs.Start(t)
		writer := server.NewWriter()
		server.Make("/logs/web")
		for i := range 7 {
			part := lines[i*len(lines)/7 : (i+1)*len(lines)/7]
			if i == 6 { // it is still being written
				writer.Create("/logs/web/6.log")
				writer.Write(part)
				continue
			}
			server.Put(fmt.Sprintf("/logs/web/%d.log", i), []byte(strings.Join(part, "\n")))
		}
		check(t, `hdfs: {url: "`+server.URL+`", path: /logs/web/, open: true}`, "hdfs://"+strings.TrimPrefix(server.URL, "http://")+"/logs/web/")

		// The data node has lost the last block for as long as HDFS has not closed the file.
		writer.Kill()
		server.RestartData(func() {})
		var stdout, stderr locked.Buffer
		run([]string{"weir", "backtest", "--limit", "10/min", "hdfs://" + strings.TrimPrefix(server.URL, "http://") + "/logs/web/"}, strings.NewReader(""), &stdout, &stderr)
		if said := stderr.String(); !strings.Contains(said, "/logs/web/6.log: it is being written, and it cannot be read now") {
			t.Errorf("the backtest has nothing of the file that it could not read: %s%s", said, stdout.String())
		}
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

		if got, of := report(t, "--limit", "10/min", "--config", file, "source:web?to="+to); got != early || of != all {
			t.Errorf("the journal has %d requests before %s, and the file %d: %s, not %s", got, to, early, of, all)
		}

		// With fields, entries are records, and only selects some.
		for only, want := range map[string]int{"IDENTIFIER == 'nginx'": 0, "IDENTIFIER == nil": requests} {
			more := strings.Replace(config, "format: combined", `format: combined, only: "`+only+`"`, 1)
			more = strings.Replace(more, "journald: {", "journald: {fields: [IDENTIFIER], ", 1)
			if err := os.WriteFile(file, []byte(more), 0o600); err != nil {
				t.Fatal(err)
			}
			if got, _ := report(t, "--config", file, "source:web"); got != want {
				t.Errorf("%s selects %d requests, not %d", only, got, want)
			}
		}
	})

	t.Run("wrong", func(t *testing.T) {
		t.Parallel()
		queue := filepath.Join(t.TempDir(), "weir.yaml")
		if err := os.WriteFile(queue, []byte("collector: {sources: [{name: web, amqp: {url: 'amqp://127.0.0.1:1', queue: a, acknowledge: true}}]}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		for want, args := range map[string][]string{
			"a backtest must not":      {"--config", queue, "source:web"},
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

// A journalctl that takes its time, as with a large journal on a busy machine, has all entries read, also of a unit.
func TestBacktestOfASlowJournal(t *testing.T) {
	folder, programs := t.TempDir(), t.TempDir()
	writer := journals.Start(t, folder, "system")
	writer.Add([]string{`203.0.113.7 - - [03/Mar/2026:08:00:00 +0000] "GET / HTTP/1.1" 200 1 "-" "-"`})
	writer.Settle()
	journalctl, err := exec.LookPath("journalctl")
	if err != nil {
		t.Fatal(err)
	}
	slow := "#!/bin/sh\nsleep 1.5\nexec " + journalctl + ` "$@"` + "\n"
	if err := os.WriteFile(filepath.Join(programs, "journalctl"), []byte(slow), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
	file := filepath.Join(t.TempDir(), "weir.yaml")
	config := fmt.Sprintf("rules: [{name: limit, key: ip, limits: [10/min]}]\ncollector: {sources: [{name: web, format: combined, journald: {folder: %q, unit: nginx}}]}\n", folder)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := toldOf([]string{"backtest", "--json", "--config", file, "source:web"}); !strings.HasPrefix(out, `{"requests":1,`) {
		t.Error(out)
	}
}

// before writes the lines of a combined log whose requests are before a time.
func before(t *testing.T, lines []string, to string) (file string) {
	t.Helper()
	until, err := time.Parse(time.RFC3339, to)
	if err != nil {
		t.Fatal(err)
	}
	var early strings.Builder
	for _, line := range lines {
		_, rest, _ := strings.Cut(line, "[")
		text, _, _ := strings.Cut(rest, "]")
		if at, err := time.Parse("02/Jan/2006:15:04:05 -0700", text); err == nil && at.Before(until) {
			early.WriteString(line + "\n")
		}
	}
	file = filepath.Join(t.TempDir(), "early.log")
	if err := os.WriteFile(file, []byte(early.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
