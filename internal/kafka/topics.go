package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"weir/internal/sleep"
	"weir/internal/topic"
)

// EnsureTopics creates missing topics, or returns the commands for an administrator when Config.Create is not set. It
// returns when every partition answers. Existing topics must have the given number of partitions (ErrPartitions) and
// cleanup.policy (ErrSettings), and writes to them must be durable (min.insync.replicas). It logs other settings that
// differ. It returns all errors together; the first transient one ends it.
func (c *Client) EnsureTopics(ctx context.Context, topics ...topic.Topic) error {
	var faults []error
	for _, wanted := range topics {
		err := c.ensure(ctx, wanted)
		if err != nil && !errors.Is(err, topic.ErrPermanent) && !errors.Is(err, topic.ErrNoTopic) {
			return err
		}
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

func (c *Client) ensure(ctx context.Context, wanted topic.Topic) error {
	found, err := c.topic(ctx, wanted.Name)
	// The metadata is older than the answer to the creation, so it is asked until it has the topic.
	if errors.Is(err, topic.ErrNoTopic) {
		if err := c.create(ctx, wanted); err != nil {
			return err
		}
		found, err = c.appeared(ctx, wanted.Name)
	}

	if err != nil {
		return err
	}
	if len(found.Partitions) != wanted.Partitions {
		return otherPartitions(wanted.Name, len(found.Partitions), wanted.Partitions)
	}
	if err := c.checkSettings(ctx, wanted, found); err != nil {
		return err
	}

	// Wait until every partition reports its extent. A partition that was just created, or whose broker has just
	// started, does not for a moment.
	var t trouble
	for {
		_, err := c.Offsets(ctx, wanted.Name)
		if err == nil || ctx.Err() != nil {
			return err
		}
		pause := t.another(time.Now())
		if time.Since(t.since) > requestTimeout {
			c.errorLog.note("topics", err)
		}
		sleep.For(ctx, pause)
	}
}

func otherPartitions(name string, found, want int) error {
	return topic.Errorf(topic.ErrPartitions, "topic %s has %d partitions and not %d; their number is fixed for a topic's life", name, found, want)
}

func (c *Client) create(ctx context.Context, wanted topic.Topic) error {
	if !c.config.Create {
		return topic.Errorf(topic.ErrNoTopic, "topic %s does not exist; make it: %s", wanted.Name, command(wanted, c.config.Brokers[0]))
	}
	const ofBroker = -1 // the broker's default
	request := kafkago.TopicConfig{Topic: wanted.Name, NumPartitions: wanted.Partitions, ReplicationFactor: cmp.Or(wanted.Replication, ofBroker)}
	for _, name := range slices.Sorted(maps.Keys(wanted.Settings)) {
		request.ConfigEntries = append(request.ConfigEntries, kafkago.ConfigEntry{ConfigName: name, ConfigValue: wanted.Settings[name]})
	}
	response, err := c.kafka.CreateTopics(ctx, &kafkago.CreateTopicsRequest{Topics: []kafkago.TopicConfig{request}})
	if err == nil {
		err = response.Errors[wanted.Name]
	}
	if err != nil && !errors.Is(err, kafkago.TopicAlreadyExists) { // another process has just created it
		return fmt.Errorf("making topic %s: %w", wanted.Name, c.cause(ctx, err))
	}

	return nil
}

// command returns the command that creates the topic.
func command(t topic.Topic, broker string) string {
	words := []string{"kafka-topics.sh", "--bootstrap-server", broker, "--create", "--topic", t.Name, "--partitions", strconv.Itoa(t.Partitions)}
	if t.Replication != 0 {
		words = append(words, "--replication-factor", strconv.Itoa(t.Replication))
	}
	for _, name := range slices.Sorted(maps.Keys(t.Settings)) {
		words = append(words, "--config", name+"="+t.Settings[name])
	}
	return strings.Join(words, " ")
}

// appeared waits until the metadata has a topic that was just created.
func (c *Client) appeared(ctx context.Context, name string) (kafkago.Topic, error) {
	for {
		found, err := c.topic(ctx, name)
		if err == nil && len(found.Partitions) > 0 {
			return found, nil
		}
		if err != nil && !errors.Is(err, topic.ErrNoTopic) && !errors.Is(err, topic.ErrNoLeader) {
			return found, err
		}
		sleep.For(ctx, firstPause)
	}
}

// checkSettings compares an existing topic with its required state.
func (c *Client) checkSettings(ctx context.Context, want topic.Topic, found kafkago.Topic) error {
	settings, err := c.TopicSettings(ctx, want.Name)
	// A client may be allowed to write a topic and not to read its settings: then nothing is known against them.
	if errors.Is(err, topic.ErrForbidden) {
		c.config.Logger.Warn("Kafka: the topic's settings cannot be checked", "topic", want.Name, "error", err)
		return nil
	}
	if err != nil {
		return err
	}

	copies := len(found.Partitions[0].Replicas)
	if insync, _ := strconv.Atoi(settings["min.insync.replicas"]); insync > copies {
		return topic.Errorf(topic.ErrSettings, "topic %s can never be written: min.insync.replicas is %d, and each partition has %d copies", want.Name, insync, copies)
	}
	if want.Replication != 0 && copies != want.Replication {
		c.config.Logger.Warn("Kafka: a topic has another replication than configured", "topic", want.Name, "found", copies, "configured", want.Replication)
	}

	for _, name := range slices.Sorted(maps.Keys(want.Settings)) {
		if settings[name] == want.Settings[name] {
			continue
		}

		// A wrong policy loses records that are needed. Other settings only cost space or time.
		if name == "cleanup.policy" {
			return topic.Errorf(topic.ErrSettings, "topic %s has cleanup.policy=%s where %s is needed; change it: kafka-configs.sh --bootstrap-server %s --alter --topic %s --add-config cleanup.policy=%s",
				want.Name, settings[name], want.Settings[name], c.config.Brokers[0], want.Name, want.Settings[name])
		}
		c.config.Logger.Warn("Kafka: a topic has another setting than configured", "topic", want.Name, "setting", name, "found", settings[name], "configured", want.Settings[name])
	}

	return nil
}

// TopicSettings returns a topic's settings, in Kafka's names, including those that were never set.
func (c *Client) TopicSettings(ctx context.Context, name string) (map[string]string, error) {
	response, err := c.kafka.DescribeConfigs(ctx, &kafkago.DescribeConfigsRequest{Resources: []kafkago.DescribeConfigRequestResource{
		{ResourceType: kafkago.ResourceTypeTopic, ResourceName: name}}})
	if err == nil {
		err = response.Resources[0].Error
	}
	if err != nil {
		return nil, fmt.Errorf("asking for the settings of topic %s: %w", name, c.cause(ctx, err))
	}

	settings := map[string]string{}
	for _, entry := range response.Resources[0].ConfigEntries {
		settings[entry.ConfigName] = entry.ConfigValue
	}
	return settings, nil
}
