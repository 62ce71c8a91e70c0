package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"weir/internal/database"
	"weir/internal/topic"
	"weir/internal/topic/local"
	"weir/pkg/blocklist"
	"weir/test/wait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const eventsTopic = "weir.events"

// A log is a topic of events in a folder.
type log struct {
	*local.Log
	t        *testing.T
	appender topic.Appender
}

func newLog(t *testing.T) *log {
	t.Helper()
	db, err := database.Open(t.Context(), database.Options{Folder: t.TempDir(), WriteBytes: 16 << 20, SplitAt: local.SplitAt})
	if err != nil {
		t.Fatal(err)
	}
	l, err := local.Open(t.Context(), local.Options{Database: db})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(); db.Close() })
	if err := l.EnsureTopics(t.Context(), topic.Topic{Name: eventsTopic, Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	made := &log{Log: l, t: t, appender: l.Appender(topic.AppenderConfig{Topic: eventsTopic, Partitions: 1})}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		made.appender.Close(ctx)
	})
	return made
}

// entry is a block of an address.
func entry(rule, key string) *blocklist.Entry {
	now := time.Now().UnixMilli()
	return &blocklist.Entry{ID: digest(rule, key)[:16], Rule: rule, Key: key, Fields: map[string]string{"ip": key}, From: now, Until: now + 3_600_000, Decided: now,
		Limit: "10/min", Count: 11, Level: 1, By: "weir"}
}

// write appends an event, and returns when the topic has it.
func (l *log) write(event string, at time.Time, entries ...*blocklist.Entry) {
	l.t.Helper()
	done := make(chan error, len(entries))
	for _, e := range entries {
		line, err := blocklist.AppendEvent(nil, event, at.UnixMilli(), e)
		if err != nil {
			l.t.Fatal(err)
		}
		if err := l.appender.Send(l.t.Context(), topic.Message{Value: line, Done: func(_ int64, err error) { done <- err }}); err != nil {
			l.t.Fatal(err)
		}
	}
	for range entries {
		if err := <-done; err != nil {
			l.t.Fatal(err)
		}
	}
}

// start runs receivers until stop is called or the test ends.
func (l *log) start(receivers ...Receiver) (n *Notifier, stop func()) {
	l.t.Helper()
	n = New(Config{Log: l.Log, Topic: eventsTopic, Group: "weir.notify", Receivers: receivers, Logger: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); n.Run(ctx) }()
	stop = func() { cancel(); <-ended }
	l.t.Cleanup(stop)
	for _, r := range receivers {
		wait.Until(l.t, "the receiver has a position", func() bool {
			commits, err := l.Committed(l.t.Context(), GroupOf("weir.notify", r.Name), eventsTopic)
			return err == nil && commits[0].Offset >= 0
		})
	}
	return n, stop
}

func to(name string, target Target) Receiver {
	return Receiver{Name: name, Events: Events, Modes: []blocklist.Mode{blocklist.Enforce, blocklist.Shadow}, Severity: "warning", Group: 20 * time.Millisecond, PerMinute: 6000,
		Orders: []blocklist.Kind{blocklist.OrderBlock, blocklist.OrderAllow, blocklist.OrderPardon, blocklist.OrderPause},
		Stale:  15 * time.Minute, GiveUp: time.Hour, Timeout: 300 * time.Millisecond, To: target}
}

func hook(url string) *Webhook { return &Webhook{Server: Server{URL: url}} }

// An inbox is a stand-in for a receiver over HTTP. answer decides how it answers; nil is always 200.
type inbox struct {
	*httptest.Server
	mu       sync.Mutex
	messages []received
	answer   func(n int, w http.ResponseWriter, r *http.Request)
	asked    int
}

type received struct {
	ID       string
	Title    string
	Reason   string
	Severity string
	Test     bool
	Counts   []struct {
		Rule, Event string
		Count       int
	}
	Events []struct {
		EventID string `json:"event_id"`
		ID      string
		Rule    string
		Key     string
		Event   string
	}
	header http.Header
	text   string
}

func newInbox(t *testing.T, answer func(n int, w http.ResponseWriter, r *http.Request)) *inbox {
	t.Helper()
	i := &inbox{answer: answer}
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		i.mu.Lock()
		i.asked++
		n := i.asked
		i.mu.Unlock()
		if i.answer != nil {
			code := &codeWriter{ResponseWriter: w, code: http.StatusOK}
			i.answer(n, code, r)
			if code.code != http.StatusOK {
				return
			}
		}
		m := received{header: r.Header, text: string(text)}
		if json.Unmarshal(text, &m) != nil {
			m.Title = string(text)
		}
		i.mu.Lock()
		defer i.mu.Unlock()
		i.messages = append(i.messages, m)
	}))
	t.Cleanup(i.Close)
	return i
}

