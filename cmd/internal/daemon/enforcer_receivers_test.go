package daemon

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"weir/internal/kafka"
)

// An inbox is a stand-in for a webhook. It counts the messages of each key, and hangs at those of one receiver.
type inbox struct {
	mu   sync.Mutex
	keys map[string]int
	hung int
	end  chan struct{}
}

func (i *inbox) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	var message struct {
		Receiver string
		Events   []struct{ Key string }
	}
	text, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(text, &message)
	i.mu.Lock()
	if message.Receiver == "hangs" {
		i.hung++
		i.mu.Unlock()
		select {
		case <-r.Context().Done():
		case <-i.end:
		}
		return
	}
	defer i.mu.Unlock()
	for _, e := range message.Events {
		i.keys[e.Key]++
	}
}

func (i *inbox) count(key string) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.keys[key]
}

// Two enforcers share the receivers. One ends, and the other goes on; a receiver that hangs delays no order and no check.
func TestEnforcersNotify(t *testing.T) {
	t.Parallel()
	broker := newMortal(t)
	in := &inbox{keys: map[string]int{}, end: make(chan struct{})}
	server := httptest.NewServer(in)
	defer server.Close()
	defer close(in.end)
	section := fmt.Sprintf("\nnotify:\n- {name: ops, webhook: {url: %q}, group: 0s, per_minute: 1000}\n- {name: hangs, webhook: {url: %q}, group: 0s, per_minute: 1000}\n", server.URL, server.URL)
	one, other := newEdge(t, broker.yaml(), section).start(), newEdge(t, broker.yaml(), section).start()
	p := newPublisher(t, kafka.Config{Brokers: []string{broker.config.Listen}, Prefix: "weir."}, one.process.Config)
	p.marks()
	one.await("ready", one.ready)
	other.await("ready", other.ready)

	// All partitions have a position when orders about many keys arrive.
	first := 0
	one.await("the receivers begin", func() bool {
		first++
		key := fmt.Sprintf("192.0.2.%d", first%250)
		one.order("POST", "/v1/blocks", fmt.Sprintf(`{"target":%q,"why":"a beginning"}`, key))
		in.mu.Lock()
		defer in.mu.Unlock()
		return len(in.keys) >= 8 && in.hung > 0
	})
	for n := range 20 {
		key := fmt.Sprintf("203.0.113.%d", n)
		if n == 10 {
			one.stop()
		}
		other.await("ordered", func() bool {
			return other.order("POST", "/v1/blocks", fmt.Sprintf(`{"target":%q,"why":"scraper"}`, key))
		})
		if code := other.check(key); code != http.StatusTooManyRequests {
			t.Errorf("%s: %d", key, code)
		}
	}
	for n := range 20 {
		key := fmt.Sprintf("203.0.113.%d", n)
		other.await(key+" came", func() bool { return in.count(key) > 0 })
	}
	_, status := other.ask("GET", other.admin, "/status", "")
	if !strings.Contains(status, `"receiver": "hangs"`) || !strings.Contains(status, `"kind": "webhook"`) {
		t.Error(status)
	}
}
