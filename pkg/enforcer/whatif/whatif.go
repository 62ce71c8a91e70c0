// Package whatif answers what other limits of a rule would have done. It replays the rule's hits in weir.hits twice, by
// the rule as it is and with the other limits, and compares who would have been blocked.
//
// Both begin with empty windows at the first hit that is read, and count as an aggregator does: in the order of the
// topic, each batch once, with the same lateness. So of a rule in shadow mode, or one that counts all requests, the
// first outcome is what has happened since then, except what depends on earlier hits. A rule that counts only served
// requests has no hits of requests that were refused; Answer.Notes says so.
//
// # Bounds
//
// Partitions are read one after the other, up to the ends that they have at the beginning. The keys of a partition take
// at most Config.MaxBytes of memory (64 MiB), and are forgotten before the next partition; 20 keys are kept for the answer. When
// Patience is over, or the keys of a partition take more memory, then the answer is of the partitions that were read
// completely: keys are spread over partitions by a hash, so it is of a random part of them. ErrTooMuch is the answer
// when no partition was read completely. The same holds when the topic was deleted, or made again, while it was read: the
// rest of it is not counted, and a partition is complete only if the topic was still the same after it.
//
// Ask starts no goroutine and keeps nothing. It ends with its context.
package whatif

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/internal/topic"
	"weir/pkg/rule"
)

// The bounds of an answer.
const (
	Patience   = 20 * time.Second
	maxBytes   = 64 << 20
	mostTop    = 20
	maxSources = 100_000 // of a partition that are remembered, as in aggregators
)

// ErrTooMuch is returned when not one partition could be read completely.
var ErrTooMuch = errors.New("there are too many hits to count them: ask about a shorter time")

// A Config is where the hits are, and how aggregators count them.
type Config struct {
	Log       topic.Log
	Topic     string        // of hits, in full
	Retention time.Duration // of it
	Late      time.Duration // as aggregators count
	Ahead     time.Duration
	MaxBytes  int // of memory for the keys of a partition; 0 is the usual bound
}

// A Question asks about other limits of a rule.
type Question struct {
	Rule        *rule.Rule
	Limits      []rule.Limit
	Fingerprint string    // of the active rules
	Since       time.Time // of the records that are read: when collectors sent them

	// Turn waits for a turn to count, and returns a function that ends it. It may be nil.
	Turn func() (end func())
}

// An Answer compares the rule as it is with the rule with other limits.
type Answer struct {
	Rule       string    `json:"rule"`
	Since      time.Time `json:"since"`
	Hits       int64     `json:"hits"`
	Keys       int       `json:"keys"`
	First      Instant   `json:"first"` // the times of the oldest and the newest hit; null without hits
	Last       Instant   `json:"last"`
	Partitions int       `json:"partitions"`
	Read       int       `json:"read"` // partitions that this answer is of
	Now        Outcome   `json:"now"`
	Other      Outcome   `json:"other"`
	OnlyNow    int       `json:"only_now"`   // keys that only the rule as it is blocks
	OnlyOther  int       `json:"only_other"` // keys that only the other limits block
	Top        []Key     `json:"top"`        // of the keys that either blocks: those with the most refused hits first
	Notes      []string  `json:"notes"`      // sentences on what the numbers do not say

	unread, earlier, leftOut int64
	another                  bool // the topic was made again before all of it was counted
}

// An Outcome is what one set of limits does.
type Outcome struct {
	Limits  []string `json:"limits"`
	Blocked int      `json:"blocked"` // keys
	Blocks  int64    `json:"blocks"`
	Refused int64    `json:"refused"` // hits within blocks, those that began them included
}

// A Key is what becomes of one key.
type Key struct {
	Key   string  `json:"key"`
	Hits  int64   `json:"hits"`
	Now   Verdict `json:"now"`
	Other Verdict `json:"other"`
}

