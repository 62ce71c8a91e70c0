// Package backtest runs rules over logs and reports which keys would have been blocked, when and by which limit.
//
// Hits count in the order of their own times; those of the same millisecond count in the order of the logs, by each
// log's first time, and within a log in the order of its lines. Lines out of order by up to Config.Late change no
// result: hits wait in a buffer until no earlier hit can follow. A hit that comes later still goes to its window at
// once. The window counts it at its own time if it is not older by more than Late than the newest counted hit of its
// key. Otherwise the hit is uncounted, for the reason "late", and appears so in the report. A time far ahead of the
// times before and after it is treated as a wrong clock, and its hit waits until the log gets there.
//
// For every rule the report has the counted requests. For every key that broke a limit it has the first time and the
// limit (the first written where one hit broke several); the peak, the most hits in any (t-W, t] of that limit's W over
// the complete log, refused ones included, in cost where requests cost more than one; its requests; and how many of
// them lay in a block [from, until), from the breaking hit on. The peak is exact for the sliding algorithm up to the
// exactness bound and to 65,536 instants in W, and may be too low above; for other algorithms it is counted from the
// break on. The total of refused requests counts each request once, also if several enforcing rules refuse it.
//
// Logs are plain, gzip, zstd or bzip2, recognized by their first bytes. They are opened when their time has come, and
// lines of logs that overlap are merged by time. Lines over a mebibyte are unread for the reason "long". A log that
// breaks off is counted as far as it could be read, and the report lists the error.
//
// With Timelines the logs are read a second time, for the last requests that counted for the worst keys before they were
// blocked. The rules state how many are kept, at most 20 for each of 20 keys.
//
// Run starts a goroutine for each open log and one for each processor that parses lines. All of them have ended when it
// returns, except one read of standard input that ctx has cut off. The goroutine that called Run counts the hits.
// Memory grows with the keys (64 bytes, the key, about 30 bytes for finding it, and its window's memory), with the hits
// of Late (16 bytes each), and for each key that broke a limit with the instants of its peak; everything else has a
// fixed bound.
package backtest

import (
	"cmp"
	"context"
	"errors"
	"io"
	"runtime"
	"time"

	"weir/pkg/request"
	"weir/pkg/rule"
	"weir/pkg/window"
)

// DefaultLate is how far out of order lines may be when Config.Late is 0.
const DefaultLate = 10 * time.Minute

// An Input is one log.
type Input struct {
	Path   string    // of a file; with a Reader, its name in the report
	Reader io.Reader // read instead of a file: standard input

	// Records are lines of the Reader that AppendRecord made: what a topic's records are.
	Records bool

	// Before leaves out requests of that time and later ones, by their own times, as if the log did not have them; the zero
	// time leaves out none.
	Before time.Time
}

// leavesOut reports whether a request is too late to be one of the input's.
func (in *Input) leavesOut(r *request.Request) bool {
	return !in.Before.IsZero() && r.UnixMilli >= in.Before.UnixMilli()
}

// A Config defines the rules, the logs and the contents of a report.
type Config struct {
	Rules      *rule.Set          // the rules to report
	Against    *rule.Set          // nil, or the rules to compare with: those before a change
	Algorithms []window.Algorithm // empty, or the algorithms to run Rules under, side by side
	Inputs     []Input            // in any order

	Envelope string          // of all inputs; "" is auto, detected for each input; none where only Format is given
	Format   string          // of all inputs: a preset, a log_format string, json; "" is auto, detected for each input
	Options  request.Options // the zone of times without one, and the names of fields
	Dedupe   Dedupe          // of requests that the inputs have several times
	Client   *request.Client // nil, or finds the client behind proxies

	// Only reports whether a record counts, by the fields of its envelope; nil selects all. Several goroutines call it.
	Only func(field func(name string) (string, bool)) bool

	Late time.Duration // lines out of order by up to this change no result; 0 is DefaultLate
	// Judged is how long after a request a share or an estimate is judged, unless its rule has a shorter time: when no later
	// request can change it. 0 is twice Late, as for a live system with that lateness.
	Judged   time.Duration
	Remember int // the exactness bound, in hits of a key; 0 is window.DefaultRemember

	FailIf Condition // sets Report.Failed when it is true; the zero Condition never is
	Never  *KeyList  // nil, or the keys that must never be blocked, not even by shadow rules

	Timelines bool                              // keep the timelines of the worst keys, which WriteHTML draws, and their last requests
	Progress  func(bytesDone, bytesTotal int64) // nil, or called now and then by Run's goroutine; bytesTotal is 0 when unknown
}

// Run reads all inputs to their ends and reports. An error means that there is no report: inputs that cannot be opened
// or whose format is not known, all of them listed, or ctx done. Later errors are in Report.Faults.
func Run(ctx context.Context, c Config) (*Report, error) {
	c.setDefaults()
	p, err := newPass(&c)
	if err != nil {
		return nil, err
	}
	if err := p.lookAtAll(ctx); err != nil {
		return nil, err
	}
	if err := p.read(ctx); err != nil {
		return nil, err
	}
	r := p.report()
	if c.Timelines {
		if err := p.findEvidence(ctx, r); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (c *Config) setDefaults() {
	if c.Envelope == "" {
		c.Envelope = "auto"
		if c.Format != "" && c.Format != "auto" {
			c.Envelope = "none"
		}
	}
	c.Format = cmp.Or(c.Format, "auto")
	c.Late = cmp.Or(c.Late, DefaultLate)
	c.Judged = cmp.Or(c.Judged, 2*c.Late)
}

// sets are the sets of rules. The first is the one to report.
func (c *Config) sets() []*rule.Set {
	if c.Against == nil {
		return []*rule.Set{c.Rules}
	}
	return []*rule.Set{c.Rules, c.Against}
}

var errNoRules = errors.New("there are no rules to run")

func workers() int { return runtime.GOMAXPROCS(0) }
