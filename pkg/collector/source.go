package collector

import (
	"context"
	"crypto/tls"
	"time"

	"weir/internal/kafka"
	"weir/internal/keys"
	"weir/pkg/request"
)

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

// A source brings the records of its logs, each to a stream of its own.
//
// run reads until the context is done and the streams are drained, and then returns nil. It returns an error only for
// a problem that a retry cannot solve. It reports a temporary problem (a file that may not be read, an unreachable
// broker) through intake.trouble, which keeps it for the status and logs it at most once a minute, and tries again.
// status may be called at any time, also before run.
type source interface {
	run(ctx context.Context) error
	status() SourceStatus
}

// A SourceStatus is the state of a source.
type SourceStatus struct {
	Name     string      `json:"source"`
	Kind     string      `json:"kind"`             // file, kafka, http, syslog
	Format   string      `json:"format,omitempty"` // the form of the records, and why it was chosen
	Logs     []LogStatus `json:"logs"`
	Read     *ReadFiles  `json:"read,omitempty"` // of files: those that were read to their end and closed
	CaughtUp bool        `json:"caught_up"`      // nothing waits to be read or sent
	// Requests are those read since the start, and Uncounted those of them that gave no hit, by why.
	Requests  int64            `json:"requests"`
	Uncounted map[string]int64 `json:"uncounted,omitempty"`
	Ahead     *Ahead           `json:"ahead,omitempty"`
	Error     string           `json:"error,omitempty"`
}

// Ahead counts the requests of a source that were refused since the start because their time was ahead of the clock.
type Ahead struct {
	Requests int64     `json:"requests"`
	Last     time.Time `json:"last"`
}

// A LogStatus is the state of one log of a source: a file, a partition, a listener.
type LogStatus struct {
	Log      string    `json:"log"` // its path, topic/partition or address
	Source   string    `json:"source"`
	Position int64     `json:"position"`          // up to which it is read
	Lag      int64     `json:"lag"`               // unread bytes or records after it
	InFlight int       `json:"in_flight"`         // cuts that Kafka does not have yet
	Newest   time.Time `json:"newest,omitzero"`   // request time reached
	Holding  bool      `json:"holding,omitempty"` // its hits wait for slower sources
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
