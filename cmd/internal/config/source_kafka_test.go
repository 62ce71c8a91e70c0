package config_test

import (
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
