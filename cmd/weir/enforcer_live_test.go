package main

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
	"github.com/rogpeppe/go-internal/testscript"

	"weir/internal/kafka"
	"weir/internal/keys"
	"weir/pkg/blocklist"
	"weir/pkg/enforcer"
	"weir/pkg/request"
	"weir/pkg/rule"
)

// A liveEnforcer is a real enforcer over a list in memory. The records that it sends to the topic blocklist come back to it
// as from Kafka, unless Kafka is away.
type liveEnforcer struct {
	*enforcer.Enforcer
	set    *blocklist.Set
	log    *loopback
	cancel func()
	ended  chan error
}

const liveRules = `
rules:
  - {name: per-ip, key: ip, limits: [10/min]}
  - {name: sign-in, key: [user, path], limits: [5/min], mode: shadow}
`

// startEnforcer runs an enforcer that listens on weir.sock in a folder and on a port, with a file of keys if one is named.
func startEnforcer(folder string, known *keys.File, set *blocklist.Set) (*liveEnforcer, error) {
	rules, _, err := rule.Parse("rules.yaml", []byte(liveRules))
	if err != nil {
		return nil, err
	}
	e := &liveEnforcer{set: set, ended: make(chan error, 1)}
	e.log = &loopback{set: e.set, offset: set.Version().Offset}
	e.Enforcer, err = enforcer.Open(enforcer.Config{Set: e.set, Ruling: enforcer.Ruling{Rules: rules, Header: "X-Forwarded-For", Client: request.NewClient([]netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")})},
		Listen: "127.0.0.1:0", Socket: filepath.Join(folder, "weir.sock"), Keys: known, Refusal: http.StatusTooManyRequests, Folder: folder,
		Sinks: &enforcer.Sinks{Blocklist: e.log, Events: &loopback{}, Hits: &loopback{}}, EventsPartitions: 4, HitsPartitions: 16,
		Logger: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry()})
	if err != nil {
		return nil, err
	}
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

func (e *liveEnforcer) Close() error {
	e.cancel()
	return <-e.ended
}

// listOf returns a complete list; lists of another epoch are other lists.
func listOf(epoch int64, entries ...*blocklist.Entry) *blocklist.Set {
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

func (l *loopback) Send(_ context.Context, messages ...kafka.Message) error {
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

// blockedNow returns a verdict of this moment.
func blockedNow(rule, key string, fields map[string]string) *blocklist.Entry {
	now := time.Now().UnixMilli()
	return &blocklist.Entry{ID: blocklist.ID(rule, key, now, 1), Rule: rule, Key: key, Fields: fields, From: now, Until: now + 600_000, Decided: now,
		Limit: "10/min", Count: 11, Level: 1, By: "weir"}
}

func sampleList() []*blocklist.Entry {
	shadow := blockedNow("sign-in", "alice /login", map[string]string{"user": "alice", "path": "/login"})
	shadow.Mode, shadow.Level = blocklist.Shadow, 2
	return []*blocklist.Entry{
		blockedNow("per-ip", "203.0.113.7", map[string]string{"ip": "203.0.113.7"}),
		blockedNow("per-ip", "2001:db8::/64", map[string]string{"ip": "2001:db8::/64"}),
		shadow,
	}
}

// enforcer is for scripts: `enforcer data` runs one on the socket data/weir.sock, `enforcer data keys.yaml` one with keys;
// both listen on $PORT_URL too. After `enforcer data away` it does not reach Kafka any more.
func runEnforcer(ts *testscript.TestScript, _ bool, args []string) {
	live := liveOf(ts)
	if len(args) > 1 && args[1] == "away" {
		log := live.enforcer.log
		log.mu.Lock()
		log.away = true
		log.mu.Unlock()
		return
	}
	ts.Check(live.stopEnforcer())
	if args[0] == "stop" {
		return
	}
	var known *keys.File
	if len(args) > 1 {
		file, err := keys.Open(ts.MkAbs(args[1]))
		ts.Check(err)
		known = file
	}
	ts.Check(os.MkdirAll(ts.MkAbs(args[0]), 0o755))
	e, err := startEnforcer(ts.MkAbs(args[0]), known, listOf(1, sampleList()...))
	ts.Check(err)
	live.enforcer = e
	ts.Setenv("PORT_URL", "http://"+e.Address())
	ts.Defer(func() { ts.Check(live.stopEnforcer()) })
}

func (l *liveScript) stopEnforcer() error {
	if l.enforcer == nil {
		return nil
	}
	e := l.enforcer
	l.enforcer = nil
	return e.Close()
}
