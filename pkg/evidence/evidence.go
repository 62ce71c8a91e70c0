// Package evidence keeps the last requests that counted for a key, to show why it is blocked.
//
// A collector adds the requests of hits to a Buffer, without a lock, and gives the buffer to the Ring of the process at
// the end of a batch, with one lock. The ring has a fixed size and forgets the oldest. Find returns the newest requests
// of a rule and key. A Record carries them to enforcers: one line of JSON in the topic weir.evidence.
//
// A request takes at most MaxBytes of a ring: longer texts are cut. Records have printable texts only, and no values of
// queries. Add allocates nothing once its buffer has grown. The package reads no clock, does no I/O and starts no
// goroutines. A Buffer belongs to one goroutine; a Ring may be shared.
package evidence

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"weir/pkg/request"
)

// RecordVersion is the version of the records that are written here.
const RecordVersion = 1

// MaxRequests is how many requests a record has at most.
const MaxRequests = 20

// maxRecord is the length of the longest record in bytes. The texts of a request are printable, so each byte of them is
// at most four here.
const maxRecord = 128 << 10

// A Request is one request that counted, in printable texts.
type Request struct {
	Time   time.Time `json:"time"`
	Client string    `json:"client,omitempty"`
	Method string    `json:"method,omitempty"`
	Host   string    `json:"host,omitempty"`
	Path   string    `json:"path,omitempty"` // with its query, without the query's values
	Status int       `json:"status,omitempty"`
	Agent  string    `json:"agent,omitempty"`
}

// A Record is the requests that one collector has for an entry.
type Record struct {
	Version   int       `json:"v"`
	ID        string    `json:"id"` // of the entry
	Rule      string    `json:"rule"`
	Key       string    `json:"key"`
	Counted   int64     `json:"counted"`  // hits, as the entry states it
	Most      int       `json:"evidence"` // how many requests the rule keeps
	Collector string    `json:"collector"`
	Requests  []Request `json:"requests"` // newest first
}

var (
	// ErrDamaged is the error for bytes that are no record.
	ErrDamaged = errors.New("damaged")
	// ErrNewer is the error for a record of a later version.
	ErrNewer = errors.New("written by a newer version of weir")
)

// Append appends the record as one line of JSON, without the line's end.
func (r *Record) Append(b []byte) ([]byte, error) {
	r.Version = RecordVersion
	text, err := json.Marshal(r)
	if err != nil {
		return b, fmt.Errorf("writing evidence: %w", err)
	}
	return append(b, text...), nil
}

// Parse reads a record. It ignores unknown fields.
func Parse(text []byte) (*Record, error) {
	if len(text) > maxRecord {
		return nil, fmt.Errorf("%w: evidence of %d bytes", ErrDamaged, len(text))
	}
	var r Record
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("%w: evidence: %w", ErrDamaged, err)
	}
	if r.Version > RecordVersion {
		return nil, fmt.Errorf("%w: evidence of version %d", ErrNewer, r.Version)
	}

	const maxText, maxKey = 256, 1024
	switch {
	case r.ID == "" || len(r.ID) > maxText || len(r.Rule) > maxText || len(r.Collector) > maxText || len(r.Key) > maxKey:
		return nil, fmt.Errorf("%w: evidence whose id has %d bytes, and its key %d", ErrDamaged, len(r.ID), len(r.Key))
	case r.Counted < 0 || r.Most < 0 || r.Most > MaxRequests || len(r.Requests) > MaxRequests:
		return nil, fmt.Errorf("%w: evidence of %d requests, at most %d", ErrDamaged, len(r.Requests), r.Most)
	}
	return &r, nil
}

// Merge adds the requests of another record of the same entry. The newest stay, as many as the rule keeps. A request
// that both have is kept once: a collector sends its requests again when a block is extended.
func (r *Record) Merge(other *Record) {
	all := slices.Clone(r.Requests)
	known := map[Request]int{}
	for _, one := range r.Requests {
		known[one]++
	}
	for _, one := range other.Requests {
		if known[one] > 0 {
			known[one]--
			continue
		}
		all = append(all, one)
	}

	newestFirst(all)
	r.Counted, r.Most = max(r.Counted, other.Counted), other.Most
	r.Requests = all[:min(len(all), other.Most)]
}

func newestFirst(requests []Request) {
	slices.SortStableFunc(requests, func(a, b Request) int { return b.Time.Compare(a.Time) })
}

// Of is the form of a request in which Find returns it: printable, cut, and without the values of its query.
func Of(r *request.Request) Request {
	var b Buffer
	b.Add(0, r)
	return stored(b.bytes).shown()
}

// shown makes the printable form of a request of the ring.
func (s stored) shown() Request {
	return Request{
		Time: time.UnixMilli(s.unixMilli()).UTC(), Client: s.client(), Method: request.Sample(s.text(atMethod)),
		Host: request.Sample(s.text(atHost)), Path: s.ended(request.Target(s.text(atPath), s.text(atQuery), maxShown), pathCut),
		Status: s.status(), Agent: s.ended(request.Sample(s.text(atAgent)), agentCut),
	}
}

// ended marks a text that was cut.
func (s stored) ended(text string, flag byte) string {
	if s.has(flag) && !strings.HasSuffix(text, "…") {
		return text + "…"
	}
	return text
}

// maxShown is the length to which a path with its query is cut.
const maxShown = 256

// cutText is s without the bytes beyond size, and without a partial character at its end.
func cutText(s string, size int) (short string, cut bool) {
	if len(s) <= size {
		return s, false
	}
	for size > 0 && !utf8.RuneStart(s[size]) {
		size--
	}
	return s[:size], true
}
