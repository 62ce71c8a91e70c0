package collector

import (
	"context"
	"crypto/tls"
	"time"

	"weir/internal/kafka"
	"weir/internal/keys"
	"weir/pkg/request"
)

// A SourceConfig says where requests come from and how they are read. Exactly one of File, Kafka, HTTP and Syslog
// is set.
type SourceConfig struct {
	Name     string // label of metrics; no two sources have the same
	Envelope string // see request.NewDecoder; "auto" finds out from the first records
	Format   string // likewise
	Options  request.Options
	// Only says of a record, whose envelope's fields it may ask for, whether it is one of those to be counted; nil is all.
	Only func(field func(name string) (string, bool)) bool
	Late time.Duration // how far the source may be ahead of the others; 0 is Config.Late

	File   *FileConfig
	Kafka  *KafkaConfig
	HTTP   *HTTPConfig
	Syslog *SyslogConfig
}

// A Start says where a source begins of which nothing is stored; the zero value is its earliest record.
type Start struct {
	Latest bool
	Before time.Duration // not older than this
}

// A source brings the records of its logs, each to a stream of its own.
//
// run reads until the context is done, the streams drained, and returns nil then. It returns an error only for what
// retrying cannot mend: what can pass (a file that may not be read, a broker that is away) it says through
// intake.trouble, which keeps it for the status and says it at most once a minute, and tries again. status may be
// called at any time, also before run.
type source interface {
	run(ctx context.Context) error
	status() SourceStatus
}

// A SourceStatus is how a source stands.
type SourceStatus struct {
	Name     string      `json:"source"`
	Kind     string      `json:"kind"`             // file, kafka, http, syslog
	Format   string      `json:"format,omitempty"` // what is read, and why that was chosen
	Logs     []LogStatus `json:"logs"`
	CaughtUp bool        `json:"caught_up"` // nothing waits to be read or sent
	// Requests are those read since the start, and Uncounted those of them that gave no hit, by why.
	Requests  int64            `json:"requests"`
	Uncounted map[string]int64 `json:"uncounted,omitempty"`
	Ahead     *Ahead           `json:"ahead,omitempty"`
	Error     string           `json:"error,omitempty"`
}

// Ahead is how many requests of a source were refused since the start because their time was ahead of the clock.
type Ahead struct {
	Requests int64     `json:"requests"`
	Last     time.Time `json:"last"`
}

// A LogStatus is how one log of a source stands: a file, a partition, a listener.
type LogStatus struct {
	Log      string    `json:"log"` // its path, topic/partition or address
	Source   string    `json:"source"`
	Position int64     `json:"position"`          // up to which it is read
	Lag      int64     `json:"lag"`               // what there is beyond, in bytes or records
	InFlight int       `json:"in_flight"`         // cuts that Kafka does not have yet
	Newest   time.Time `json:"newest,omitzero"`   // request time reached
	Holding  bool      `json:"holding,omitempty"` // what is read waits for slower sources
}

// FileConfig is a source of files.
type FileConfig struct {
	Patterns []string // paths and globs
	Start    Start
}

// KafkaConfig is a source of topics, read as a member of a group.
type KafkaConfig struct {
	Client *kafka.Client
	Group  string // in full
	Topics []string
	Start  Start
	// Session is after how long without a sign of life the group takes a member's partitions away; 0 is kafka.Group's.
	Session time.Duration
}

// HTTPConfig is a source that others post requests to.
type HTTPConfig struct {
	Listen string
	TLS    *tls.Config // nil is none
	Keys   *keys.File  // who may send: those whose role is enough for it; nil is everyone
	Hosts  []string    // names, besides localhost, by which this machine is asked where there are no keys
}

// SyslogConfig is a source that others send lines to.
type SyslogConfig struct {
	Listen string      // udp://host:port, tcp://, tls://, unix:///path (datagrams), unixstream:///path
	TLS    *tls.Config // for tls://
	From   *Senders    // who may send; nil is everyone
}
