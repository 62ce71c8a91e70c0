package running

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/keys"
	"weir/internal/topic"
	"weir/pkg/blocklist"
	"weir/pkg/enforcer"
	"weir/pkg/request"
	"weir/pkg/rule"
)

// An Enforcer is a real enforcer over a list in memory. The records that it sends to the topic blocklist come back to it
// as from Kafka, unless Kafka is away.
type Enforcer struct {
	*enforcer.Enforcer
	Set    *blocklist.Set
	log    *loopback
	cancel func()
	ended  chan error
}

const liveRules = `
rules:
  - {name: per-ip, key: ip, limits: [10/min], guard: {most_new: 500/min}}
  - {name: sign-in, key: [user, path], limits: [5/min], mode: shadow}
  - {name: quota, key: user, limits: [2/min], inline: true}
  - {name: jobs, key: user, limits: [2 at once], lease: 1h, inline: true}
`

// StartEnforcer runs an enforcer that listens on weir.sock in a folder and on a port, with a file of keys if one is named.
func StartEnforcer(folder string, known *keys.File, set *blocklist.Set) (*Enforcer, error) {
	return StartEnforcerWith(folder, known, set, func(*Enforcer) {})
}

// StartEnforcerWith is StartEnforcer with a preparation before the enforcer serves, such as further paths.
func StartEnforcerWith(folder string, known *keys.File, set *blocklist.Set, prepare func(*Enforcer)) (*Enforcer, error) {
	rules, _, err := rule.Parse("rules.yaml", []byte(liveRules))
	if err != nil {
		return nil, err
	}
	e := &Enforcer{Set: set, ended: make(chan error, 1)}
	e.log = &loopback{set: e.Set, offset: set.Version().Offset}
	e.Enforcer, err = enforcer.Open(enforcer.Config{Set: e.Set, Ruling: enforcer.Ruling{Rules: rules, Header: "X-Forwarded-For", Client: request.NewClient([]netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")})},
		Listen: "127.0.0.1:0", Socket: filepath.Join(folder, "weir.sock"), Keys: known, Refusal: http.StatusTooManyRequests, Folder: folder,
		Sinks: &enforcer.Sinks{Blocklist: e.log, Events: &loopback{}, Hits: &loopback{}}, EventsPartitions: 4, HitsPartitions: 16,
		Logger: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry()})
	if err != nil {
		return nil, err
	}
	prepare(e)
	ctx, cancel := context.WithCancel(context.Background())
	e.cancel = cancel
	go func() { e.ended <- e.Run(ctx) }()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(folder, "weir.sock")); err == nil && e.Address() != "" {
			return e, nil
		}
	}
	return nil, fmt.Errorf("it does not listen: %w", e.Close())
}

// Close ends the enforcer.
func (e *Enforcer) Close() error {
	e.cancel()
	return <-e.ended
}

// LoseKafka makes Kafka take no records of the enforcer any more.
func (e *Enforcer) LoseKafka() {
	e.log.mu.Lock()
	defer e.log.mu.Unlock()
	e.log.away = true
}

// Put adds entries to the list as aggregators would.
func (e *Enforcer) Put(entries ...*blocklist.Entry) { e.log.put(entries...) }

// List returns a complete list; lists of another epoch are other lists.
func List(epoch int64, entries ...*blocklist.Entry) *blocklist.Set {
	set := blocklist.NewSet(blocklist.Limits{})
	filling, now := set.Fill(), time.Now().UnixMilli()
	for i, e := range entries {
		if err := filling.Apply(now, changeOf(int64(i), e)); err != nil {
			panic(err)
		}
	}
	filling.Swap(blocklist.State{Version: blocklist.Version{List: blocklist.ListID{Name: "tests", Epoch: epoch}, Offset: int64(len(entries))}, Whole: true, AsOf: now}, now)
	return set
}

func changeOf(offset int64, e *blocklist.Entry) blocklist.Change {
	value, err := e.Append(nil)
	if err != nil {
		panic(err)
	}
	return blocklist.Change{Offset: offset, Key: blocklist.RecordKey(e.Rule, e.Key), Value: value}
}

// A loopback takes messages as Kafka does, and gives them to a set.
type loopback struct {
	mu     sync.Mutex
	set    *blocklist.Set // nil for topics that are not read
	offset int64
	away   bool
}

func (l *loopback) Send(_ context.Context, messages ...topic.Message) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away {
		return nil // the message waits
	}
	for _, m := range messages {
		l.offset++
		if l.set != nil {
			if err := l.set.Apply(time.Now().UnixMilli(), blocklist.Change{Offset: l.offset, Key: m.Key, Value: m.Value}); err != nil {
				panic(err)
			}
		}
		m.Done(l.offset, nil)
	}
	return nil
}

// put adds entries to the set as aggregators would.
func (l *loopback) put(entries ...*blocklist.Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range entries {
		l.offset++
		if err := l.set.Apply(time.Now().UnixMilli(), changeOf(l.offset, e)); err != nil {
			panic(err)
		}
	}
}

// BlockedNow returns a verdict of this moment.
func BlockedNow(rule, key string, fields map[string]string) *blocklist.Entry {
	now := time.Now().UnixMilli()
	return &blocklist.Entry{ID: blocklist.ID(rule, key, now, 1), Rule: rule, Key: key, Fields: fields, From: now, Until: now + 600_000, Decided: now,
		Limit: "10/min", Count: 11, Level: 1, By: "weir"}
}

// SampleList are the entries that scripts see.
func SampleList() []*blocklist.Entry {
	shadow := BlockedNow("sign-in", "alice /login", map[string]string{"user": "alice", "path": "/login"})
	shadow.Mode, shadow.Level = blocklist.Shadow, 2
	return []*blocklist.Entry{
		BlockedNow("per-ip", "203.0.113.7", map[string]string{"ip": "203.0.113.7"}),
		BlockedNow("per-ip", "2001:db8::/64", map[string]string{"ip": "2001:db8::/64"}),
		shadow,
	}
}
