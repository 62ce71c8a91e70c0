package pace

import (
	"fmt"
	"log/slog"
	"testing"
	"time"
)

// BenchmarkBacklog moves many members through a backlog together. An operation is one step of one member: it is held
// because others are behind, reaches the time that it could send up to, and is woken when all have.
func BenchmarkBacklog(b *testing.B) {
	for _, count := range []int{16, 256, 1024} {
		b.Run(fmt.Sprint("members=", count), func(b *testing.B) {
			g := New(slog.New(slog.DiscardHandler), time.Now)
			members := make([]*Member, count)
			for i := range members {
				members[i] = g.Share("", 10*time.Minute)
				members[i].Reach(0)
			}

			woken := map[*Member]bool{}
			slack := members[0].Slack()
			b.ReportAllocs()
			b.ResetTimer()
			for n := 0; n < b.N; n += count {
				at := int64(n/count+1) * slack
				clear(woken)
				for _, m := range members {
					m.Ask(at+1, func() { woken[m] = true })
				}
				for _, m := range members {
					m.Reach(at)
				}
				if len(woken) != count {
					b.Fatalf("%d of %d members were woken", len(woken), count)
				}
			}
		})
	}
}

// BenchmarkIdle has one of many members read something while the others have nothing to read, as the shards of a large
// stream do. An operation is its beginning and its end.
func BenchmarkIdle(b *testing.B) {
	for _, count := range []int{16, 4096} {
		b.Run(fmt.Sprint("members=", count), func(b *testing.B) {
			g := New(slog.New(slog.DiscardHandler), time.Now)
			var m *Member
			for range count {
				m = g.Join("", 10*time.Minute)
				m.Idle(true)
			}
			for b.Loop() {
				m.Idle(false)
				m.Idle(true)
			}
		})
	}
}
