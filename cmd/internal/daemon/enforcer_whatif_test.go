package daemon

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"weir/internal/kafka"
	"weir/internal/topic"
	"weir/pkg/hit"
)

// The enforcer reads the hits of a topic to say what other limits would have done. A follower names the place to ask.
func TestWhatOtherLimitsWouldHaveDone(t *testing.T) {
	t.Parallel()
	broker := newMortal(t)
	e := newEdge(t, broker.yaml(), "").start()
	p := newPublisher(t, kafka.Config{Brokers: []string{broker.config.Listen}, Prefix: "weir."}, e.process.Config)
	p.marks()
	e.await("ready", e.ready)
	hits := HitsTopic(e.process.Config)
	if err := p.client.EnsureTopics(t.Context(), hits); err != nil {
		t.Fatal(err)
	}
	name, now, w := e.process.Config.RuleSet.Rules[0].Name, time.Now().UnixMilli(), hit.NewWriter()
	w.Reset([]string{name})
	for i := range 2000 {
		w.Add(0, []byte("203.0.113.7"), now-20_000+int64(i), 1)
	}
	batch, err := w.Append(nil, hit.Header{Source: "access.log/1", From: 0, To: 1, Clock: now, Fingerprint: e.process.Config.RuleSet.Fingerprint()})
	if err != nil {
		t.Fatal(err)
	}
	to := p.client.OpenProducer(topic.AppenderConfig{Topic: hits.Name, Partitions: hits.Partitions})
	if err := to.Send(t.Context(), topic.Message{Partition: hit.Partition(name, []byte("203.0.113.7"), hits.Partitions), Value: batch}); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(t.Context()); err != nil {
		t.Fatal(err)
	}

	query := "/v1/whatif?rule=" + name + "&limits=1500/min&since=5m"
	code, text := e.ask("GET", e.listen, query, "", "X-Api-Key", "reader")
	if code != http.StatusOK || !strings.Contains(text, `"hits":2000,"keys":1`) || !strings.Contains(text, `"other":{"limits":["1500/min"],"blocked":1,"blocks":1,"refused":500}`) {
		t.Errorf("%d %s", code, text)
	}
	if code, _ := e.ask("GET", e.listen, query, "", "X-Api-Key", "nobody"); code != http.StatusUnauthorized {
		t.Errorf("with an unknown key: %d", code)
	}
	follower := newFollower(t, e)
	if code, text := follower.ask("GET", follower.listen, query, "", "X-Api-Key", "reader"); code != http.StatusNotFound || !strings.Contains(text, "ask an enforcer that reads the topics") {
		t.Errorf("a follower: %d %s", code, text)
	}
	follower.stop()
}
