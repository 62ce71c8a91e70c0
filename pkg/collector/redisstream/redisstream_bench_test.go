package redisstream_test

import (
	"context"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"weir/internal/store/redis"
	"weir/internal/store/redis/redistest"
	"weir/pkg/collector/ordered"
	"weir/pkg/collector/redisstream"
	"weir/test/streams"
)

const benchEntries = 400_000

// BenchmarkStream measures a collector that reads a stream and counts its lines, and a bare client that only reads it.
func BenchmarkStream(b *testing.B) {
	server, ctx := redistest.Start(b), context.Background()
	for n := 0; n < benchEntries; {
		_, err := server.Client.Pipelined(ctx, func(p goredis.Pipeliner) error {
			for range 1000 {
				p.XAdd(ctx, &goredis.XAddArgs{Stream: "logs", Values: []string{"line", streams.Line(n)}})
				n++
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	b.Run("weir", func(b *testing.B) {
		for b.Loop() {
			c := streams.New(b, "redis_stream", func() ([]ordered.Log, error) {
				return redisstream.Open(redisstream.Options{Redis: redis.Options{URL: "redis://" + server.Addr}, Keys: []string{"logs"}})
			})
			c.Reads(benchEntries)
			c.Stop()
		}
		b.ReportMetric(float64(b.N)*benchEntries/b.Elapsed().Seconds(), "lines/s")
	})
	b.Run("bare-client", func(b *testing.B) {
		for b.Loop() {
			for n, after := 0, "-"; n < benchEntries; {
				messages, err := server.Client.XRangeN(ctx, "logs", after, "+", 2000).Result()
				if err != nil {
					b.Fatal(err)
				}
				n += len(messages)
				after = "(" + messages[len(messages)-1].ID
			}
		}
		b.ReportMetric(float64(b.N)*benchEntries/b.Elapsed().Seconds(), "lines/s")
	})
}
