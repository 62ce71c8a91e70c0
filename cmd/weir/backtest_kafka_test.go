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

	"weir/cmd/internal/exit"
	"weir/internal/kafka"
	"weir/internal/kafka/kafkatest"
	"weir/internal/topic"
	"weir/test/locked"
	"weir/test/wait"
)

// A topic is backtested as the file with its lines is, whatever partitions its records are in; from and to select
// records by their times.
func TestBacktestOfATopic(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../examples/access.log")
	if err != nil {
		t.Fatal(err)
	}
	brokers := kafkatest.Shared(t).Addresses()
	client := kafkatest.Client(t, kafka.Config{Brokers: brokers, Create: true})
	name := fmt.Sprintf("logs%d", time.Now().UnixNano())
	if err := client.EnsureTopics(t.Context(), topic.Topic{Name: name, Partitions: 3}); err != nil {
		t.Fatal(err)
	}
	producer := client.Appender(topic.AppenderConfig{Topic: name, Partitions: 3})
	lines := slices.Collect(strings.Lines(string(text)))
	send := func(lines []string) {
		for i, line := range lines {
			if err := producer.Send(t.Context(), topic.Message{Partition: i % 3, Value: bytes.TrimSuffix([]byte(line), []byte("\n"))}); err != nil {
				t.Fatal(err)
			}
		}
		wait.Until(t, "Kafka has them", func() bool { return producer.Held() == 0 })
		sent := time.Now().UnixMilli() // Kafka's times are in milliseconds
		wait.Until(t, "a later time", func() bool { return time.Now().UnixMilli() > sent+1 })
	}
	send(lines[:1000])
	between := time.Now().UTC().Format("2006-01-02T15:04:05.000Z")
	wait.Until(t, "a later time", func() bool { return time.Now().UTC().Format("2006-01-02T15:04:05.000Z") > between })
	send(lines[1000:])

	report := func(args ...string) (requests int, rules string) {
		t.Helper()
		out := toldOf(append([]string{"backtest", "--limit", "10/min", "--limit", "100/hour", "--json"}, args...))
		var r struct {
			Requests int             `json:"requests"`
			Rules    json.RawMessage `json:"rules"`
		}
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return r.Requests, string(r.Rules)
	}
	address := "kafka://" + strings.Join(brokers, ",") + "/" + name
	requests, rules := report("../../examples/access.log")
	if got, of := report(address); got != requests || of != rules {
		t.Errorf("%d requests, and the file has %d: %s, not %s", got, requests, of, rules)
	}
	if before, _ := report(address + "?to=" + between); before != 1000 {
		t.Errorf("%d requests before, not 1000", before)
	}
	if after, _ := report(address + "?from=" + between); after != requests-1000 {
		t.Errorf("%d requests after, not %d", after, requests-1000)
	}

	// Records of several lines are read as collectors read them: a client may have written all lines but the first.
	records := name + "-records"
	if err := client.EnsureTopics(t.Context(), topic.Topic{Name: records, Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	other := client.Appender(topic.AppenderConfig{Topic: records, Partitions: 1})
	for _, record := range []string{lines[0], lines[1] + lines[2], "a message of " + lines[3], "a message\n" + lines[4], "\x00" + lines[5], lines[6] + "\n\n"} {
		if err := other.Send(t.Context(), topic.Message{Value: []byte(record)}); err != nil {
			t.Fatal(err)
		}
	}
	wait.Until(t, "Kafka has the records", func() bool { return other.Held() == 0 })
	if got, _ := report("--format", "combined", "kafka://"+strings.Join(brokers, ",")+"/"+records); got != 4 {
		t.Errorf("%d requests in records of several lines, not 4", got)
	}

	// The configuration has the brokers and the way to read the topic.
	file := filepath.Join(t.TempDir(), "weir.yaml")
	config := fmt.Sprintf("kafka: {brokers: [%s]}\nrules: [{name: per-ip, key: ip, limits: [10/min, 100/hour]}]\ncollector: {sources: [{kafka: [%s], format: combined}]}\n", strings.Join(brokers, ", "), name)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	runs(t, exit.Done, "3,413 requests read", "backtest", "--config", file, "kafka:///"+name)

	for want, args := range map[string][]string{
		"topic " + name + " has no records at that time": {address + "?to=2020-01-01"},
		"the topic does not exist":                       {"kafka://" + brokers[0] + "/" + name + "x"},
		"is named twice":                                 {address, address},
		"names no topic":                                 {"kafka://" + brokers[0]},
		"yesterday is not a time":                        {address + "?from=yesterday"},
		"till is not known":                              {address + "?till=1h"},
		"cannot be reached":                              {"kafka://127.0.0.1:1/logs"},
		"names no brokers":                               {"kafka:///" + name},
	} {
		var stderr locked.Buffer
		if code := run(append([]string{"weir", "backtest", "--limit", "10/min"}, args...), strings.NewReader(""), &locked.Buffer{}, &stderr); code == exit.Done || !strings.Contains(stderr.String(), want) {
			t.Errorf("%q: exit code %d: %s", args, code, stderr.String())
		}
	}
}
