package config

import (
	"slices"
	"strings"

	"weir/internal/nearest"
	"weir/internal/yamlfile"
	"weir/pkg/collector/topics"
)

// The places where a kafka source keeps how far it has read.
const (
	commitGroup = "group" // a consumer group in that Kafka
	commitLocal = "local" // the data folder of the collector
)

// Local reports whether a kafka source keeps how far it has read in the collector's data folder.
func (s *Source) Local() bool { return s.Commit == commitLocal }

// SourceTLS configures the connections of a source: those that an http or a syslog source accepts, or those to the brokers
// of a kafka source or to the server of a redis_stream, of nats or of amqp.
type SourceTLS struct {
	// On is true when the connections to brokers are encrypted.
	On bool
	// CA is the file of the roots that sign the brokers' certificates. Default: the system's roots.
	CA string `yaml:"ca"`
	// Cert is the file of the certificate that we show.
	Cert string `yaml:"cert"`
	// Key is the file of the certificate's key.
	Key string `yaml:"key"`
	// Clients is the file of the roots that sign the certificates of clients that may send. Default: none.
	Clients string `yaml:"clients"`
}

// FromYAML reads true, false or a map of files.
func (t *SourceTLS) FromYAML(v yamlfile.Value) {
	if _, ok := v.Scalar(); ok {
		v.Decode(&t.On)
		return
	}
	type files SourceTLS
	t.On = v.Decode((*files)(t))
	if (t.Cert == "") != (t.Key == "") {
		v.Faultf("give both or neither", "only one of cert and key is given")
	}
}

// Server returns the settings of connections that an http or a syslog source accepts.
func (t *SourceTLS) Server() ServerTLS { return ServerTLS{t.Cert, t.Key, t.Clients} }

// Client returns the settings of connections to servers.
func (t *SourceTLS) Client() ClientTLS { return ClientTLS{t.On, t.CA, t.Cert, t.Key} }

// checkTLS refuses the keys of tls that have no meaning for the kind.
func (s *Source) checkTLS(v yamlfile.Value) {
	place := v.Key("tls")
	_, scalar := place.Scalar()
	switch connects := slices.Contains([]string{"kafka", "redis_stream", "nats", "amqp"}, s.Kind()); {
	case !v.Has("tls") || place.Faulty():
	case connects && s.TLS.Clients != "":
		place.Key("clients").Faultf("leave it out", "clients has no meaning for a source of the kind %s", s.Kind())
	case connects:
	case scalar && s.TLS.On:
		place.Faultf("write tls: {cert: c.pem, key: k.pem}", "a source that accepts connections needs a certificate")
	case s.TLS.CA != "":
		place.Key("ca").Faultf("leave it out; the certificates of clients are checked by clients", "ca has no meaning for a source of the kind %s", s.Kind())
	case s.TLS.Clients != "" && s.TLS.Cert == "":
		place.Key("clients").Faultf("add cert and key", "clients need a certificate, but the server has none")
	}
}

// checkBrokers checks the settings of a kafka source for its Kafka, and sets the default of commit.
func (s *Source) checkBrokers(v yamlfile.Value) {
	own := v.Has("brokers")
	if own && len(s.Brokers) == 0 && !v.Key("brokers").Faulty() {
		v.Key("brokers").Faultf("write brokers: [host:9092]", "embedded is not a Kafka that a source can read")
	}
	for _, key := range []string{"tls", "sasl"} {
		if !own && v.Has(key) {
			v.Key(key).Faultf("add brokers to the source, or write kafka: {"+key+": …}", "%s is for the source's own brokers, and the source names none", key)
		}
	}

	s.SASL.warnOfClear(v, s.Brokers, s.TLS.On)

	known := []string{commitGroup, commitLocal}
	switch {
	case s.Commit == "" && own:
		s.Commit = commitLocal
	case s.Commit == "":
		s.Commit = commitGroup
	case !slices.Contains(known, s.Commit):
		v.Key("commit").Faultf(nearest.Suggest(s.Commit, known, "write one of "), "%q is not known here", s.Commit)
	case s.Commit == commitGroup && own:
		v.Key("commit").Faultf("write commit: local, or leave brokers out and name them in kafka.brokers", "Weir joins no group at a source's own brokers")
	}
}

// ownTopics are the words of Weir's topics.
var ownTopics = []string{"hits", "blocklist", "events", "evidence", "attempts"}

// HasPatterns reports whether patterns name some of the source's topics.
func (s *Source) HasPatterns() bool { return slices.ContainsFunc(s.Kafka, topics.IsPattern) }

// ReadsTopic reports whether the source reads a topic, by its name or by a pattern.
func (s *Source) ReadsTopic(name string) bool {
	return slices.Contains(s.Kafka, name) || slices.ContainsFunc(s.Kafka, func(pattern string) bool { return topics.Matches(pattern, name) })
}

// WithoutTopics are the topics that no pattern of the source stands for: Weir's own with the prefix. The brokers of a
// source may be of the same Kafka. Only without a prefix others may have such names in another one.
func (s *Source) WithoutTopics(prefix string) (names []string) {
	if len(s.Brokers) > 0 && prefix == "" {
		return nil
	}
	for _, word := range ownTopics {
		names = append(names, prefix+word)
	}
	return names
}

// checkTopics checks the patterns.
func (s *Source) checkTopics(v yamlfile.Value) {
	for _, name := range s.Kafka {
		if topics.IsPattern(name) && !topics.Legal(name) {
			v.Key("kafka").Faultf("write it as access-*", "%q is not a pattern of topics: their names have letters, digits, dots, dashes and underscores", name)
		}
	}
}

// cluster names the Kafka of a source, to compare it with others; empty is that of kafka.brokers.
func (s *Source) cluster() string { return strings.Join(slices.Sorted(slices.Values(s.Brokers)), ",") }
