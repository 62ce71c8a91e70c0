package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	goredis "github.com/redis/go-redis/v9"

	"weir/internal/store/redis/redistest"
	"weir/test/journals"
	"weir/test/nats"
)

// BenchmarkStreamLatency is BenchmarkLatency for streams: from the entry that breaks a limit, as it is appended, to the
// first check that is refused.
//
//	go test -run '^$' -bench StreamLatency -benchtime 1x -timeout 30m ./test/e2e
func BenchmarkStreamLatency(b *testing.B) {
	for _, of := range []struct {
		name  string
		start func(testing.TB) (source string, log lineLog)
	}{{"journald", journalLog}, {"redis", redisLog}, {"nats", natsLog}} {
		b.Run(of.name, func(b *testing.B) {
			source, log := of.start(b)
			f := newFleet(b, latencyRules, "")
			f.start(build(b, "weir"), "run", "--set", hotKeys, "--set", "collector.sources=["+source+"]")
			f.ready()
			for b.Loop() {
				f.probeLog(b, log, 1000)
			}
		})
	}
}

// A journalOf is a writer of a journal.
type journalOf struct{ *journals.Writer }

func journalLog(t testing.TB) (source string, log lineLog) {
	folder := t.TempDir()
	return fmt.Sprintf("{journald: {folder: %q, unit: nginx}, format: combined}", folder), journalOf{journals.Start(t, folder, "system")}
}

func (j journalOf) append(lines []byte) error {
	var texts []string
	for line := range strings.Lines(string(lines)) {
		texts = append(texts, strings.TrimSuffix(line, "\n"))
	}
	j.Add(texts)
	return nil
}

// A redisStream is a stream in a Redis.
type redisStream struct{ *goredis.Client }

func redisLog(t testing.TB) (source string, log lineLog) {
	server := redistest.Start(t, "--appendonly", "yes")
	return fmt.Sprintf("{redis_stream: {url: %q, keys: [logs]}, format: combined}", "redis://"+server.Addr), redisStream{server.Client}
}

func (r redisStream) append(lines []byte) error {
	_, err := r.Pipelined(context.Background(), func(p goredis.Pipeliner) error {
		for line := range bytes.Lines(lines) {
			p.XAdd(context.Background(), &goredis.XAddArgs{Stream: "logs", Values: []any{"line", bytes.TrimSuffix(line, []byte("\n"))}})
		}
		return nil
	})
	return err
}

// A natsStream is a stream of NATS JetStream.
type natsStream struct{ jetstream.JetStream }

func natsLog(t testing.TB) (source string, log lineLog) {
	server := nats.Start(t, nats.Unsynced)
	if _, err := server.Client().CreateStream(t.Context(), jetstream.StreamConfig{Name: "logs"}); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("{nats: {url: %q, stream: logs}, format: combined}", server.URL), natsStream{server.Client()}
}

func (n natsStream) append(lines []byte) error {
	var faults []error
	for line := range bytes.Lines(lines) {
		_, err := n.PublishAsync("logs", bytes.TrimSuffix(line, []byte("\n")))
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}
