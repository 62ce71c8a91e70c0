package collector

import (
	"context"
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/kafka"
	"weir/internal/keys"
	"weir/pkg/collector/journal"
	"weir/pkg/request"
	"weir/pkg/rule"
)

// Config describes the sources, the rules and the destination of a collector.
type Config struct {
	Folder     string // of the journal; made when missing
	Sources    []SourceConfig
	Rules      *rule.Set
	Client     *request.Client // nil: the client is the one that the log names
	Late       time.Duration   // how far a source may be ahead of the others when they are read from behind
	Ahead      time.Duration   // how far ahead of our clock a request may be
	Sink       Sink
	Partitions int           // of the sink
	Retention  time.Duration // of the sink's log: older cuts are never sent again; 0 is unlimited

	Logger  *slog.Logger          // nil is silence
	Metrics prometheus.Registerer // nil is none

	disk         journal.Disk  // of the journal; the zero value is the real one
	restartAfter time.Duration // a panic; 0 is restartAfter
}

// A Sink takes batches: a kafka.Producer. Send takes all messages in their order, or none with an error; it waits
// while there is no room. Each message's Done is called once it is settled, in a partition's order.
type Sink interface {
	Send(ctx context.Context, messages ...kafka.Message) error
}

// A SourceConfig describes where requests come from and how they are read. Exactly one of File, Kafka, HTTP and Syslog
// is set.
type SourceConfig struct {
	Name     string // label of metrics; no two sources have the same
	Envelope string // see request.NewDecoder; "auto" finds out from the first records
	Format   string // likewise
	Options  request.Options
	// Only reports whether a record is to be counted; it may ask for the fields of the envelope. nil selects all
	// records.
	Only func(field func(name string) (string, bool)) bool
	Late time.Duration // how far the source may be ahead of the others; 0 is Config.Late

	File   *FileConfig
	Kafka  *KafkaConfig
	HTTP   *HTTPConfig
	Syslog *SyslogConfig
}

// A Start is where a source begins if nothing is stored about it; the zero value is its earliest record.
type Start struct {
	Latest bool
	Before time.Duration // not older than this
}

// FileConfig is a source of files.
type FileConfig struct {
	Patterns []string // paths and globs
	Start    Start
}

// KafkaConfig is a source of topics, read as a member of a group.
type KafkaConfig struct {
	Client *kafka.Client
	Group  string // the complete name
	Topics []string
	Start  Start
	// Session is the time without a heartbeat after which the group takes a member's partitions away; 0 is
	// kafka.Group's.
	Session time.Duration
}

// HTTPConfig is a source that accepts posted requests.
type HTTPConfig struct {
	Listen string
	TLS    *tls.Config // nil is none
	Keys   *keys.File  // the clients that may send, by role; nil is everyone
	Hosts  []string    // names of this machine, besides localhost, that clients without keys may use
}

// SyslogConfig is a source that accepts lines as syslog.
type SyslogConfig struct {
	Listen string      // udp://host:port, tcp://, tls://, unix:///path (datagrams), unixstream:///path
	TLS    *tls.Config // for tls://
	From   *Senders    // who may send; nil is everyone
}