type codeWriter struct {
	http.ResponseWriter
	code int
}

func (c *codeWriter) WriteHeader(code int) { c.code = code; c.ResponseWriter.WriteHeader(code) }

// Unwrap is for http.ResponseController.
func (c *codeWriter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (i *inbox) all() []received {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.messages)
}

// keys are those of all events that came, in their order.
func (i *inbox) keys() (keys []string) {
	for _, m := range i.all() {
		for _, e := range m.Events {
			keys = append(keys, e.Key)
		}
	}
	return keys
}

func (i *inbox) await(t *testing.T, want ...string) {
	t.Helper()
	wait.Until(t, fmt.Sprint("the inbox has ", want), func() bool { return len(i.keys()) >= len(want) })
	if got := i.keys(); !slices.Equal(got, want) {
		t.Errorf("%q came, not %q", got, want)
	}
}

func TestMessagesAreGroupedByRule(t *testing.T) {
	t.Parallel()
	l, in := newLog(t), newInbox(t, nil)
	l.write(blocklist.EventBlocked, time.Now(), entry("per-ip", "203.0.113.1"))
	r := to("ops", hook(in.URL))
	r.Group = 300 * time.Millisecond
	r.Rules = []string{"per-*", "login"}
	l.start(r)
	first := entry("per-ip", "203.0.113.2")
	l.write(blocklist.EventBlocked, time.Now(), first, entry("login", "203.0.113.3"), entry("other", "203.0.113.4"), entry("per-ip", "203.0.113.5"))
	l.write(blocklist.EventBlocked, time.Now(), first) // as after an aggregator was killed
	in.await(t, "203.0.113.2", "203.0.113.5", "203.0.113.3")
	all := in.all()
	if len(all) != 2 || all[0].Title != "per-ip: 2 blocked" || all[1].Title != "login: 1 blocked" {
		t.Errorf("%+v", all)
	}
	for _, m := range all {
		if m.ID == "" || m.header.Get("Idempotency-Key") != m.ID || m.Severity != "warning" || m.header.Get("Content-Type") != "application/json" {
			t.Errorf("%+v", m)
		}
	}
}

func TestOneReceiverThatFailsDelaysNoOther(t *testing.T) {
	t.Parallel()
	l := newLog(t)
	hangs := make(chan struct{})
	defer close(hangs)
	good := newInbox(t, nil)
	answers := map[string]func(int, http.ResponseWriter, *http.Request){
		"fails": func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"hangs": func(_ int, w http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-hangs:
			}
			w.WriteHeader(http.StatusInternalServerError)
		},
	}
	receivers := []Receiver{to("good", hook(good.URL))}
	for name, answer := range answers {
		receivers = append(receivers, to(name, hook(newInbox(t, answer).URL)))
	}
	n, _ := l.start(receivers...)
	for i := range 20 {
		l.write(blocklist.EventBlocked, time.Now(), entry("per-ip", fmt.Sprint(i)))
	}
	wait.Until(t, "the good receiver has all", func() bool { return len(good.keys()) == 20 })
	wait.Until(t, "the others are known to fail", func() bool {
		failing := 0
		for _, s := range n.Status() {
			if s.Since != nil && s.Error != "" && s.Waiting > 0 {
				failing++
			}
		}
		return failing == len(answers)
	})
}

// A receiver that fails in many ways gets each event, with the id of its message.
func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	l := newLog(t)
	in := newInbox(t, func(n int, w http.ResponseWriter, r *http.Request) {
		switch n {
		case 1:
			w.WriteHeader(http.StatusInternalServerError)
		case 2:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		case 3: // drips an answer until the receiver's patience is over, before the status
			conn, _, _ := http.NewResponseController(w).Hijack()
			defer conn.Close()
			for range 10 {
				fmt.Fprint(conn, "H")
				time.Sleep(100 * time.Millisecond)
			}
			w.(*codeWriter).code = 0
		case 4: // breaks off
			conn, _, _ := http.NewResponseController(w).Hijack()
			conn.Close()
			w.(*codeWriter).code = 0
		case 5: // accepts with an answer that does not end
			chunk := []byte(strings.Repeat("x", 1<<20))
			for range 10_000 {
				if _, err := w.Write(chunk); err != nil || r.Context().Err() != nil {
					return
				}
			}
		}
	})
	n, _ := l.start(to("ops", hook(in.URL)))
	l.write(blocklist.EventBlocked, time.Now(), entry("per-ip", "a"))
	in.await(t, "a")
	l.write(blocklist.EventBlocked, time.Now(), entry("per-ip", "b"))
	in.await(t, "a", "b")
	wait.Until(t, "the receiver works again", func() bool { s := n.Status()[0]; return s.Sent == 2 && s.Error == "" && s.Dropped == 0 })
}

