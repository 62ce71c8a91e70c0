package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir/cmd/internal/config"
	"weir/cmd/internal/exit"
	"weir/internal/kafka"
	"weir/internal/telemetry"
	"weir/internal/topic"
)

// The names of our topics, after the prefix.
const (
	Hits      = "hits"
	Blocklist = "blocklist"
	Events    = "events"
)

// KafkaConfig makes the settings for a client of these topics, or of all when none is named.
func (p *Process) KafkaConfig(topics ...string) kafka.Config {
	k := &p.Config.Kafka
	c := kafka.Config{Brokers: k.Brokers, Prefix: k.Prefix, Create: k.Create, Topics: topics, Session: time.Duration(k.Session),
		Places: p.Config.GroupsFolder(), Logger: p.Logger, Metrics: p.Metrics}
	if k.TLS.On {
		c.TLS = &kafka.TLS{CA: k.TLS.CA, Cert: k.TLS.Cert, Key: k.TLS.Key}
	}
	if k.SASL.Mechanism != "" {
		c.SASL = &kafka.SASL{Mechanism: k.SASL.Mechanism, User: k.SASL.User, PasswordFile: k.SASL.PasswordFile}
	}
	return c
}

// openLog opens the topics that the configuration describes.
func (p *Process) openLog(topics ...string) (topic.Log, error) {
	if p.Local != nil {
		return shared{p.Local.Log}, nil
	}
	client, err := kafka.Open(p.KafkaConfig(topics...))
	if err != nil {
		return nil, err // a nil interface, not one with a nil client
	}
	return client, nil
}

// HitsTopic returns the required settings of weir.hits.
func HitsTopic(c *config.Config) topic.Topic {
	return topic.Topic{
		Name: c.Kafka.Prefix + Hits, Partitions: c.Kafka.Hits.Partitions, Replication: c.Kafka.Hits.Replication,
		Settings: deleteAfter(time.Duration(c.Kafka.Hits.Retention)),
	}
}

// BlocklistTopic returns the required settings of weir.blocklist: one partition, the last record of each key.
func BlocklistTopic(c *config.Config) topic.Topic {
	return topic.Topic{Name: c.Kafka.Prefix + Blocklist, Partitions: 1, Replication: c.Kafka.Blocklist.Replication,
		Settings: map[string]string{"cleanup.policy": "compact"}}
}

// EventsTopic returns the required settings of weir.events.
func EventsTopic(c *config.Config) topic.Topic {
	return topic.Topic{
		Name: c.Kafka.Prefix + Events, Partitions: c.Kafka.Events.Partitions, Replication: c.Kafka.Events.Replication,
		Settings: deleteAfter(time.Duration(c.Kafka.Events.Retention)),
	}
}

func deleteAfter(retention time.Duration) map[string]string {
	return map[string]string{"cleanup.policy": "delete", "retention.ms": fmt.Sprint(retention.Milliseconds())}
}

// EnsureTopics makes or checks topics. It retries until it succeeds, the context is done, or the topics differ from the
// configuration.
func (p *Process) EnsureTopics(ctx context.Context, client topic.Log, topics ...topic.Topic) error {
	faults := telemetry.NewFaults(p.Logger)
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		err := client.EnsureTopics(ctx, topics...)
		if err == nil {
			faults.Over("topics")
			return nil
		}
		if ctx.Err() != nil {
			return err
		}

		// Another configuration is needed, so trying again would only hide it.
		if errors.Is(err, topic.ErrPermanent) {
			return exit.Wrongf("kafka: %w", err)
		}

		faults.Note("topics", err)
		p.Health.Unready(err.Error())
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
