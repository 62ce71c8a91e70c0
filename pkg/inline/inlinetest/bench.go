package inlinetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"weir/pkg/inline"
	"weir/pkg/inline/stored"
)

// BenchmarkHistory compares admitted attempts of 16 callers at many keys with a history and without one. Both stores are
// in the same server, and take turns. It reports attempts a second.
func BenchmarkHistory(b *testing.B, with, without stored.Backend) {
	rule := limited(b, "quota", 1_000_000, 1_000_000)
	for _, kept := range []bool{false, true, false, true} {
		b.Run(fmt.Sprintf("history=%v", kept), func(b *testing.B) {
			c := stored.Config{Backend: without, Slack: time.Minute}
			if kept {
				c.Backend, c.History = with, true
			}
			s := stored.New(c)
			defer s.Close()
			b.SetParallelism(8)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					within, cancel := context.WithTimeout(ctx, time.Minute)
					var v inline.Verdict
					if err := s.Take(within, &v, []inline.Want{of(rule, fmt.Sprint(rand.N(50_000)), 1)}); err != nil || !v.Admitted {
						b.Error(v, err)
					}
					cancel()
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "attempts/s")
		})
	}
}
