package pipeline

import (
	"slices"
	"time"
)

// A SourceStatus is the state of a source.
type SourceStatus struct {
	Name     string      `json:"source"`
	Kind     string      `json:"kind"`             // file, kafka, http, syslog, otlp
	Format   string      `json:"format,omitempty"` // the form of the records, and why it was chosen
	Logs     []LogStatus `json:"logs"`
	Read     *ReadFiles  `json:"read,omitempty"`    // of files: those that were read to their end and closed
	Missing  []string    `json:"missing,omitempty"` // of files: paths that do not exist, and patterns that match no file
	CaughtUp bool        `json:"caught_up"`         // nothing waits to be read or sent
	// Requests are those read since the start, and those of senders that may not send. Uncounted are those of them that
	// gave no hit, by why.
	Requests  int64            `json:"requests"`
	Uncounted map[string]int64 `json:"uncounted,omitempty"`
	// Lost are the entries, records and objects since the start that were deleted or damaged before they were read.
	Lost int64 `json:"lost,omitempty"`
	// Redelivered are the messages since the start that the server of a queue has delivered again, to this collector or
	// after another one did not acknowledge them. Without dedupe they may have counted twice.
	Redelivered int64 `json:"redelivered,omitempty"`

	Seen   *SeenStatus `json:"seen,omitempty"` // of a source with dedupe
	Ahead  *Ahead      `json:"ahead,omitempty"`
	Error  string      `json:"error,omitempty"`  // the first of Errors
	Errors []string    `json:"errors,omitempty"` // the present problems, the last one first; at most 10
}

// AddError adds a problem that is not shown yet.
func (s *SourceStatus) AddError(what string) {
	if !slices.Contains(s.Errors, what) {
		s.Errors = append(s.Errors, what)
	}
	s.Error = s.Errors[0]
}

// Ahead counts the requests of a source that were refused since the start because their time was ahead of the clock.
type Ahead struct {
	Requests int64     `json:"requests"`
	Last     time.Time `json:"last"`
}

// A SeenStatus is the memory of the values that were seen.
type SeenStatus struct {
	Values int   `json:"values"`
	Most   int   `json:"most"`
	Early  int64 `json:"early"` // values since the start that had to go while they could still have been seen
}

// A LogStatus is the state of one log of a source: a file, a partition, a listener.
type LogStatus struct {
	Log      string    `json:"log"` // its path, topic/partition or address
	Source   string    `json:"source"`
	Position int64     `json:"position"`          // up to which it is read
	Lag      int64     `json:"lag"`               // unread bytes or records after it
	InFlight int       `json:"in_flight"`         // cuts that Kafka does not have yet, and the open one
	Newest   time.Time `json:"newest,omitzero"`   // request time reached
	Holding  bool      `json:"holding,omitempty"` // its hits wait for slower sources
}

// ReadFiles are the files of a source that were read to their end and are not open any more: packed and rotated ones.
type ReadFiles struct {
	Files int      `json:"files"`
	Names []string `json:"names"` // the first of them
}
