package daemon

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"weir/cmd/internal/config"
	"weir/pkg/enforcer/past"
	"weir/pkg/enforcer/whatif"
)

// openEvents makes the index of events; nil where this enforcer has none.
func (r *RunningEnforcer) openEvents() *past.Index {
	p, c := r.process, r.process.Config
	if noEvents(c) != "" {
		return nil
	}
	return past.New(past.Config{
		Log: r.client, Topic: EventsTopic(c).Name, Folder: filepath.Join(c.Data, "enforcer", "events"), Retention: time.Duration(c.Kafka.Events.Retention),
		MaxEvents: c.Enforcer.Events, Logger: p.Logger, Metrics: p.Metrics,
	})
}

// noEvents returns why an enforcer has no index of events; empty when it has one.
func noEvents(c *config.Config) string {
	switch {
	case c.Enforcer.Follow != followKafka:
		return fmt.Sprintf("this enforcer follows %s and keeps no index of events: ask an enforcer that reads the topics", c.Enforcer.Follow)
	case c.Enforcer.Events == 0:
		return "this enforcer keeps no index of events: enforcer.events is 0"
	}
	return ""
}

// whatIf answers what other limits would have done, from the hits in the topic.
func (r *RunningEnforcer) whatIf(ctx context.Context, q whatif.Question) (*whatif.Answer, error) {
	c := r.process.Config
	return whatif.Ask(ctx, whatif.Config{
		Log: r.client, Topic: HitsTopic(c).Name, Retention: time.Duration(c.Kafka.Hits.Retention), Late: countedLate(c), Ahead: time.Duration(c.Time.Ahead),
	}, q)
}
