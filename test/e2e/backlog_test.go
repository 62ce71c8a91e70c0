package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/kafka"
	"weir/internal/kafka/kafkatest"
	"weir/internal/store/redis/redistest"
	"weir/internal/topic"
	"weir/test/real"
)

// backlogPartitions is the number of partitions of a topic without keys: each has every eighth line.
const backlogPartitions = 8

// The first break of a client in the sorted log.
type broken struct {
	From  time.Time `json:"from"`
	Limit string    `json:"limit"`
	Count int64     `json:"count"`
}

// A backlog is spread over eight partitions without keys, each out of order by nearly time.late: the list ends with the
// second, the limit and the count of each first break in the sorted log, and with no other client.
func TestABacklogWithoutKeysIsBlockedToTheSecond(t *testing.T) {
	real.Long(t)
	cluster, redis := kafkatest.Shared(t), redistest.Start(t, "--appendonly", "yes")
	own := prefix(t)
	f := newFleet(t, "rules: [{name: per-ip, key: ip, limits: [20/min, 60/hour], block: {for: 24h}}]\n", fmt.Sprintf(
		"kafka: {brokers: [%s], prefix: %s, hits: {partitions: 4, retention: 48h}}\nstore: {redis: \"redis://%s/0\"}\n",
		strings.Join(cluster.Addresses(), ", "), own, redis.Addr))
	name := own + "logs"
	want := f.spread(cluster.Addresses(), name)
	f.start(build(t, "aggregator"))
	f.start(build(t, "enforcer"))
	f.start(build(t, "collector"), "--set", fmt.Sprintf("collector.sources=[{kafka: [%s], format: combined}]", name))
	f.ready()
	f.tool("status", "--wait", "2m")
	for deadline := time.Now().Add(patience / 2); ; time.Sleep(100 * time.Millisecond) {
		differs := difference(f.listed(), want)
		if differs == "" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(differs)
		}
	}
	if len(want) < 100 {
		t.Errorf("%d broke a limit: the backlog shows too little", len(want))
	}
	t.Logf("%d keys are blocked, each from the second of the textbook", len(want))
}

// spread writes a log of the last hour to all partitions of a topic in turn, and returns the clients that break a
// limit.
func (f *fleet) spread(brokers []string, name string) map[string]broken {
	f.t.Helper()
	client := kafkatest.Client(f.t, kafka.Config{Brokers: brokers, Create: true})
	if err := client.EnsureTopics(f.t.Context(), topic.Topic{Name: name, Partitions: backlogPartitions}); err != nil {
		f.t.Fatal(err)
	}
	producer := client.OpenProducer(topic.AppenderConfig{Topic: name, Partitions: backlogPartitions})
	random := rand.New(rand.NewPCG(1, 8))
	begin := time.Now().Add(-time.Hour).Truncate(time.Second)
	times := map[string][]time.Time{}
	type written struct {
		at time.Time
		topic.Message
	}
	var lines []written
	for i := range 60_000 {
		at := begin.Add(time.Duration(i) * time.Hour / 60_001).Truncate(time.Second)
		ip := fmt.Sprintf("203.0.%d.%d", random.IntN(3), int(random.ExpFloat64()*80)%250)
		times[ip] = append(times[ip], at)
		line := fmt.Sprintf(`%s - - [%s] "GET / HTTP/1.1" 200 2 "-" "test"`, ip, at.UTC().Format("02/Jan/2006:15:04:05 -0700"))
		late := time.Duration(random.Int64N(int64(9*time.Minute + 50*time.Second))) // of ten minutes
		lines = append(lines, written{at.Add(late), topic.Message{Partition: i % backlogPartitions, Value: []byte(line)}})
	}
	slices.SortFunc(lines, func(a, b written) int { return a.at.Compare(b.at) })
	var messages []topic.Message
	for _, line := range lines {
		messages = append(messages, line.Message)
	}
	if err := producer.Send(f.t.Context(), messages...); err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	if err := producer.Close(ctx); err != nil {
		f.t.Fatal(err)
	}
	want := map[string]broken{}
	for ip, all := range times {
		if one, ok := firstBreak(all); ok {
			want[ip] = one
		}
	}
	return want
}

func firstBreak(times []time.Time) (broken, bool) {
	for i, at := range times {
		for _, limit := range []struct {
			hits int
			per  time.Duration
			text string
		}{{20, time.Minute, "20/min"}, {60, time.Hour, "60/hour"}} {
			if i >= limit.hits && at.Sub(times[i-limit.hits]) < limit.per {
				return broken{at, limit.text, int64(limit.hits) + 1}, true
			}
		}
	}
	return broken{}, false
}

// listed is the enforcer's list.
func (f *fleet) listed() map[string]broken {
	answer, err := http.Get("http://" + f.enforcer + "/v1/blocklist")
	if err != nil {
		return nil
	}
	defer answer.Body.Close()
	list := map[string]broken{}
	for lines := json.NewDecoder(answer.Body); ; {
		var line struct {
			Key  string `json:"key"`
			Rule string `json:"rule"`
			broken
		}
		if lines.Decode(&line) != nil {
			return list
		}
		if line.Rule != "" {
			list[line.Key] = line.broken
		}
	}
}

// difference is the first difference of two lists.
func difference(got, want map[string]broken) string {
	var all []string
	for key := range want {
		if g, w := got[key], want[key]; !g.From.Equal(w.From) || g.Limit != w.Limit || g.Count != w.Count {
			all = append(all, fmt.Sprintf("%s: %v, want %v", key, g, w))
		}
	}
	for key := range got {
		if _, ok := want[key]; !ok {
			all = append(all, key+" kept its limits")
		}
	}
	slices.Sort(all)
	if len(all) == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d differ: %s", len(all), len(want), strings.Join(all, "\n"))
}
