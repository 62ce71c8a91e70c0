package crash

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"weir/internal/kafka"
	"weir/internal/kafka/kafkatest"
	"weir/internal/topic"
	"weir/pkg/blocklist"
	"weir/pkg/hit"
	"weir/test/port"
	"weir/test/wait"
)

// An enforcer is killed while it indexes events, again and again. Then its index has what the topic has, and what the
// topic has twice once.
func TestAKilledEnforcerIndexesEachEventOnce(t *testing.T) {
	t.Parallel()
	const events, kills = 30_000, 4
	brokers, prefix := kafkatest.Shared(t).Addresses(), sharedPrefix(t)
	listen, admin := port.Reserve(t, "127.0.0.1"), port.Reserve(t, "127.0.0.1")
	e := &installation{t: t, part: "enforcer", folder: t.TempDir()}
	e.write("rules.yaml", "rules: [{name: per-ip, key: ip, limits: [10/min]}]\n")
	e.write("weir.yaml", fmt.Sprintf("data: data\nkafka: {brokers: [%q], prefix: %q}\nenforcer: {listen: %q, admin: %q}\n", brokers[0], prefix, listen, admin))
	t.Cleanup(e.kill)
	want := blockedEvents(t, brokers, prefix, events)

	ask := func(address, path string, into any) bool {
		answer, err := http.Get("http://" + address + path)
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		return err == nil && answer.StatusCode == http.StatusOK && json.Unmarshal(text, into) == nil
	}
	indexed := func() int {
		var status struct{ Events struct{ Events int } }
		ask(admin, "/status", &status)
		return status.Events.Events
	}
	reached := 0
	for n := range kills {
		e.start()
		wait.Until(t, "more events", func() bool { return indexed() > reached || indexed() == len(want) })
		reached = indexed()
		e.kill()
		t.Logf("killed at %d events, time %d", reached, n+1)
	}

	e.start()
	wait.Until(t, "all events", func() bool { return indexed() == len(want) })
	var got []string
	for next := "&"; next != ""; {
		var page struct {
			Events []json.RawMessage
			Next   string
		}
		if !ask(listen, "/v1/events?limit=1000"+next, &page) {
			t.Fatal("no answer")
		}
		for _, line := range page.Events {
			got = append(got, string(line))
		}
		if next = ""; page.Next != "" {
			next = "&after=" + page.Next
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%d events, not %d", len(got), len(want))
	}
}

// blockedEvents writes events to their topic, every tenth twice, and returns each once.
func blockedEvents(t *testing.T, brokers []string, prefix string, events int) (lines []string) {
	t.Helper()
	const partitions = 4
	client := kafkatest.Client(t, kafka.Config{Brokers: brokers, Prefix: prefix, Create: true})
	name := prefix + "events"
	if err := client.EnsureTopics(t.Context(), topic.Topic{Name: name, Partitions: partitions}); err != nil {
		t.Fatal(err)
	}
	to := client.OpenProducer(topic.AppenderConfig{Topic: name, Partitions: partitions})
	now := time.Now().Add(-time.Hour).UnixMilli()
	for n := range events {
		message := blockedEvent(t, fmt.Sprintf("10.0.%d.%d", n/250%40, n%250), now+int64(n), partitions)
		messages := []topic.Message{message}
		if n%10 == 0 {
			messages = append(messages, message)
		}
		if err := to.Send(t.Context(), messages...); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(message.Value))
	}
	if err := to.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return lines
}

// blockedEvent is the event of a block of an address that was decided at a time.
func blockedEvent(t *testing.T, ip string, at int64, partitions int) topic.Message {
	t.Helper()
	b := blocklist.Entry{Rule: "per-ip", Key: ip, From: at - 10, Until: at + 600_000, Decided: at, Limit: "10/min", Count: 11, Level: 1, By: "weir"}
	b.ID, b.Fields = blocklist.ID(b.Rule, b.Key, b.From, 1), map[string]string{"ip": b.Key}
	line, err := blocklist.AppendEvent(nil, blocklist.EventBlocked, at, &b)
	if err != nil {
		t.Fatal(err)
	}
	return topic.Message{Partition: hit.Partition(b.Rule, []byte(b.Key), partitions), Value: line}
}
