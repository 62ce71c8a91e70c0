package main

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"weir/internal/kafka"
	"weir/internal/kafka/embedded"
	"weir/internal/keys"
	"weir/internal/topic"
	"weir/pkg/enforcer"
	"weir/pkg/enforcer/console"
	"weir/test/running"
)

// topics is for scripts: `topics data` has topics with samples in data as weir run does, `topics data quiet` does not
// listen, `topics stop` ends it.
func runTopics(ts *testscript.TestScript, _ bool, args []string) {
	live := liveOf(ts)
	if live.stopTopics(); args[0] == "stop" {
		return
	}
	b, err := running.StartTopics(ts.MkAbs(args[0]), len(args) == 1)
	ts.Check(err)
	live.topics = b
	ts.Defer(live.stopTopics)
	ts.Check(running.FillSamples(b.Log))
}

// kafka is for scripts: `kafka TOPIC` runs a broker with a topic, and sets $KAFKA to its address.
func runKafka(ts *testscript.TestScript, _ bool, args []string) {
	broker, err := embedded.Open(embedded.Config{Folder: ts.MkAbs("kafka")})
	ts.Check(err)
	ts.Defer(broker.Close)
	client, err := kafka.Open(kafka.Config{Brokers: []string{broker.Address()}, Create: true})
	ts.Check(err)
	defer client.Close()
	ts.Check(client.EnsureTopics(context.Background(), topic.Topic{Name: args[0], Partitions: 2}))
	ts.Setenv("KAFKA", broker.Address())
}

// A liveScript contains the parts that a script runs next to weir. Scripts run in parallel, each with its own.
type liveScript struct {
	topics    *running.Topics
	collector *running.Collector
	enforcer  *running.Enforcer
}

func liveOf(ts *testscript.TestScript) *liveScript { return ts.Value(liveScript{}).(*liveScript) }

func (l *liveScript) stopTopics() {
	if l.topics != nil {
		l.topics.Close()
		l.topics = nil
	}
}

// enforcer is for scripts: `enforcer data` runs one on the socket data/weir.sock, `enforcer data keys.yaml` one with keys;
// both listen on $PORT_URL too. After `enforcer data away` it does not reach Kafka any more.
func runEnforcer(ts *testscript.TestScript, _ bool, args []string) {
	live := liveOf(ts)
	if len(args) > 1 && args[1] == "away" {
		live.enforcer.LoseKafka()
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
	set := running.List(1, running.SampleList()...)
	e, err := running.StartEnforcerWith(ts.MkAbs(args[0]), known, set, func(e *running.Enforcer) {
		e.Mount(console.New(console.Config{Set: set, Person: enforcer.Person, Logger: slog.New(slog.DiscardHandler)}).Handle)
	})
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

// collector is for scripts: it runs a stub and sets $COLLECTOR to its address; `collector received FILE` writes what the
// stub has taken since.
func runCollector(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) == 2 {
		ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(liveOf(ts).collector.Received()), 0o644))
		return
	}
	stub := running.NewCollector()
	ts.Defer(stub.Close)
	liveOf(ts).collector = stub
	ts.Setenv("COLLECTOR", strings.TrimPrefix(stub.URL, "http://"))
}

// aggregator is for scripts: two aggregators share the keys; $AGG2 counts one of them, and both answer /v1/top.
func runAggregators(ts *testscript.TestScript, _ bool, _ []string) {
	says := func(key, top string) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			query := r.URL.Query()
			switch {
			case r.URL.Path == "/v1/top" && query.Get("rule") == "idle":
				io.WriteString(w, "[]")
			case r.URL.Path == "/v1/top":
				io.WriteString(w, top)
			case query.Get("rule") == "sign-in", query.Get("rule") == "sign-up":
				http.Error(w, "no key of it", http.StatusBadRequest)
			case query.Get("key") != "203.0.113.7" && key != "":
				io.WriteString(w, `{"rule":"per-ip","key":"198.51.100.1","where":"none","at":"2026-03-03T08:00:07.5Z","limits":[]}`)
			case key == "":
				http.Error(w, "partition 3, where this key is counted, is another aggregator's", http.StatusNotFound)
			default:
				io.WriteString(w, key)
			}
		}))
		ts.Defer(server.Close)
		return server.URL
	}
	ts.Setenv("AGG1", says("", `[{"rule":"per-ip","key":"192.0.2.1","limit":"10/min","count":9,"share":0.9}]`))
	ts.Setenv("AGG2", says(`{"rule":"per-ip","key":"203.0.113.7","partition":3,"where":"hot","at":"2026-03-03T08:00:07.5Z","newest":"2026-03-03T08:00:07Z",
		"limits":[{"limit":"10/min","count":11,"clears":"2026-03-03T08:01:07Z"},{"limit":"100/hour","count":0,"clears":null}],
		"block":{"id":"x","from":"2026-03-03T08:00:07Z","until":"2026-03-03T08:10:07Z","limit":"10/min","count":11,"level":1,"blocked":true,"ended":null}}`,
		`[{"rule":"per-ip","key":"203.0.113.7","limit":"10/min","count":11,"share":1.1}]`))
}
