package collector

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/pkg/collector/files"
	"weir/pkg/collector/journal"
	"weir/pkg/collector/listeners"
	"weir/pkg/collector/ordered"
	"weir/pkg/collector/pace"
	"weir/pkg/collector/pipeline"
	"weir/pkg/collector/topics"
	"weir/pkg/evidence"
	"weir/pkg/inline"
	"weir/pkg/request"
	"weir/pkg/rule"
)

// Config describes the sources, the rules and the destination of a collector.
type Config struct {
	Folder     string // of the journal; made when missing
	Sources    []SourceConfig
	Rules      *rule.Set
	Client     *request.Client   // nil: the client is the one that the log names
	Evidence   *evidence.Ring    // of the last requests that counted; nil keeps none
	Ended      func([]inline.ID) // takes attempts whose requests have ended, and does not wait; nil reads none
	Late       time.Duration     // how far a source may be ahead of the others when they are read from behind
	Ahead      time.Duration     // how far ahead of our clock a request may be
	Sink       pipeline.Sink
	Notes      journal.Notes // of the sink's log; nil when it has none
	Partitions int           // of the sink
	Batch      time.Duration // how long a live record may wait for others, so that they are sent together; 0 is not at all
	Retention  time.Duration // of the sink's log: older cuts are never sent again; 0 is unlimited

	Logger  *slog.Logger          // nil is silence
	Metrics prometheus.Registerer // nil is none

	disk         journal.Disk  // of the journal; the zero value is the real one
	restartAfter time.Duration // a panic; 0 is the usual
	partsBytes   int64         // of lines in parts; 0 is the usual
	pace         *pace.Group   // of the logs; Open makes it
}

// seen is how many values each source remembers that has dedupe.
func (c *Config) seen() map[string]int {
	most := map[string]int{}
	for i := range c.Sources {
		if s := &c.Sources[i]; s.Dedupe.By != "" {
			most[s.Name] = s.Dedupe.Most
		}
	}
	return most
}

// A SourceConfig describes where requests come from and how they are read. Exactly one of File, Pipe, Kafka, Ordered, HTTP and
// Syslog is set.
type SourceConfig struct {
	pipeline.IntakeConfig

	File    *files.Config
	Kafka   *topics.Config
	Ordered *ordered.Config // logs that another server keeps in an order
	Pipe    *listeners.PipeConfig
	HTTP    *listeners.HTTPConfig
	Syslog  *listeners.SyslogConfig
}