// A Verdict is what one set of limits does to a key.
type Verdict struct {
	First   Instant `json:"first"` // when its first block began; null without one
	Blocks  int64   `json:"blocks"`
	Refused int64   `json:"refused"`
}

// An Instant is a time in Unix milliseconds; 0 is none. In JSON it is text.
type Instant int64

// MarshalJSON writes RFC 3339, or null.
func (i Instant) MarshalJSON() ([]byte, error) {
	if i == 0 {
		return []byte("null"), nil
	}
	return time.UnixMilli(int64(i)).UTC().MarshalJSON()
}

// UnmarshalJSON reads what MarshalJSON writes.
func (i *Instant) UnmarshalJSON(text []byte) error {
	if *i = 0; string(text) == "null" {
		return nil
	}
	var at time.Time
	if err := at.UnmarshalJSON(text); err != nil {
		return err
	}
	*i = Instant(at.UnixMilli())
	return nil
}

// Ask answers a question.
func Ask(ctx context.Context, c Config, q Question) (*Answer, error) {
	p, err := newPass(c, q)
	if err != nil {
		return nil, err
	}
	in, err := c.Log.Reader(c.Topic, 0, 0, 0).Identity(ctx)
	if err != nil {
		return nil, fmt.Errorf("asking for the hits: %w", err)
	}
	spans, err := c.Log.Offsets(ctx, c.Topic)
	if err != nil {
		return nil, fmt.Errorf("asking for the hits: %w", err)
	}

	p.answer.Partitions = len(spans)
	limited, cancel := context.WithTimeoutCause(ctx, Patience, ErrTooMuch)
	defer cancel()
	for number, span := range spans {
		err := p.partition(limited, number, span.End, in)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if p.answer.another = errors.Is(err, errAnother); p.answer.another || errors.Is(err, ErrTooMuch) || limited.Err() != nil {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading hits: %w", err)
		}
		p.fold()
	}
	switch {
	case p.answer.Read > 0 || len(spans) == 0:
	case p.answer.another:
		return nil, errAnother
	default:
		return nil, ErrTooMuch
	}
	p.answer.note(q)
	return p.answer, nil
}

// note adds what the numbers do not say.
func (a *Answer) note(q Question) {
	if a.Read < a.Partitions {
		why := "because of the time or memory that it takes"
		if a.another {
			why = "because the hits were deleted meanwhile"
		}
		a.Notes = append(a.Notes, fmt.Sprintf("Only %d of %d partitions were counted, %s: these numbers are of a random part of the keys.", a.Read, a.Partitions, why))
	}
	if q.Rule.Count == rule.Served {
		a.Notes = append(a.Notes, "The rule counts only requests that were not refused. Requests that it refused are missing here, so looser limits would refuse more than this.")
	}
	if a.earlier > 0 {
		a.Notes = append(a.Notes, fmt.Sprintf("%d of the hits were counted before the rules were last changed, perhaps by another match or key.", a.earlier))
	}
	if a.leftOut > 0 {
		a.Notes = append(a.Notes, fmt.Sprintf("%d hits are left out: they are from before the rule counted what it counts now.", a.leftOut))
	}
	if a.unread > 0 {
		a.Notes = append(a.Notes, fmt.Sprintf("%d records of the hits could not be read.", a.unread))
	}
	if a.Hits > 0 {
		a.Notes = append(a.Notes, "Counting began with empty windows at the first hit, so blocks that earlier hits would have caused are missing.")
	}
}

// keep keeps a key for the answer, if it is among the first.
func (a *Answer) keep(one Key) {
	if a.Top = append(a.Top, one); len(a.Top) >= 16*mostTop {
		a.cut()
	}
}

func (a *Answer) cut() {
	slices.SortFunc(a.Top, func(x, y Key) int {
		return cmp.Or(cmp.Compare(max(y.Now.Refused, y.Other.Refused), max(x.Now.Refused, x.Other.Refused)), strings.Compare(x.Key, y.Key))
	})
	a.Top = a.Top[:min(len(a.Top), mostTop)]
}
