package daemon

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/kafka"
	"weir/internal/topic"
	"weir/pkg/blocklist"
	"weir/pkg/hit"
)

// An eventsPage is an answer of GET /v1/events.
type eventsPage struct {
	Events []struct{ Event, Key, By string }
	Next   string
	Behind int64
	AsOf   string `json:"as_of"`
}

func (e *edge) events(query url.Values) (page eventsPage) {
	e.t.Helper()
	code, text := e.ask("GET", e.listen, "/v1/events?"+query.Encode(), "", "X-Api-Key", "reader")
	if code == http.StatusOK {
		if err := json.Unmarshal([]byte(text), &page); err != nil {
			e.t.Fatal(err, text)
		}
	}
	return page
}

// blockedEvents writes events of 200 keys.
func (p *publisher) blockedEvents(blocks int) {
	p.t.Helper()
	to := p.client.OpenProducer(topic.AppenderConfig{Topic: "weir.events", Partitions: 4})
	now := time.Now().UnixMilli()
	for n := range blocks {
		one := blocklist.Entry{Rule: "per-ip", Key: fmt.Sprintf("203.0.113.%d", n%200), From: now - 10, Until: now + 600_000, Decided: now, Limit: "10/min", Count: 11, Level: 1 + n/200, By: "weir"}
		one.ID, one.Fields = blocklist.ID(one.Rule, one.Key, one.From, one.Level), map[string]string{"ip": one.Key}
		line, err := blocklist.AppendEvent(nil, "blocked", now, &one)
		if err != nil {
			p.t.Fatal(err)
		}
		if err := to.Send(p.t.Context(), topic.Message{Partition: hit.Partition(one.Rule, []byte(one.Key), 4), Value: line}); err != nil {
			p.t.Fatal(err)
		}
	}
	if err := to.Close(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
}

// The enforcer answers from its index who was blocked, has a manual entry there soon after it was made, continues after a
// restart, and makes a damaged or missing index again. A follower names the place to ask.
func TestEventsAreIndexed(t *testing.T) {
	t.Parallel()
	broker := newMortal(t)
	e := newEdge(t, broker.yaml(), "").start()
	p := newPublisher(t, kafka.Config{Brokers: []string{broker.config.Listen}, Prefix: "weir."}, e.process.Config)
	const blocks = 300
	p.blockedEvents(blocks)
	p.marks()
	e.await("ready", e.ready)
	count := func(query url.Values) (events int) {
		query.Set("limit", "90")
		for {
			page := e.events(query)
			events += len(page.Events)
			if page.Next == "" {
				return events
			}
			query.Set("after", page.Next)
		}
	}
	e.await("all events", func() bool { return count(url.Values{}) == blocks })
	e.await("a time", func() bool { page := e.events(nil); return page.Behind == 0 && page.AsOf != "" })
	for query, want := range map[string]int{"key=203.0.113.7": 2, "key=203.0.113.0/25": 2*100 + 28, "rule=per-ip": blocks, "rule=manual": 0, "at=1h": 0, "since=1h": blocks, "until=1h": 0} {
		values, _ := url.ParseQuery(query)
		if got := count(values); got != want {
			t.Errorf("%s: %d events, not %d", query, got, want)
		}
	}
	e.order("POST", "/v1/blocks", `{"target":"198.51.100.7","why":"=cmd"}`)
	e.await("a manual entry", func() bool { return len(e.events(url.Values{"by": {"the-writer"}}).Events) == 1 })
	if _, text := e.ask("GET", e.listen, "/v1/events?format=csv&by=the-writer", "", "X-Api-Key", "reader"); strings.Count(text, "\n") != 2 || !strings.Contains(text, ",'=cmd,") {
		t.Errorf("%s", text)
	}

	// How many are today's depends on the clock; TestBlocksAreCounted has the counts.
	if _, text := e.ask("GET", e.listen, "/v1/numbers", "", "X-Api-Key", "reader"); !strings.Contains(text, `"manual":{"refused":0,"blocked_now":1,"blocked_today":`) {
		t.Errorf("%s", text)
	}

	if code, _ := e.ask("GET", e.listen, "/v1/events", "", "X-Api-Key", "nobody"); code != http.StatusUnauthorized {
		t.Errorf("with an unknown key: %d", code)
	}
	follower := newFollower(t, e)
	if code, text := follower.ask("GET", follower.listen, "/v1/events", "", "X-Api-Key", "reader"); code != http.StatusNotFound || !strings.Contains(text, "ask an enforcer that reads the topics") {
		t.Errorf("a follower: %d %s", code, text)
	}
	follower.stop()

	folder := filepath.Join(e.folder, "data", "enforcer", "events")
	for name, spoil := range map[string]func() error{
		"as it was": func() error { return nil },
		"missing":   func() error { return os.RemoveAll(folder) },
		"damaged": func() error {
			tables, _ := filepath.Glob(filepath.Join(folder, "MANIFEST-*"))
			for _, name := range tables {
				if err := os.WriteFile(name, []byte("no database"), 0o600); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		e.stop()
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		e.start()
		e.await("the index "+name, func() bool { return count(url.Values{}) == blocks+1 })
	}
}

// Mistakes in a question are answered with what to write instead.
func TestMistakesInQuestionsForEvents(t *testing.T) {
	t.Parallel()
	e := newEdge(t, newMortal(t).yaml(), "").start()
	for query, want := range map[string]string{
		"limit=0": "limit is a number", "event=gone": "event is one of", "order=x": "order is one of", "at=1h&since=1h": "leave since and until out", "since=17": "since is a time",
		"after=x": "after is the value", "rule=": "rule is empty", "format=pdf": "format is one of", "other=1": "is not known",
	} {
		if code, text := e.ask("GET", e.listen, "/v1/events?"+query, "", "X-Api-Key", "reader"); code != http.StatusBadRequest || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", query, code, text)
		}
	}
	if code, text := e.ask("GET", e.listen, "/v1/events?limit=1000&key=a%00*&at=2026-03-03T08:00:00Z", "", "X-Api-Key", "reader"); code != http.StatusOK && code != http.StatusServiceUnavailable {
		t.Errorf("%d %s", code, text)
	}
}

// Without an index the answer says so.
func TestNoIndexOfEvents(t *testing.T) {
	t.Parallel()
	e := newEdge(t, newMortal(t).yaml(), "  events: 0\n").start()
	if code, text := e.ask("GET", e.listen, "/v1/events", "", "X-Api-Key", "reader"); code != http.StatusNotFound || !strings.Contains(text, "enforcer.events is 0") {
		t.Errorf("%d %s", code, text)
	}
}
