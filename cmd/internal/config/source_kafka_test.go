package config_test

import (
	"slices"
	"testing"

	"weir/cmd/internal/config"
)

// Positions of a topic are in a group, and those of a topic at brokers of its own in the collector's folder.
func TestWhereATopicsPositionsAre(t *testing.T) {
	for source, local := range map[string]bool{
		"{kafka: logs}":                                false,
		"{kafka: logs, commit: group}":                 false,
		"{kafka: logs, commit: local}":                 true,
		"{kafka: logs, brokers: 'b:1'}":                true,
		"{kafka: logs, brokers: 'b:1', commit: local}": true,
	} {
		c, _, err := config.Read([]byte("{kafka: {brokers: 'a:1'}, collector: {sources: ["+source+"]}}"), config.Options{File: "weir.yaml", NoRules: true})
		if err != nil {
			t.Fatal(source, err)
		}
		if got := c.Collector.Sources[0].Local(); got != local {
			t.Errorf("%s: local is %t", source, got)
		}
	}
}

// A pattern does not stand for Weir's own topics, also where the source names the brokers again.
func TestPatternsLeaveOutWeirsTopics(t *testing.T) {
	for _, c := range []struct {
		prefix  string
		brokers []string
		want    bool
	}{
		{"weir.", nil, true},
		{"weir.", []string{"a:1"}, true},
		{"", nil, true},
		{"", []string{"a:1"}, false}, // in another Kafka, attempts may be the topic of another program
	} {
		s := config.Source{Brokers: c.brokers}
		if got := slices.Contains(s.WithoutTopics(c.prefix), c.prefix+"attempts"); got != c.want {
			t.Errorf("with the prefix %q and brokers %v: %t", c.prefix, c.brokers, got)
		}
	}
}
