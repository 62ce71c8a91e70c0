package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/cmd/internal/exit"
	"weir/internal/kafka"
	"weir/internal/kafka/kafkatest"
	"weir/internal/topic"
	"weir/test/locked"
	"weir/test/running"
)

// The tool's commands show the same of a real Kafka as of the topics of weir run.
func TestOnKafka(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.Shared(t).Addresses()
	prefix := fmt.Sprintf("t%d.", time.Now().UnixNano())
	client := kafkatest.Client(t, kafka.Config{Brokers: brokers, Create: true})
	ctx := running.Within(t, 2*time.Minute)
	hits, err := running.MakeTopic(ctx, client, prefix+"hits", 2)
	if err == nil {
		err = hits.Put(ctx, topic.Message{Value: running.SampleBatch(0)}, topic.Message{Partition: 1, Value: running.SampleBatch(1000)})
	}
	if err != nil {
		t.Fatal(err)
	}
	flags := []string{"--set", "kafka.prefix=" + prefix, "--set", "rules=[{name: r, key: ip, limits: [1/s]}]",
		"--set", "kafka.brokers=[" + strings.Join(brokers, ",") + "]", "--set", "collector.listen=127.0.0.1:1", "--set", "aggregator.listen=127.0.0.1:1", "--set", "enforcer.admin=127.0.0.1:1"}
	runs(t, exit.Done, `{"partition":0,"offset":0,"source":"access.log/5f0c","from":0`, append([]string{"cat", "hits", "--json"}, flags...)...)
	runs(t, exit.NotMet, `"committed":-1,"end":1,"lag":1`, append([]string{"status", "--json", "--wait", "1s"}, flags...)...)
	running.Commit(t, client, prefix+"aggregator", prefix+"hits", 2, map[int]int64{0: 1, 1: 1})
	runs(t, exit.NotMet, `"nothing_runs":true`, append([]string{"status", "--json"}, flags...)...) // the consumer has left
	part := running.NewPart(t, `{"caught_up": true}`)
	flags = append(flags, "--aggregator", part.URL)
	runs(t, exit.Done, `{"caught_up":true`, append([]string{"status", "--json", "--wait", "2m"}, flags...)...)
}

// runs runs the tool, command first, and requires an exit code and a piece of the output.
func runs(t *testing.T, code int, piece string, args ...string) {
	t.Helper()
	var stdout, stderr locked.Buffer
	if got := run(append([]string{"weir"}, args...), strings.NewReader(""), &stdout, &stderr); got != code || !strings.Contains(stdout.String(), piece) {
		t.Errorf("exit code %d, want %d; stdout %s\nwant %s\nstderr %s", got, code, stdout.String(), piece, stderr.String())
	}
}
