package offline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/cmd/internal/config"
	"weir/cmd/internal/daemon"
	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/output"
	"weir/internal/duration"
	"weir/internal/kafka"
	"weir/internal/topic"
	"weir/internal/topic/local"
	"weir/pkg/collector/topics"
	"weir/pkg/hit"
)

// kafka checks the brokers, then our topics and those that the sources read.
func (l *liveCheck) kafka(ctx context.Context) {
	process := &daemon.Process{Config: l.settings, Logger: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry()}
	to := process.KafkaConfig()
	to.Create = false
	if len(l.settings.Kafka.Brokers) == 0 {
		if socket := l.settings.TopicsSocket(); daemon.Listens(socket) {
			if remote := local.Dial(socket); l.cluster(ctx, remote) {
				l.topics(ctx, remote)
			}
			return
		}
		found, err := writableFolder(l.settings.StoreFolder())
		if former := daemon.FormerBroker(l.settings.BrokerFolder()); former != nil {
			err = former
		}
		l.judge("kafka", err, "no kafka.brokers; no process runs on Weir's own topics in "+found)
		return
	}

	client, err := kafka.Open(to)
	if err != nil {
		l.fails("kafka", "%v", err)
		return
	}
	defer client.Close()
	if l.cluster(ctx, client) {
		l.topics(ctx, client)
	}
}

func (l *liveCheck) cluster(ctx context.Context, client topic.Log) bool {
	ctx, cancel := context.WithTimeout(ctx, livePatience)
	defer cancel()
	cluster, err := client.Cluster(ctx)
	if len(l.settings.Kafka.Brokers) == 0 {
		l.judge("kafka", err, "no kafka.brokers; a process runs on Weir's own topics in "+l.settings.StoreFolder())
		return err == nil
	}
	l.judge("kafka", err, strings.Join(l.settings.Kafka.Brokers, ", ")+": "+output.Counted(len(cluster.Brokers), "broker"))
	return err == nil
}

func (l *liveCheck) topics(ctx context.Context, client topic.Log) {
	c := l.settings
	topics := []topic.Topic{daemon.HitsTopic(c), daemon.BlocklistTopic(c), daemon.EventsTopic(c)}
	if c.Collector.Evidence > 0 {
		topics = append(topics, daemon.EvidenceTopic(c))
	}
	if c.KeepsAttempts() {
		topics = append(topics, daemon.AttemptsTopic(c))
	}
	for _, wanted := range topics {
		l.topic(ctx, client, wanted)
	}
	for i := range c.Collector.Sources {
		if s := &c.Collector.Sources[i]; len(s.Brokers) == 0 {
			l.sourceTopics(ctx, client, s)
		}
	}
}

// ownBrokers checks the brokers of a source, and its topics there.
func (l *liveCheck) ownBrokers(ctx context.Context, s *config.Source) {
	process := &daemon.Process{Config: l.settings, Logger: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry()}
	client, err := kafka.Open(process.SourceConfig(s))
	if err != nil {
		l.judge("source "+s.Name, err, "")
		return
	}
	defer client.Close()
	l.sourceTopics(ctx, client, s)
}

func (l *liveCheck) sourceTopics(ctx context.Context, client topic.Log, s *config.Source) {
	for _, name := range s.Kafka {
		if topics.IsPattern(name) {
			l.pattern(ctx, client, s, name)
			continue
		}
		l.sourceTopic(ctx, client, "source "+s.Name, name)
	}
}

// pattern names the topics that a pattern stands for now, and reads the first.
func (l *liveCheck) pattern(ctx context.Context, client topic.Log, s *config.Source, pattern string) {
	asking, cancel := context.WithTimeout(ctx, livePatience)
	defer cancel()
	cluster, err := client.Cluster(asking)
	found := slices.DeleteFunc(cluster.Topics, func(name string) bool {
		return !topics.Matches(pattern, name) || slices.Contains(s.WithoutTopics(l.settings.Kafka.Prefix), name)
	})
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("no topic matches %s now", pattern)
	}
	l.judge("source "+s.Name, err, output.Counted(len(found), "topic")+" now, by the pattern "+pattern)
	if len(found) > 0 {
		slices.Sort(found)
		l.sourceTopic(ctx, client, "source "+s.Name, found[0])
	}
}

