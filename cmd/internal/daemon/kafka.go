package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"weir/cmd/internal/config"
	"weir/cmd/internal/exit"
	"weir/internal/kafka"
	"weir/internal/topic"
)

// The names of our topics, after the prefix.
const (
	Hits      = "hits"
	Blocklist = "blocklist"
	Events    = "events"
	Attempts  = "attempts"
	Evidence  = "evidence"
)

// KafkaConfig makes the settings for a client of these topics, or of all when none is named.
func (p *Process) KafkaConfig(topics ...string) kafka.Config {
	k := &p.Config.Kafka
	c := kafka.Config{Brokers: k.Brokers, Prefix: k.Prefix, Create: k.Create, Topics: topics, Session: time.Duration(k.Session),
		Places: p.Config.GroupsFolder(), Logger: p.Logger, Metrics: p.Metrics}
	secure(&c, k.TLS, k.SASL)
	return c
}

// SourceConfig makes the settings for a client of the topics of a source.
func (p *Process) SourceConfig(s *config.Source) kafka.Config {
	known := s.Kafka
	if s.HasPatterns() {
		known = nil // all topics of the cluster
	}
	if len(s.Brokers) == 0 {
		return p.KafkaConfig(known...)
	}
	at := slices.IndexFunc(p.Config.Collector.Sources, func(other config.Source) bool { return other.Name == s.Name })
	c := kafka.Config{Brokers: s.Brokers, Section: fmt.Sprintf("collector.sources.%d", at), Topics: known, Logger: p.Logger.With("source", s.Name), Metrics: p.Metrics}
	secure(&c, s.TLS.Client(), s.SASL)
	return c
}

func secure(c *kafka.Config, t config.ClientTLS, s config.SASL) {
	if t.On {
		c.TLS = &kafka.TLS{CA: t.CA, Cert: t.Cert, Key: t.Key}
	}
	if s.Mechanism != "" {
		c.SASL = &kafka.SASL{Mechanism: s.Mechanism, User: s.User, PasswordFile: s.PasswordFile, TokenFile: s.TokenFile}
	}
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

// AttemptsTopic returns the required settings of weir.attempts.
func AttemptsTopic(c *config.Config) topic.Topic {
	return topic.Topic{
		Name: c.Kafka.Prefix + Attempts, Partitions: c.Kafka.Attempts.Partitions, Replication: c.Kafka.Attempts.Replication,
		Settings: deleteAfter(time.Duration(c.Kafka.Attempts.Retention)),
	}
}

// EvidenceTopic returns the required settings of weir.evidence.
func EvidenceTopic(c *config.Config) topic.Topic {
	return topic.Topic{
		Name: c.Kafka.Prefix + Evidence, Partitions: c.Kafka.Evidence.Partitions, Replication: c.Kafka.Evidence.Replication,
		Settings: deleteAfter(time.Duration(c.Kafka.Evidence.Retention)),
	}
}

func deleteAfter(retention time.Duration) map[string]string {
	return map[string]string{"cleanup.policy": "delete", "retention.ms": fmt.Sprint(retention.Milliseconds())}
}

// EnsureTopics makes or checks topics. It retries until it succeeds, the context is done, or the topics differ from the
// configuration.
func (p *Process) EnsureTopics(ctx context.Context, client topic.Log, topics ...topic.Topic) error {
	return p.retry(ctx, "topics", p.Health.Unready, passesInKafka, func() error { return ensureTopics(ctx, client, topics) })
}

// ensureTopics makes of a permanent error one that another configuration corrects: trying again would only hide it.
func ensureTopics(ctx context.Context, client topic.Log, topics []topic.Topic) error {
	err := client.EnsureTopics(ctx, topics...)
	if errors.Is(err, topic.ErrPermanent) && ctx.Err() == nil {
		return exit.Wrongf("kafka: %w", err)
	}
	return err
}

func passesInKafka(err error) bool { return !errors.Is(err, topic.ErrPermanent) }
