package aggregator

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/kafka"
	"weir/internal/kafka/embedded"
	"weir/internal/store"
	"weir/internal/store/disk"
	"weir/internal/topic"
	"weir/pkg/blocklist"
	"weir/pkg/hit"
	"weir/pkg/rule"
)

const (
	sitePartitions = 4
	siteRules      = `
rules:
  - {name: per-ip, key: ip, limits: [5/min], block: {for: 10m}}
  - {name: per-user, key: user, limits: [3/10s, 20/h], block: {for: 1h, then: [2h], forget: 24h}}
`
)

// A site is an aggregator with the broker in this process and a store on disk.
type site struct {
	t      *testing.T
	folder string // of the broker
	broker *embedded.Broker
	client *kafka.Client
	store  store.Store
	rules  *rule.Set
	agg    *Aggregator
	change func(*Config)
	stop   func()
	sender *kafka.Producer
	writer *hit.Writer
	at     map[string]int64 // positions of sources
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, folder: t.TempDir(), rules: parseRules(t, siteRules), writer: hit.NewWriter(), at: map[string]int64{}, change: func(*Config) {}}
	cold, err := disk.Open(t.Context(), disk.Options{Folder: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	s.store = cold
	s.openBroker()
	t.Cleanup(func() {
		s.end()
		s.closeBroker()
		cold.Close()
	})
	return s
}

func parseRules(t testing.TB, text string) *rule.Set {
	t.Helper()
	set, _, err := rule.Parse("rules.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func (s *site) openBroker() {
	s.t.Helper()
	broker, err := embedded.Open(embedded.Config{Folder: s.folder})
	if err != nil {
		s.t.Fatal(err)
	}
	s.broker = broker
	s.client, err = kafka.Open(kafka.Config{Brokers: []string{broker.Address()}, Session: 45 * time.Second, Create: true, Prefix: "weir."})
	if err != nil {
		s.t.Fatal(err)
	}
	topicOf := func(name string, partitions int) topic.Topic {
		return topic.Topic{Name: "weir." + name, Partitions: partitions, Settings: map[string]string{"cleanup.policy": "delete"}}
	}
	s.eventually("topics", func() error {
		return s.client.EnsureTopics(s.t.Context(), topicOf("hits", sitePartitions), topicOf("blocklist", 1), topicOf("events", 2))
	})
	s.sender = s.client.OpenProducer(topic.AppenderConfig{Topic: "weir.hits", Partitions: sitePartitions})
}

func (s *site) closeBroker() {
	_ = s.sender.Close(canceled())
	s.client.Close()
	s.broker.Close()
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// begin runs an aggregator.
func (s *site) begin() {
	s.t.Helper()
	list := s.client.OpenProducer(topic.AppenderConfig{Topic: "weir.blocklist", Partitions: 1})
	events := s.client.OpenProducer(topic.AppenderConfig{Topic: "weir.events", Partitions: 2})
	config := Config{
		Client: s.client, Group: "weir.aggregator", Hits: "weir.hits", Partitions: sitePartitions, Retention: 48 * time.Hour,
		Blocklist: list, BlocklistTopic: "weir.blocklist", Events: events, EventsPartitions: 2,
		Store: s.store, HotKeys: 1000, Rules: s.rules, Late: 10 * time.Minute, Ahead: 10 * time.Second,
		Logger: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
	}
	if testing.Verbose() {
		config.Logger = slog.New(slog.NewTextHandler(s.t.Output(), nil))
	}
	s.change(&config)
	var err error
	if s.agg, err = Open(s.t.Context(), config); err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.agg.Run(ctx) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Error(err)
		}
		_ = list.Close(canceled())
		_ = events.Close(canceled())
	})
}

// end stops the aggregator.
func (s *site) end() {
	if s.stop != nil {
		s.stop()
	}
}

// hits sends a cut of a source with hits of one key.
func (s *site) hits(source, ruleName, key string, times ...time.Time) {
	s.t.Helper()
	s.cut(source, ruleName, key, func(w *hit.Writer) {
		for _, at := range times {
			w.Add(0, []byte(key), at.UnixMilli(), 1)
		}
	})
}

func (s *site) unblock(source, ruleName, key string) {
	s.t.Helper()
	s.cut(source, ruleName, key, func(w *hit.Writer) { w.Unblock(0, []byte(key), time.Now().UnixMilli(), "id") })
}

func (s *site) cut(source, ruleName, key string, fill func(*hit.Writer)) {
	s.t.Helper()
	s.writer.Reset([]string{ruleName})
	fill(s.writer)
	from := s.at[source]
	s.at[source] += 100
	value, err := s.writer.Append(nil, hit.Header{Source: source, From: from, To: from + 100, Clock: time.Now().UnixMilli()})
	if err != nil {
		s.t.Fatal(err)
	}
	written := make(chan error, 1)
	message := topic.Message{Partition: hit.Partition(ruleName, []byte(key), sitePartitions), Value: value, Done: func(_ int64, err error) { written <- err }}
	if err := s.sender.Send(s.t.Context(), message); err != nil {
		s.t.Fatal(err)
	}
	if err := <-written; err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) eventually(what string, is func() error) {
	s.t.Helper()
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = is(); err == nil {
			return
		}
	}
	s.t.Fatalf("%s: %v", what, err)
}

// records are all of the list.
func (s *site) records() (entries []*blocklist.Entry, marks []*blocklist.Mark) {
	s.t.Helper()
	span, err := s.client.PartitionSpan(s.t.Context(), "weir.blocklist", 0)
	if err != nil {
		s.t.Fatal(err)
	}
	reader := s.client.NewReader("weir.blocklist", 0, span.Start)
	for reader.Next() < span.End {
		records, err := reader.Fetch(s.t.Context())
		if err != nil {
			s.t.Fatal(err)
		}
		for _, r := range records {
			record, err := blocklist.DecodeRecord(r.Key, r.Value)
			if err != nil {
				s.t.Fatal(err)
			}
			if record.Entry != nil {
				entries = append(entries, record.Entry)
			}
			if record.Mark != nil {
				marks = append(marks, record.Mark)
			}
		}
	}
	return entries, marks
}

// listed waits until the last entry of a key is as is wanted.
func (s *site) listed(key string, is func(*blocklist.Entry) bool) (last *blocklist.Entry) {
	s.t.Helper()
	s.eventually("the list's entry of "+key, func() error {
		entries, _ := s.records()
		last = nil
		for _, e := range entries {
			if e.Key == key {
				last = e
			}
		}
		if last == nil || !is(last) {
			return fmt.Errorf("%+v", last)
		}
		return nil
	})
	return last
}

// drained waits until the group has committed all that there is.
func (s *site) drained() {
	s.t.Helper()
	s.eventually("all is counted", func() error {
		spans, err := s.client.Offsets(s.t.Context(), "weir.hits")
		if err != nil {
			return err
		}
		commits, err := s.client.Committed(s.t.Context(), "weir.aggregator", "weir.hits")
		if err != nil {
			return err
		}
		for i := range spans {
			if spans[i].End > 0 && commits[i].Offset != spans[i].End {
				return fmt.Errorf("partition %d: %d of %d", i, commits[i].Offset, spans[i].End)
			}
		}
		return nil
	})
}

func times(n int) (all []time.Time) {
	now := time.Now()
	for i := range n {
		all = append(all, now.Add(time.Duration(i-n)*time.Millisecond))
	}
	return all
}
