package backtest

import (
	"context"
	"errors"
	"io"
	"time"

	"weir/pkg/request"
	"weir/pkg/rule"
	"weir/pkg/window"
)

// DefaultLate is how far out of order lines may be when Config.Late is not set.
const DefaultLate = 10 * time.Minute

// An Input is one log.
type Input struct {
	Path   string    // of a file, or what Reader is called in the report; "-" without a Reader is an error
	Reader io.Reader // read instead of a file: standard input
}

// A Config says what is run over what.
type Config struct {
	Rules      *rule.Set          // what is reported
	Against    *rule.Set          // nil, or the rules to compare with: what was before
	Algorithms []window.Algorithm // empty, or the algorithms to run Rules under, side by side
	Inputs     []Input            // in any order

	Envelope string          // of all inputs; "" is found out for each input
	Format   string          // of all inputs: a preset, a log_format string, json; "" or "auto" is found out for each input
	Options  request.Options // the zone of times without one, and the names of fields
	Client   *request.Client // nil, or what finds the client behind proxies

	Late     time.Duration // lines out of order by up to this change no verdict; 0 is DefaultLate
	Remember int           // the exactness bound, in hits of a key; 0 is window's default

	FailIf Condition // when it holds, Report.Failed; the zero Condition never does
	Never  *KeyList  // nil, or the keys that must never be blocked

	Timelines bool                              // keep the timelines of the worst keys, which WriteHTML draws
	Progress  func(bytesDone, bytesTotal int64) // called now and then from one goroutine; total is 0 when unknown
}

// Run reads all inputs to their ends and reports. An error means that there is no report: an input that cannot
// be opened, whose format is unknown, or ctx done. What goes wrong later is in Report.Faults.
func Run(ctx context.Context, c Config) (*Report, error) {
	return nil, errors.New("not yet")
}
