package crash

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"weir/internal/kafka"
	"weir/internal/kafka/kafkatest"
	"weir/internal/topic"
	"weir/test/exim"
	"weir/test/port"
	"weir/test/wait"
)

// A troubled is a receiver over HTTP that fails in all the ways that it can, and takes every fourth message in peace. It
// keeps the ids of the messages with a key as soon as it has read them, also of those that it does not answer.
type troubled struct {
	mu    sync.Mutex
	asked int
	well  bool                // no more trouble
	ids   map[string][]string // by key, each as often as it came
}

func (r *troubled) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	var message struct {
		ID     string
		Events []struct{ Key string }
	}
	text, _ := io.ReadAll(request.Body)
	r.mu.Lock()
	r.asked++
	way := r.asked % 4
	if r.well {
		way = 3
	}
	if err := json.Unmarshal(text, &message); way != 0 && err == nil && request.Header.Get("Idempotency-Key") == message.ID {
		for _, e := range message.Events {
			r.ids[e.Key] = append(r.ids[e.Key], message.ID)
		}
	}
	r.mu.Unlock()
	switch way {
	case 0: // it has not taken the message
		w.WriteHeader(http.StatusInternalServerError)
	case 1: // it has taken the message, and does not say so
		<-request.Context().Done()
	case 2:
		panic(http.ErrAbortHandler)
	}
}

func (r *troubled) recovers() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.well = true
}

func (r *troubled) got() map[string][]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	got := map[string][]string{}
	for key, ids := range r.ids {
		got[key] = slices.Clone(ids)
	}
	return got
}

var addressText = regexp.MustCompile(`10\.\d+\.\d+\.\d+`)

// mailed are the ids of the mails with each key.
func mailed(t *testing.T, server *exim.Server) map[string][]string {
	got := map[string][]string{}
	for _, m := range server.Box("ops") {
		text, err := io.ReadAll(m.Body)
		if err != nil {
			t.Error(err)
		}
		keys := addressText.FindAllString(string(text), -1)
		slices.Sort(keys)
		for _, key := range slices.Compact(keys) {
			got[key] = append(got[key], m.Header.Get("Message-ID"))
		}
	}
	return got
}

// An enforcer that notifies is killed again and again, while the mail server is away at first, and another receiver
// fails, hangs, and breaks connections until the last kill. Each event of a real Kafka comes, in messages of one id.
func TestNotificationsFromKafkaOutlastKills(t *testing.T) {
	t.Parallel()
	const kills, each = 4, 60
	server := exim.New(t)
	receiver := &troubled{ids: map[string][]string{}}
	hook := httptest.NewServer(receiver)
	defer hook.Close()
	brokers, prefix := kafkatest.Shared(t).Addresses(), sharedPrefix(t)
	e := &installation{t: t, part: "enforcer", folder: t.TempDir()}
	e.write("rules.yaml", "rules: [{name: per-ip, key: ip, limits: [10/min]}]\n")
	e.write("password", exim.Password)
	e.write("weir.yaml", fmt.Sprintf(`
data: data
kafka: {brokers: [%q], prefix: %q, session: 6s}
enforcer: {listen: %q, admin: %q}
notify:
  - {name: hook, webhook: {url: %q}, group: 1s, per_minute: 1000, timeout: 300ms}
  - name: ops
    mail: {server: %q, from: weir@example.com, to: ops@example.com, user: %s, password_file: password, ca: %q}
    group: 1s
    per_minute: 1000
`, brokers[0], prefix, port.Reserve(t, "127.0.0.1"), port.Reserve(t, "127.0.0.1"), hook.URL, server.StartTLS, exim.User, server.CA()))
	t.Cleanup(e.kill)
	send := newEvents(t, brokers, prefix)

	e.start()
	groups := kafkatest.Client(t, kafka.Config{Brokers: brokers, Prefix: prefix})
	for _, name := range []string{"hook", "ops"} { // new receivers begin at the end
		wait.Until(t, name+" has its position", func() bool {
			commits, err := groups.Committed(t.Context(), prefix+"notify."+name, prefix+"events")
			return err == nil && len(commits) == eventPartitions && !slices.ContainsFunc(commits, func(c topic.Commit) bool { return c.Offset < 0 })
		})
	}

	for n := range kills {
		send(n*each, each)
		wait.Until(t, "messages come", func() bool { return len(receiver.got()) > n*each })
		if n == 1 {
			server.Start()
		}
		e.kill()
		e.start()
	}
	receiver.recovers()

	for name, got := range map[string]func() map[string][]string{"webhook": receiver.got, "mail": func() map[string][]string { return mailed(t, server) }} {
		wait.Until(t, "the "+name+" has each event", func() bool { return len(got()) == kills*each })
		again, most := 0, 0
		for key, ids := range got() {
			again, most = again+min(1, len(ids)-1), max(most, len(ids))
			slices.Sort(ids)
			if distinct := slices.Compact(ids); len(distinct) > 1 {
				t.Errorf("%s: %s came in messages of different ids: %q", name, key, distinct)
			}
		}
		t.Logf("%s: %d events, %d of them more than once, at most %d times", name, len(got()), again, most)
	}
	if text := e.said.String(); t.Failed() {
		_, _ = os.Stderr.WriteString(text)
	}
}

const eventPartitions = 4

// newEvents makes the topic of events, and returns what sends blocks of so many further keys to it.
func newEvents(t *testing.T, brokers []string, prefix string) (send func(from, number int)) {
	t.Helper()
	client := kafkatest.Client(t, kafka.Config{Brokers: brokers, Prefix: prefix, Create: true})
	name := prefix + "events"
	if err := client.EnsureTopics(t.Context(), topic.Topic{Name: name, Partitions: eventPartitions}); err != nil {
		t.Fatal(err)
	}
	to := client.OpenProducer(topic.AppenderConfig{Topic: name, Partitions: eventPartitions})
	t.Cleanup(func() { _ = to.Close(t.Context()) })
	return func(from, number int) {
		for n := from; n < from+number; n++ {
			message := blockedEvent(t, fmt.Sprintf("10.1.%d.%d", n/250, 1+n%250), time.Now().UnixMilli(), eventPartitions)
			if err := to.Send(t.Context(), message); err != nil {
				t.Fatal(err)
			}
		}
	}
}
