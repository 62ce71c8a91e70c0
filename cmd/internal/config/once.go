package config

import (
	"path/filepath"
	"slices"
	"strings"

	"weir/internal/yamlfile"
)

// readOnce refuses sources that read the same: a topic of two sources counts twice, and of two sources with the same
// file only one reads it. It also refuses topics where no brokers are named.
func (c *Config) readOnce(v, brokers yamlfile.Value) {
	topics, files := map[[2]string]*Source{}, map[string]*Source{}
	nowhere := len(c.Kafka.Brokers) == 0 && !brokers.Faulty()
	for i := range c.Collector.Sources {
		s, place := &c.Collector.Sources[i], nth(v, i)
		if len(s.Kafka) > 0 && nowhere && len(s.Brokers) == 0 && !c.readsAttempts(s) && !place.Key("brokers").Faulty() {
			place.Key("kafka").Faultf("name those of the source, to read only: {kafka: [logs], brokers: [host:9092], commit: local}; or name kafka: {brokers: [host:9092]}, where Weir then keeps topics of its own",
				"a topic is read from Kafka, and neither the source nor kafka.brokers names its brokers")
		}
		for _, topic := range s.Kafka {
			at := [2]string{s.cluster(), topic}
			c.checkTopic(place.Key("kafka"), s, topic, topics[at])
			topics[at] = s
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

// checkTopic refuses a topic of our own, and one that another source reads. Two sources may share a topic if each takes
// other records of it.
func (c *Config) checkTopic(v yamlfile.Value, s *Source, topic string, other *Source) {
	if own, ours := strings.CutPrefix(topic, c.Kafka.Prefix); ours && len(s.Brokers) == 0 && slices.Contains([]string{"hits", "blocklist", "events"}, own) {
		v.Faultf("name the topic that your log shippers write to", "%s is a topic of Weir itself", topic)
	}

	switch {
	case other == nil:
	case other == s:
		v.Faultf("name it once", "the topic %s is named twice", topic)
	case s.Only == "" || other.Only == "" || s.Only == other.Only:
		v.Faultf("name it in one source, or give each an only that takes other records", "the source %s reads the topic %s too, so its requests would count twice", other.Name, topic)
	}
}
