package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"weir/test/port"
	"weir/test/wait"
)

// A mailbox is a stand-in for a webhook that fails half of the time.
type mailbox struct {
	mu     sync.Mutex
	asked  int
	events map[string]map[string]bool // the ids of messages by key
	twice  int                        // messages that came again
	ids    map[string]bool
}

func (m *mailbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var message struct {
		ID     string
		Events []struct{ Key, Event string }
	}
	text, _ := io.ReadAll(r.Body)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.asked++; m.asked%2 == 0 || json.Unmarshal(text, &message) != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	if m.ids[message.ID] {
		m.twice++
	}
	m.ids[message.ID] = true
	for _, e := range message.Events {
		if m.events[e.Key] == nil {
			m.events[e.Key] = map[string]bool{}
		}
		m.events[e.Key][message.ID] = true
	}
}

func (m *mailbox) has(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.events[key]) > 0
}

// Weir run is killed again and again. Each event comes, in messages of one id.
func TestNotificationsOutlastKills(t *testing.T) {
	t.Parallel()
	box := &mailbox{events: map[string]map[string]bool{}, ids: map[string]bool{}}
	server := httptest.NewServer(box)
	defer server.Close()
	folder := t.TempDir()
	log := filepath.Join(folder, "access.log")
	file := filepath.Join(folder, "weir.yaml")
	text := fmt.Sprintf("data: data\nrules: {rules: [{name: per-ip, key: ip, limits: [3/min]}]}\ncollector: {listen: %q, sources: [{file: access.log}]}\naggregator: {listen: %q}\n"+
		"enforcer: {listen: %q, admin: %q}\nnotify: [{name: ops, webhook: {url: %q}, group: 100ms, per_minute: 1000}]\n",
		port.Reserve(t, "127.0.0.1"), port.Reserve(t, "127.0.0.1"), port.Reserve(t, "127.0.0.1"), port.Reserve(t, "127.0.0.1"), server.URL)
	for name, text := range map[string]string{log: "", file: text} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write := func(ip string) {
		to, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer to.Close()
		for range 4 {
			fmt.Fprintf(to, "%s - - [%s] \"GET / HTTP/1.1\" 200 1 \"-\" \"-\"\n", ip, time.Now().Format("02/Jan/2006:15:04:05 -0700"))
		}
	}

	p := start(t, "run", "--config", file)
	// The receiver begins with the events after its start.
	first := 0
	wait.Until(t, "the first message", func() bool {
		first++
		write(fmt.Sprintf("203.0.113.%d", first%200))
		return len(func() map[string]bool { box.mu.Lock(); defer box.mu.Unlock(); return box.ids }()) > 0
	})
	const kills = 4
	for n := range kills {
		for i := range 5 {
			write(fmt.Sprintf("198.51.100.%d", 5*n+i))
		}
		if n%2 == 0 {
			wait.Until(t, "one came", func() bool { return box.has(fmt.Sprintf("198.51.100.%d", 5*n)) })
		}
		if err := p.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = p.Wait()
		p = start(t, "run", "--config", file)
	}
	for i := range 5 * kills {
		wait.Until(t, "each key came", func() bool { return box.has(fmt.Sprintf("198.51.100.%d", i)) })
	}
	box.mu.Lock()
	defer box.mu.Unlock()
	for key, ids := range box.events {
		if len(ids) > 1 {
			t.Errorf("%s came in %d messages of different ids", key, len(ids))
		}
	}
	t.Logf("%d messages, %d of them twice", len(box.ids), box.twice)
}
