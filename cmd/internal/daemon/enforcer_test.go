package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/cmd/internal/config"
	"weir/internal/kafka"
	"weir/internal/kafka/embedded"
	"weir/internal/telemetry"
	"weir/internal/topic"
	"weir/pkg/blocklist"
	"weir/test/port"
	"weir/test/wait"
)

// An edge is an enforcer that runs in a test.
type edge struct {
	t             *testing.T
	folder        string
	listen, admin string
	process       *Process
	cancel        context.CancelFunc
	ended         chan error
	client        *http.Client
	change        func(*config.Config) // changes settings; may be nil
}

// newEdge makes an enforcer with the given lines in its configuration: kafka or follow.
func newEdge(t *testing.T, kafka, enforcer string) *edge {
	t.Helper()
	e := &edge{t: t, folder: t.TempDir(), listen: port.Reserve(t, "127.0.0.1"), admin: port.Reserve(t, "127.0.0.1"), client: &http.Client{Transport: &http.Transport{}}}
	e.write("rules.yaml", oneRule)
	e.write("key", "reader\n")
	e.write("keys.yaml", fmt.Sprintf("keys: [{name: the-writer, role: write, sha256: %x}, {name: the-reader, role: read, sha256: %x}]\n",
		sha256.Sum256([]byte("writer")), sha256.Sum256([]byte("reader"))))
	e.write("weir.yaml", fmt.Sprintf("data: data\nclient: {trusted_proxies: [127.0.0.0/8]}\n%s\nenforcer:\n  listen: %s\n  admin: %s\n  keys: keys.yaml\n%s\n", kafka, e.listen, e.admin, enforcer))
	t.Cleanup(e.stop)
	return e
}

// newFollower makes an enforcer that follows another one, and waits until it has the list.
func newFollower(t *testing.T, e *edge) *edge {
	t.Helper()
	follower := newEdge(t, "", fmt.Sprintf("  follow: http://%s\n  follow_key_file: key\n  without_list: deny\n", e.listen)).start()
	follower.await("ready", follower.ready) // because of the list: an enforcer that denies without one does not become ready with time
	return follower
}

func (e *edge) write(name, text string) {
	e.t.Helper()
	if err := os.WriteFile(filepath.Join(e.folder, name), []byte(text), 0o600); err != nil {
		e.t.Fatal(err)
	}
}

