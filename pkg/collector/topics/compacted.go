package topics

import (
	"context"
	"log/slog"
	"strings"

	"weir/internal/topic"
)

// Compacted reports whether Kafka keeps only the last record of each key in a topic with these settings. Such a topic
// lacks requests that were not read in time, and no offset says how many.
func Compacted(settings map[string]string) bool {
	return strings.Contains(settings["cleanup.policy"], "compact")
}

// warnOfCompaction logs with the first partition of a topic that it is compacted. The right to read the settings may be
// missing: then nothing is known against the topic.
func warnOfCompaction(ctx context.Context, client topic.Log, at topicPartition, logger *slog.Logger) {
	if at.number != 0 {
		return
	}
	if settings, err := client.TopicSettings(ctx, at.topic); err == nil && Compacted(settings) {
		logger.Warn("Kafka deletes records of this topic although they are not old, and such requests do not count: set its cleanup.policy to delete",
			"topic", at.topic, "cleanup.policy", settings["cleanup.policy"])
	}
}