// topic compares one of our topics with the configuration.
func (l *liveCheck) topic(ctx context.Context, client topic.Log, want topic.Topic) {
	ctx, cancel := context.WithTimeout(ctx, livePatience)
	defer cancel()
	thing := "topic " + want.Name
	settings := want.Settings
	own := len(l.settings.Kafka.Brokers) == 0 // a process that keeps its topics itself adopts their settings
	found := output.Counted(want.Partitions, "partition")
	err := client.EnsureTopics(ctx, want)
	switch {
	case errors.Is(err, topic.ErrNoTopic) && (own || l.settings.Kafka.Create):
		found = "does not exist; the first part that needs it creates it, with " + found
	case err != nil:
		l.fails(thing, "%v", err)
		return
	case !own:
		if settings, err = client.TopicSettings(ctx, want.Name); errors.Is(err, topic.ErrForbidden) {
			l.holds(thing, "%s; its settings may not be read", found)
			return
		}
	}

	if err == nil || errors.Is(err, topic.ErrNoTopic) {
		err = errors.Join(l.keeps(want, settings), takes(settings))
	}
	l.judge(thing, err, found+settingsText(settings, want.Settings))
}

// settingsText lists the values of those settings of a topic that the configuration asks for.
func settingsText(settings, wanted map[string]string) (text string) {
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		text += ", " + name + "=" + settings[name]
	}
	return text
}

// keeps returns an error when a topic deletes records too early. Records must last at least as long as is configured,
// because the parts rely on it, and hits at least as long as the longest limit looks back.
func (l *liveCheck) keeps(want topic.Topic, settings map[string]string) error {
	configured, wanted := milliseconds(want.Settings["retention.ms"])
	kept, limited := milliseconds(settings["retention.ms"])
	if !wanted || !limited {
		return nil
	}
	if kept < configured {
		return exit.Unmetf("keeps records for %s, and parts go by %s: set retention.ms=%d", duration.Format(kept), duration.Format(configured), configured.Milliseconds())
	}
	if want.Name != daemon.HitsTopic(l.settings).Name {
		return nil
	}

	for _, r := range l.settings.RuleSet.Counted().Rules {
		if !r.CountsLog() {
			continue
		}
		for _, limit := range r.Limits {
			if limit.Per > kept {
				return exit.Unmetf("keeps hits for %s, and rule %s has the limit %s: make kafka.hits.retention, and retention.ms, longer than that",
					duration.Format(kept), r.Name, limit.Text)
			}
		}
	}

	return nil
}

// largestRecord has room for the largest batch of hits and its envelope. The records of the other topics are smaller.
const largestRecord = hit.MaxBytes + 4<<10

// takes returns an error when a topic refuses records that the parts may write.
func takes(settings map[string]string) error {
	if limit, err := strconv.Atoi(settings["max.message.bytes"]); err == nil && limit < largestRecord {
		return exit.Unmetf("takes records of at most %d bytes, and larger ones wait: set max.message.bytes=1048588", limit)
	}
	return nil
}

// milliseconds reads a setting; ok is false for one that is unlimited.
func milliseconds(text string) (d time.Duration, ok bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > int64(duration.Forever/time.Millisecond) {
		return 0, false
	}
	return time.Duration(n) * time.Millisecond, true
}

// fetchable tries to fetch a record: describing a topic and reading it are two rights.
func fetchable(ctx context.Context, reader topic.Reader) error {
	_, err := reader.Fetch(ctx)
	if errors.Is(err, topic.ErrTrimmed) { // just now
		return nil
	}
	return err
}

func (l *liveCheck) sourceTopic(ctx context.Context, client topic.Log, thing, name string) {
	ctx, cancel := context.WithTimeout(ctx, livePatience)
	defer cancel()
	spans, err := client.Offsets(ctx, name)
	if errors.Is(err, topic.ErrNoTopic) {
		l.fails(thing, "%v; correct the name, or create the topic: Weir creates no topic of a source", err)
		return
	}
	if settings, failed := client.TopicSettings(ctx, name); err == nil && failed == nil && topics.Compacted(settings) {
		err = exit.Unmetf("topic %s has cleanup.policy=%s: Kafka deletes its records although they are not old, and such requests do not count; set it to delete",
			name, settings["cleanup.policy"])
	}
	records, fetched := int64(0), false
	for number, span := range spans {
		records += span.End - span.Start
		if err == nil && !fetched && span.End > span.Start {
			fetched, err = true, fetchable(ctx, client.Reader(name, number, span.Start, 1))
		}
	}
	l.judge(thing, err, "topic "+name+": "+output.Counted(len(spans), "partition")+", "+output.Counted(int(records), "record"))
}