func (e *edge) start() *edge {
	e.t.Helper()
	options := config.Options{File: filepath.Join(e.folder, "weir.yaml")}
	settings, _, err := config.Load(options)
	if err != nil {
		e.t.Fatal(err)
	}
	if e.change != nil {
		e.change(settings)
	}
	e.process = &Process{Config: settings, Logger: slog.New(slog.NewTextHandler(e.t.Output(), nil)), Metrics: telemetry.Metrics("enforcer"), Health: telemetry.NewHealth()}
	ctx, cancel := context.WithCancel(context.Background())
	e.cancel, e.ended = cancel, make(chan error, 1)
	go func() { e.ended <- e.process.run(ctx, Enforcer, options) }()
	e.await("serving", func() bool { code, _ := e.ask("GET", e.admin, "/status", ""); return code == http.StatusOK })
	e.await("serving checks", func() bool {
		c, err := net.Dial("tcp", e.listen)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return e
}

func (e *edge) stop() {
	if e.cancel == nil {
		return
	}
	e.cancel()
	if err := <-e.ended; err != nil {
		e.t.Error(err)
	}
	e.cancel = nil
	e.client.CloseIdleConnections()
}

func (e *edge) ask(method, address, path, body string, headers ...string) (int, string) {
	q, err := http.NewRequest(method, "http://"+address+path, strings.NewReader(body))
	if err != nil {
		e.t.Fatal(err)
	}
	q.Header.Set("X-Api-Key", "writer")
	for i := 0; i < len(headers); i += 2 {
		q.Header.Set(headers[i], headers[i+1])
	}
	r, err := e.client.Do(q)
	if err != nil {
		return 0, err.Error()
	}
	defer r.Body.Close()
	text, _ := io.ReadAll(r.Body)
	return r.StatusCode, string(text)
}

func (e *edge) await(what string, is func() bool) {
	e.t.Helper()
	wait.Until(e.t, what, is)
}

func (e *edge) ready() bool {
	code, _ := e.ask("GET", e.admin, "/readyz", "")
	return code == http.StatusOK
}

// check asks about a client.
func (e *edge) check(ip string) int {
	code, _ := e.ask("GET", e.listen, "/v1/check", "", "X-Forwarded-For", ip)
	return code
}

// order makes a manual entry and reports whether Kafka has it.
func (e *edge) order(method, path, body string) (kafka bool) {
	e.t.Helper()
	code, text := e.ask(method, e.listen, path, body)
	var said struct {
		InForce struct{ Here, Kafka bool } `json:"in_force"`
	}
	if err := json.Unmarshal([]byte(text), &said); err != nil || code >= 300 || !said.InForce.Here {
		e.t.Fatalf("%s %s: %d %s", method, path, code, text)
	}
	return said.InForce.Kafka
}

// waiting returns how many manual entries wait for Kafka.
func (e *edge) waiting() (waiting int, caughtUp bool) {
	_, text := e.ask("GET", e.admin, "/status", "")
	var said struct {
		Waiting  int
		CaughtUp bool `json:"caught_up"`
	}
	if err := json.Unmarshal([]byte(text), &said); err != nil {
		e.t.Fatal(err, text)
	}
	return said.Waiting, said.CaughtUp
}

// A publisher writes records as aggregators do.
type publisher struct {
	t        *testing.T
	client   *kafka.Client
	producer *kafka.Producer
}

func newPublisher(t *testing.T, settings kafka.Config, c *config.Config) *publisher {
	t.Helper()
	client, err := kafka.Open(settings)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	process := &Process{Config: c, Logger: slog.New(slog.DiscardHandler), Health: telemetry.NewHealth()}
	if err := process.EnsureTopics(ctx, client, BlocklistTopic(c), EventsTopic(c), HitsTopic(c)); err != nil {
		t.Fatal(err)
	}
	p := &publisher{t, client, client.OpenProducer(topic.AppenderConfig{Topic: BlocklistTopic(c).Name, Partitions: 1})}
	t.Cleanup(func() {
		_ = p.producer.Close(context.Background())
		client.Close()
	})
	return p
}

func (p *publisher) send(key, value []byte, err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.producer.Send(p.t.Context(), topic.Message{Key: key, Value: value}); err != nil {
		p.t.Fatal(err)
	}
}

// marks writes the watermarks that make the list complete.
func (p *publisher) marks() {
	for i := range 16 {
		m := blocklist.Mark{List: blocklist.ListID{Name: "test", Epoch: 1}, Partition: i, Partitions: 16, At: time.Now().UnixMilli()}
		value, err := m.Append(nil)
		p.send(m.RecordKey(), value, err)
	}
}

func (p *publisher) block(ip string) {
	now := time.Now().UnixMilli()
	e := blocklist.Entry{ID: blocklist.ID("per-ip", ip, now, 1), Rule: "per-ip", Key: ip, Fields: map[string]string{"ip": ip}, From: now - 10, Until: now + 600_000, Decided: now - 5,
		Limit: "10/min", Count: 11, Level: 1, By: "weir", Generation: 1, Offset: now}
	value, err := e.Append(nil)
	p.send(blocklist.RecordKey("per-ip", ip), value, err)
}

// A mortal broker can be stopped and started again at the same address.
type mortal struct {
	t      *testing.T
	config embedded.Config
	broker *embedded.Broker
}

func newMortal(t *testing.T) *mortal {
	t.Helper()
	m := &mortal{t: t, config: embedded.Config{Folder: t.TempDir(), Listen: port.Reserve(t, "127.0.0.1")}}
	m.start()
	t.Cleanup(m.stop)
	return m
}

func (m *mortal) start() {
	m.t.Helper()
	var err error
	if m.broker, err = embedded.Open(m.config); err != nil {
		m.t.Fatal(err)
	}
}

func (m *mortal) stop() {
	if m.broker != nil {
		m.broker.Close()
		m.broker = nil
	}
}

func (m *mortal) yaml() string { return fmt.Sprintf("kafka: {brokers: [%q]}", m.config.Listen) }

func TestAnEnforcerFollowsKafkaAndTakesOrdersWithoutIt(t *testing.T) {
	t.Parallel()
	broker := newMortal(t)
	e := newEdge(t, broker.yaml(), "").start()
	if e.ready() {
		t.Error("ready without a list")
	}
	e.await("let through without a list", func() bool { return e.check("203.0.113.7") == http.StatusOK })
	p := newPublisher(t, kafka.Config{Brokers: []string{broker.config.Listen}, Prefix: "weir."}, e.process.Config)
	p.marks()
	p.block("203.0.113.7")
	e.await("ready", e.ready)
	e.await("blocked", func() bool { return e.check("203.0.113.7") == http.StatusTooManyRequests })

	follower := newFollower(t, e)
	if code := follower.check("203.0.113.7"); code != http.StatusTooManyRequests {
		t.Errorf("at who follows: %d", code)
	}
	if code, text := follower.ask("POST", follower.listen, "/v1/blocks", `{"target":"203.0.113.9","why":"w"}`); code != http.StatusConflict || !strings.Contains(text, e.listen) {
		t.Errorf("an order to who follows: %d %s", code, text)
	}

	broker.stop()
	if e.order("DELETE", "/v1/blocks?key=203.0.113.7&why=customer", "") {
		t.Error("Kafka has it, and it is away")
	}
	if code := e.check("203.0.113.7"); code != http.StatusOK {
		t.Errorf("unblocked without Kafka: %d", code)
	}
	follower.await("unblocked at who follows", func() bool { return follower.check("203.0.113.7") == http.StatusOK })
	e.order("POST", "/v1/blocks", `{"target":"198.51.100.0/24","why":"scraper"}`)
	follower.await("blocked at who follows", func() bool { return follower.check("198.51.100.7") == http.StatusTooManyRequests })
	taking := newEdge(t, broker.yaml(), fmt.Sprintf("  follow: http://%s\n  follow_key_file: key\n  without_list: deny\n", e.listen)).start()
	taking.await("ready, and blocked at who follows and takes orders too", func() bool {
		return taking.ready() && taking.check("198.51.100.7") == http.StatusTooManyRequests
	})
	taking.stop()
	if waiting, caughtUp := e.waiting(); waiting != 2 || caughtUp || !e.ready() {
		t.Errorf("%d wait, caught up %v, ready %v", waiting, caughtUp, e.ready())
	}

	e.stop()
	e.start()
	e.await("ready after a start without Kafka", e.ready)
	if code := e.check("203.0.113.7"); code != http.StatusOK {
		t.Errorf("after a start without Kafka: %d", code)
	}
	if code := e.check("198.51.100.7"); code != http.StatusTooManyRequests {
		t.Errorf("after a start without Kafka: %d", code)
	}
	broker.start()
	e.await("sent", func() bool { waiting, _ := e.waiting(); return waiting == 0 })
	other := newEdge(t, broker.yaml(), "").start()
	other.await("ready", other.ready)
	other.await("what was ordered is in force at another", func() bool {
		return other.check("203.0.113.7") == http.StatusOK && other.check("198.51.100.7") == http.StatusTooManyRequests
	})
}

func TestAnEnforcerReadsItsRulesAgain(t *testing.T) {
	t.Parallel()
	broker := newMortal(t)
	e := newEdge(t, broker.yaml(), "").start()
	p := newPublisher(t, kafka.Config{Brokers: []string{broker.config.Listen}, Prefix: "weir."}, e.process.Config)
	p.block("203.0.113.7")
	p.marks()
	e.await("blocked", func() bool { return e.check("203.0.113.7") == http.StatusTooManyRequests })
	e.write("rules.yaml", oneRule+"allow: [{ip: 203.0.113.7}]\n")
	e.await("allowed", func() bool { return e.check("203.0.113.7") == http.StatusOK })
	for path, want := range map[string]int{"/v1/blocklist.txt": 200, "/v1/decisions?ip=203.0.113.7": 200, "/v1/decisions/stream?startup=true": 200, "/health": 200} {
		if code, text := e.ask("GET", e.listen, path, "", "X-Api-Key", "reader"); code != want {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
	if problems, err := testutil.GatherAndLint(e.process.Metrics); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}

func TestWhenAnEnforcerIsReadyWithoutAList(t *testing.T) {
	for answer, want := range map[config.Answer]bool{"allow": true, "deny": false} {
		synctest.Test(t, func(t *testing.T) {
			var ready atomic.Bool
			p := &Process{Config: config.Default(), Health: telemetry.NewHealth()}
			p.Config.Enforcer.WithoutList = answer
			p.Health.OnChange(func(why string) { ready.Store(why == "") })
			p.Health.Lack("a list")
			p.Health.Ready()
			serving := make(chan struct{})
			close(serving)
			set := blocklist.NewSet(blocklist.Limits{})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var running sync.WaitGroup
			running.Go(func() { becomeReady(ctx, p, set, serving) })
			time.Sleep(withoutListAfter - 1)
			synctest.Wait()
			if ready.Load() {
				t.Errorf("%s: ready too early", answer)
			}
			time.Sleep(2 * time.Nanosecond)
			synctest.Wait()
			if ready.Load() != want {
				t.Errorf("%s: ready %v", answer, ready.Load())
			}
			set.Fill().Swap(blocklist.State{Whole: true}, 1)
			synctest.Wait()
			if !ready.Load() {
				t.Errorf("%s: not ready with a list", answer)
			}
			running.Wait()
		})
	}
}
