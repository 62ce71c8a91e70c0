package aggregator

import (
	"fmt"
	"time"

	"weir/internal/telemetry"
)

// longNoted is how long a problem with a batch is shown after it.
const longNoted = time.Hour

// problems are what keeps hits of a partition from being counted, other than the store or Kafka: for the log, and for the
// status.
type problems struct {
	faults *telemetry.Faults
	now    func() time.Time
	late   time.Duration // how late a hit may come

	last   string // about the last batch that was left out
	lastAt time.Time
	ahead  bool // the newest hit is later than now by more than late, and that was logged
}

// leftOut notes that hits of a batch are not counted.
func (p *problems) leftOut(operation string, err error) {
	p.faults.Note(operation, err)
	p.note(err.Error())
}

// note keeps a problem for the status.
func (p *problems) note(text string) { p.last, p.lastAt = text, p.now() }

// present describes the problem of now, if there is one; reached is the newest time that was counted, and recorded that of
// the last record of the log, zero if none was read.
func (p *problems) present(reached int64, recorded time.Time) string {
	now := p.now()
	if newest := time.UnixMilli(reached).UTC(); newest.Sub(now) > p.late {
		why := "a clock was wrong. Until then their keys are not counted, unless the rule gets another name"
		if recorded.IsZero() || recorded.Sub(now) > p.late {
			why = "the clock of this machine is behind, or that of a collector or of Kafka is ahead. Correct the clock; if it was ahead, " +
				"these keys are not counted until then, unless the rule gets another name"
		}
		text := fmt.Sprintf("hits of %s were counted, and that time is still to come: %s", newest.Format(time.RFC3339), why)
		if !p.ahead {
			p.faults.Note("clock", fmt.Errorf("%s", text))
		}
		p.ahead = true
		return text
	}

	p.ahead = false
	if p.last != "" && now.Sub(p.lastAt) < longNoted {
		return fmt.Sprintf("%s (%s)", p.last, p.lastAt.UTC().Format(time.RFC3339))
	}
	return ""
}