// remade is a log whose topic is deleted and made again at some time: the group has no position in it any more.
type remade struct {
	*local.Log
	is, failed atomic.Bool
}

func (r *remade) Committed(ctx context.Context, group, name string) ([]topic.Commit, error) {
	commits, err := r.Log.Committed(ctx, group, name)
	if err == nil && r.is.Load() {
		commits[0] = topic.Commit{Offset: -1}
	}
	return commits, err
}

func (r *remade) Reader(name string, partition int, offset int64, maxBytes int) topic.Reader {
	return &remadeReader{Reader: r.Log.Reader(name, partition, offset, maxBytes), log: r}
}

type remadeReader struct {
	topic.Reader
	log *remade
}

func (r *remadeReader) Identity(ctx context.Context) (topic.Identity, error) {
	id, err := r.Reader.Identity(ctx)
	if r.log.is.Load() {
		id += "-2"
	}
	return id, err
}

func (r *remadeReader) Fetch(ctx context.Context) ([]topic.Record, error) {
	if r.log.is.Load() && r.log.failed.CompareAndSwap(false, true) {
		return nil, topic.ErrNoTopic
	}
	return r.Reader.Fetch(ctx)
}

// A topic that is deleted and made again has only new events, and a receiver that runs sends all of them.
func TestAllEventsOfATopicThatIsMadeAgain(t *testing.T) {
	l := newLog(t)
	again := &remade{Log: l.Log}
	in := newInbox(t, nil)
	n := New(Config{Log: again, Topic: eventsTopic, Group: "weir.notify", Receivers: []Receiver{to("ops", hook(in.URL))}, Logger: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); n.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	wait.Until(t, "the receiver has a position", func() bool {
		commits, err := l.Committed(t.Context(), "weir.notify.ops", eventsTopic)
		return err == nil && commits[0].Offset >= 0
	})
	again.is.Store(true)
	wait.Until(t, "a fetch fails", again.failed.Load) // the receiver begins again after a second
	l.write("blocked", time.Now(), entry("login", "192.0.2.1"))
	in.await(t, "192.0.2.1")
}

// The inbox fails after it has accepted: the message comes again, with the same id.
func TestARepeatedMessageHasItsID(t *testing.T) {
	t.Parallel()
	l := newLog(t)
	var ids []string
	in := newInbox(t, nil)
	in.answer = func(n int, w http.ResponseWriter, r *http.Request) {
		in.mu.Lock()
		ids = append(ids, r.Header.Get("Idempotency-Key"))
		in.mu.Unlock()
		if n < 3 {
			w.WriteHeader(http.StatusBadGateway)
		}
	}
	l.start(to("ops", hook(in.URL)))
	l.write(blocklist.EventBlocked, time.Now(), entry("per-ip", "a"))
	in.await(t, "a")
	if slices.Sort(ids); len(ids) != 3 || ids[0] == "" || ids[0] != ids[2] {
		t.Errorf("%q", ids)
	}
}

func TestARefusedMessageIsDropped(t *testing.T) {
	t.Parallel()
	l := newLog(t)
	in := newInbox(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	n, _ := l.start(to("ops", hook(in.URL)))
	l.write(blocklist.EventBlocked, time.Now(), entry("per-ip", "a"))
	wait.Until(t, "dropped", func() bool { return n.Status()[0].Dropped == 1 })
	l.write(blocklist.EventBlocked, time.Now(), entry("per-ip", "b"))
	in.await(t, "b")
}

func TestAMessageIsGivenUp(t *testing.T) {
	t.Parallel()
	l := newLog(t)
	in := newInbox(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n < 3 {
			w.WriteHeader(http.StatusNotFound)
		}
	})
	r := to("ops", hook(in.URL))
	r.GiveUp = 2 * time.Second
	n, _ := l.start(r)
	l.write(blocklist.EventBlocked, time.Now(), entry("per-ip", "a"))
	wait.Until(t, "given up, or sent", func() bool { s := n.Status()[0]; return s.Dropped+s.Sent == 1 })
	l.write(blocklist.EventBlocked, time.Now(), entry("per-ip", "b"))
	wait.Until(t, "b came", func() bool { return slices.Contains(in.keys(), "b") })
}

// A process that ends in the middle of a round leaves the rest to the next one, and no message comes twice.
func TestARoundGoesOnInAnotherProcess(t *testing.T) {
	t.Parallel()
	l := newLog(t)
	in := newInbox(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	r := to("ops", hook(in.URL))
	r.Group = 300 * time.Millisecond
	_, stop := l.start(r)
	var want []string
	for i := range 6 {
		rule := fmt.Sprint("rule-", i)
		l.write(blocklist.EventBlocked, time.Now(), entry(rule, rule))
		want = append(want, rule)
	}
	wait.Until(t, "the third message fails", func() bool { in.mu.Lock(); defer in.mu.Unlock(); return in.asked == 3 })
	stop()
	l.write(blocklist.EventBlocked, time.Now(), entry("rule-6", "rule-6"))
	r.Group = 20 * time.Millisecond
	l.start(r)
	in.await(t, append(want, "rule-6")...)
	ids := map[string]bool{}
	for _, m := range in.all() {
		ids[m.ID] = true
	}
	if len(ids) != 7 {
		t.Errorf("%d ids of 7 messages", len(ids))
	}
}

func TestABacklogIsSummedUp(t *testing.T) {
	t.Parallel()
	l, in := newLog(t), newInbox(t, nil)
	r := to("ops", hook(in.URL))
	_, stop := l.start(r)
	stop()
	old := make([]*blocklist.Entry, 3*maxKept)
	for i := range old {
		old[i] = entry("per-ip", fmt.Sprint("old-", i))
	}
	l.write(blocklist.EventBlocked, time.Now().Add(-time.Hour), old...)
	r.Group = 2 * time.Second
	l.start(r)
	wait.Until(t, "one message", func() bool { return len(in.all()) == 1 })
	m := in.all()[0]
	if len(m.Events) != 0 || m.Reason != reasonStale || len(m.Counts) != 1 || m.Counts[0].Count != len(old) {
		t.Errorf("%+v", m)
	}
	l.write(blocklist.EventBlocked, time.Now(), entry("per-ip", "new"))
	in.await(t, "new")
}

func TestMessagesAreLimited(t *testing.T) {
	t.Parallel()
	l, in := newLog(t), newInbox(t, nil)
	r := to("ops", hook(in.URL))
	r.Group, r.PerMinute = 300*time.Millisecond, 3
	l.start(r)
	for i := range 10 {
		rule := fmt.Sprint("rule-", i)
		l.write(blocklist.EventBlocked, time.Now(), entry(rule, rule))
	}
	wait.Until(t, "three messages", func() bool { return len(in.all()) == 3 })
	all := in.all()
	if sum := all[2]; sum.Reason != reasonMany || len(sum.Counts) != 8 || len(all[0].Events) != 1 || all[1].Events[0].Key != "rule-1" {
		t.Errorf("%+v", all)
	}
}

// A stuckLog refuses commits while it is stuck, as a broker without enough replicas does. It still answers what was
// committed.
type stuckLog struct {
	*local.Log
	stuck *atomic.Bool
}

func (l stuckLog) RunGroup(ctx context.Context, g topic.Group, own topic.Owner) error {
	return l.Log.RunGroup(ctx, g, func(ctx context.Context, c *topic.Claim) error {
		return own(ctx, topic.NewClaim(c.Topic, c.Partition, c.Partitions, func(ctx context.Context, commit topic.Commit) error {
			if l.stuck.Load() {
				return topic.Errorf(topic.ErrOther, "not enough replicas")
			}
			return c.Commit(ctx, commit)
		}))
	})
}

// A message whose commit fails is sent once, and committed later.
func TestAMessageIsSentOnceWhileCommitsFail(t *testing.T) {
	t.Parallel()
	l, stuck := newLog(t), &atomic.Bool{}
	in := newInbox(t, func(n int, _ http.ResponseWriter, _ *http.Request) { stuck.Store(n == 1) })
	receiver := to("ops", hook(in.URL))
	n := New(Config{Log: stuckLog{l.Log, stuck}, Topic: eventsTopic, Group: "weir.notify", Receivers: []Receiver{receiver}, Logger: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { n.Run(ctx) })
	defer running.Wait()
	defer cancel()
	committed := func(offset int64) func() bool {
		return func() bool {
			commits, err := l.Committed(t.Context(), GroupOf("weir.notify", receiver.Name), eventsTopic)
			return err == nil && commits[0].Offset == offset
		}
	}
	wait.Until(t, "the receiver has a position", committed(0))
	l.write(blocklist.EventBlocked, time.Now(), entry("per-ip", "203.0.113.7"))
	wait.Until(t, "the message came", func() bool { return n.Status()[0].Sent > 0 })
	wait.Until(t, "the status has the reason", func() bool { return strings.Contains(n.Status()[0].Error, "not enough replicas") })
	time.Sleep(2*retryEvery + retryEvery/2)
	stuck.Store(false)
	wait.Until(t, "it is committed", committed(1))
	wait.Until(t, "the status has no error", func() bool { return n.Status()[0].Error == "" })
	if got := in.all(); len(got) != 1 {
		t.Errorf("it came %d times", len(got))
	}
}
