package config

import (
	"path/filepath"
	"slices"
	"strings"

	"weir/internal/yamlfile"
	"weir/pkg/collector/topics"
)

// readOnce refuses sources that read the same: a topic of two sources counts twice, and of two sources with the same
// file only one reads it. It also refuses topics where no brokers are named.
func (c *Config) readOnce(v, brokers yamlfile.Value) {
	files, streams := map[string]*Source{}, map[[2]string]*Source{}
	var readers topicReaders
	nowhere := len(c.Kafka.Brokers) == 0 && !brokers.Faulty()
	for i := range c.Collector.Sources {
		s, place := &c.Collector.Sources[i], nth(v, i)
		if len(s.Kafka) > 0 && nowhere && len(s.Brokers) == 0 && !c.readsAttempts(s) && !place.Key("brokers").Faulty() {
			place.Key("kafka").Faultf("name those of the source, to read only: {kafka: [logs], brokers: [host:9092], commit: local}; or name kafka: {brokers: [host:9092]}, where Weir then keeps topics of its own",
				"a topic is read from Kafka, and neither the source nor kafka.brokers names its brokers")
		}
		for _, topic := range s.Kafka {
			c.checkOwn(place.Key("kafka"), s, topic)
			checkShared(place.Key("kafka"), s, "topic "+topic, readers.of(s, topic))
			readers = append(readers, topicReader{s, topic})
		}

		for _, key := range s.RedisStream.Keys {
			at := [2]string{s.RedisStream.URL, key}
			checkShared(place.Key("redis_stream"), s, "stream "+key, streams[at])
			streams[at] = s
		}

		if s.Kind() == "journald" {
			at := [2]string{"journald", s.Journald.Folder + "\x00" + strings.Join(s.Journald.Matches(), "\x00")}
			checkShared(place.Key("journald"), s, "journal", streams[at])
			streams[at] = s
		}

		if s.NATS.Stream != "" && s.NATS.Subject == "" { // two subjects may be two logs
			at := [2]string{s.NATS.URL, s.NATS.Stream}
			checkShared(place.Key("nats"), s, "stream "+s.NATS.Stream, streams[at])
			streams[at] = s
		}

		if s.AMQP.Queue != "" {
			at := [2]string{s.AMQP.URL, s.AMQP.Queue}
			if other := streams[at]; other != nil && (s.AMQP.Acknowledge || other.AMQP.Acknowledge) {
				place.Key("amqp").Faultf("name it in one source", "the source %s reads the queue %s too, and takes its messages", other.Name, s.AMQP.Queue)
			} else {
				checkShared(place.Key("amqp"), s, "queue "+s.AMQP.Queue, other)
			}
			streams[at] = s
		}
		if s.Kinesis.Stream != "" {
			at := [2]string{"kinesis", strings.Join([]string{s.Kinesis.Endpoint, s.Kinesis.Region, s.Kinesis.Stream}, "\x00")}
			checkShared(place.Key("kinesis"), s, "stream "+s.Kinesis.Stream, streams[at])
			streams[at] = s
		}
		if s.S3 != "" {
			at := [2]string{s.Endpoint, s.S3}
			checkShared(place.Key("s3"), s, "prefix "+s.S3, streams[at])
			streams[at] = s
		}

		if s.HDFS.Path != "" && len(s.HDFS.URL) > 0 {
			at := [2]string{strings.Join(s.HDFS.URL, ","), s.HDFS.Path}
			checkShared(place.Key("hdfs"), s, "path "+s.HDFS.Path, streams[at])
			streams[at] = s
		}

		for _, path := range s.File {
			path = filepath.Clean(path)
			if other := files[path]; other != nil && other != s {
				place.Key("file").Faultf("name it in one source", "%s is a file of the source %s already, and each file is read once", path, other.Name)
			}
			files[path] = s
		}
	}
}

// topicReaders are sources with the topics, or the patterns of topics, that they read.
type topicReaders []topicReader

type topicReader struct {
	*Source
	topic string
}

// of returns a source that reads the same topic, or one that a pattern stands for, too. Patterns of one source may overlap.
func (all topicReaders) of(s *Source, topic string) *Source {
	for _, other := range all {
		same := other.topic == topic || other.Source != s && topics.Overlap(other.topic, topic)
		if same && other.cluster() == s.cluster() {
			return other.Source
		}
	}
	return nil
}

// checkOwn refuses a topic of our own.
func (c *Config) checkOwn(v yamlfile.Value, s *Source, topic string) {
	if own, ours := strings.CutPrefix(topic, c.Kafka.Prefix); ours && len(s.Brokers) == 0 && slices.Contains([]string{"hits", "blocklist", "events"}, own) {
		v.Faultf("name the topic that your log shippers write to", "%s is a topic of Weir itself", topic)
	}
}

// checkShared refuses a topic or a stream that another source reads. Two sources may share one if each takes other
// records of it.
func checkShared(v yamlfile.Value, s *Source, what string, other *Source) {
	switch {
	case other == nil:
	case other == s:
		v.Faultf("name it once", "the %s is named twice", what)
	case s.Only == "" || other.Only == "" || s.Only == other.Only:
		v.Faultf("name it in one source, or give each an only that takes other records", "the source %s reads the %s too, so its requests would count twice", other.Name, what)
	}
}
