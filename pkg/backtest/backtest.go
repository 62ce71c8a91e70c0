// Package backtest runs rules over logs and reports who would have been blocked, when and by which limit.
//
// Hits count in the order of their own times; those of the same millisecond count in the order of the logs, by each
// log's first time, and within a log in the order of its lines. Lines out of order by up to Config.Late change no
// verdict: hits wait in a buffer until nothing can come any more that belongs before them. A hit that comes later
// still goes to its window at once, which counts it where it belongs if it is not older by more than Late than the
// newest hit of its key that has counted; else it is uncounted, for the reason "late", and the report says so. A time
// far ahead of those before and after it is taken for a wrong clock's, and waits until the log gets there.
//
// For every rule the report tells what it counted. For every key that broke a limit it tells when it did so first and
// which limit (the first written where one hit broke several); the peak, the most hits in any (t-W, t] of that
// limit's W over the whole log, refused ones included, in cost where requests cost more than one; its requests; and
// how many of them lay in a block [from, until), from the breaking hit on, as the rule's block says. The peak is
// exact for the sliding algorithm up to the exactness bound and to 65,536 instants in W, and may be too low above;
// for other algorithms it is counted from the break on. Refused in total are requests that one or more enforcing
// rules refuse, each counted once.
//
// Logs are plain, gzip, zstd or bzip2, told by their first bytes. They are opened when their time has come, and lines
// of logs that overlap are merged by time. Lines over a mebibyte are unread for the reason "long". A log that breaks
// off is counted as far as it could be read, and is a fault of the report.
//
// Run starts a goroutine for each open log and one for each processor that parses lines, and has ended all of them
// when it returns, but for one read of standard input that ctx has cut off. The hits are counted by the goroutine
// that called Run. Memory grows with the keys (64 bytes, the key, about 30 bytes for finding it and what its window
// remembers), with the hits of Late (16 bytes each), and for each key that broke a limit by the instants of its peak;
// for everything else there is a fixed bound.
package backtest

import (
	"context"
	"errors"
	"io"
	"runtime"
	"time"

	"weir/pkg/request"
	"weir/pkg/rule"
	"weir/pkg/window"
)

// DefaultLate is how far out of order lines may be when Config.Late is not set.
const DefaultLate = 10 * time.Minute

// An Input is one log.
type Input struct {
	Path   string    // of a file; with a Reader, what the report calls it
	Reader io.Reader // what is read instead of a file: standard input
}

// A Config says what is run over what.
type Config struct {
	Rules      *rule.Set          // what is reported
	Against    *rule.Set          // nil, or the rules to compare with: what was before
	Algorithms []window.Algorithm // empty, or the algorithms to run Rules under, side by side
	Inputs     []Input            // in any order

	Envelope string          // of all inputs; "" is auto, found out for each input; none where only Format is given
	Format   string          // of all inputs: a preset, a log_format string, json; "" is auto, found out for each input
	Options  request.Options // the zone of times without one, and the names of fields
	Client   *request.Client // nil, or what finds the client behind proxies

	Late     time.Duration // lines out of order by up to this change no verdict; 0 is DefaultLate
	Remember int           // the exactness bound, in hits of a key; 0 is window.DefaultRemember

	FailIf Condition // when it holds, Report.Failed; the zero Condition never does
	Never  *KeyList  // nil, or the keys that must never be blocked, by shadow rules neither

	Timelines bool                              // keep the timelines of the worst keys, which WriteHTML draws
	Progress  func(bytesDone, bytesTotal int64) // nil, or called now and then by Run's goroutine; bytesTotal is 0 when unknown
}

// Run reads all inputs to their ends and reports. An error means that there is no report: inputs that cannot be
// opened or whose format is not known, all of them told, or ctx done. What goes wrong later is in Report.Faults.
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
	return p.report(), nil
}

func (c *Config) setDefaults() {
	if c.Envelope == "" {
		c.Envelope = "auto"
		if c.Format != "" && c.Format != "auto" {
			c.Envelope = "none"
		}
	}
	if c.Format == "" {
		c.Format = "auto"
	}
	if c.Late == 0 {
		c.Late = DefaultLate
	}
}

// sets are the sets of rules, the one that is reported first.
func (c *Config) sets() []*rule.Set {
	if c.Against == nil {
		return []*rule.Set{c.Rules}
	}
	return []*rule.Set{c.Rules, c.Against}
}

var errNoRules = errors.New("there are no rules to run")

func workers() int { return runtime.GOMAXPROCS(0) }
