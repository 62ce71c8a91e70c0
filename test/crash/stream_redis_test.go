package crash

import (
	"context"
	"fmt"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"weir/internal/store/redis/redistest"
)

func newRedisStream(t testing.TB) *streamServer {
	t.Helper()
	server, ctx := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always"), context.Background()
	return &streamServer{
		source: fmt.Sprintf("{redis_stream: {url: %q, keys: [logs]}, format: combined}", "redis://"+server.Addr),
		write: func(lines []string) {
			_, err := server.Client.Pipelined(ctx, func(p goredis.Pipeliner) error {
				for _, line := range lines {
					p.XAdd(ctx, &goredis.XAddArgs{Stream: "logs", Values: []string{"line", line}})
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		},
		restart: func() {
			server.Kill()
			server.Restart()
		},
	}
}
