package enforcer

import (
	"fmt"
	"testing"

	"weir/internal/topic"
)

// A forgetting appender takes everything.
type forgetting struct{ keeping }

func (*forgetting) TrySend(messages ...topic.Message) error {
	for i := range messages {
		messages[i].Done(0, nil)
	}
	return nil
}

// BenchmarkHistory measures a decision with and without a history, next to nothing else.
func BenchmarkHistory(b *testing.B) {
	for _, kept := range []bool{false, true} {
		b.Run(fmt.Sprintf("kept=%v", kept), func(b *testing.B) {
			r := open(b, list(b), func(c *Config) {
				c.Logger = quiet
				c.Ruling.Rules = parsed(b, "rules: [{name: quota, key: ip, limits: [1000000000/s], inline: true}]")
				if kept {
					c.History = &History{Appender: &forgetting{}, Partitions: 4}
				}
			})
			r.run()
			ruling := r.ruling.Load()
			a := ruling.askings.Get().(*asking)
			a.request.Method, a.request.Host, a.request.Path, a.request.Agent = "GET", "shop.example", "/api/items", "Mozilla/5.0 (X11; Linux x86_64)"
			b.ReportAllocs()
			for b.Loop() {
				a.attempt.reset()
				a.attempt.addAlways(0, ruling.limits[0].enforced, []byte("203.0.113.7"), 1)
				a.attempt.about.add(&a.request)
				r.Enforcer.take(ruling, &a.attempt)
			}
		})
	}
}
