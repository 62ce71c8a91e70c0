package enforcer

import (
	"context"
	"net/http"
	"testing"
	"time"

	"weir/internal/store/redis/redistest"
	"weir/pkg/inline/redis"
)

// An application's request and an edge's are entries of the queue, with their fields. A refusal says that the queue is full.
func TestTakeIntoAQueue(t *testing.T) {
	server := redistest.Start(t)
	r := start(t, list(t), func(c *Config) {
		backend, err := redis.Open(redis.Options{URL: "redis://" + server.Addr})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { backend.Close() })
		c.Ruling.Rules = parsed(t, `rules: [{name: jobs, key: user, queue: {redis_stream: jobs, at_most: 2}, inline: true, on_error: refuse}]`)
		c.InlineStore = &InlineStore{Backend: backend, Name: server.Addr, Budget: 5 * time.Second}
	})
	take := `{"rule": "jobs", "fields": {"user": "alice", "path": "/a?token=secret", "tenant": "t"}}`
	if status, got := r.take(take); status != 200 || got.Limit != "2 queued" || *got.Remaining != 1 || got.Attempt == "" {
		t.Fatalf("%d %+v", status, got)
	}
	if got := r.checks("203.0.113.8", "X-User", "bob"); got.status != 200 || got.Header.Get("RateLimit") != `"jobs 2 queued";r=0` {
		t.Errorf("%d %v", got.status, got.Header)
	}
	refused := r.ask(r.client, http.MethodPost, "/v1/take", take)
	var got takeAnswer
	refused.read(t, &got)
	if refused.status != 429 || got.Again != nil || got.Limit != "2 queued" || *got.Remaining != 0 || refused.Header.Get("Retry-After") != "1" {
		t.Errorf("%d %s %v", refused.status, refused.body, refused.Header)
	}

	entries, err := server.Client.XRange(context.Background(), "jobs", "-", "+").Result()
	if err != nil || len(entries) != 2 {
		t.Fatal(entries, err)
	}
	if first := entries[0].Values; first["key"] != "alice" || first["field.user"] != "alice" || first["field.path"] != "/a" || first["field.tenant"] != "t" {
		t.Errorf("%v", first)
	}
	if second := entries[1].Values; second["key"] != "bob" || second["field.ip"] != "203.0.113.8" {
		t.Errorf("%v", second)
	}
	if got := r.get("/v1/keys?rule=jobs&key=alice"); got.status != 200 {
		t.Errorf("%d %s", got.status, got.body)
	}
}
