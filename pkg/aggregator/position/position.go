// Package position keeps where the counting of one partition stands in its log.
//
// A Position goes to the record where counting goes on, and says of the records that are read which come next. It
// notices a log that has lost its beginning, and one that is not the log that was counted: then a new generation begins.
// It also knows how many records wait. Commits reports to the group how far the partition is counted. One goroutine uses
// a Position; Commits has a goroutine of its own. The package stores nothing, and knows no hits and no windows.
package position

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"

	"weir/internal/topic"
)

const (
	shortPatience = 15 * time.Second // for a log that ends too early; a new leader may say so for a moment
)

const (
	unknown = -1

	identifyEvery = 10 * time.Second // which topic the log is
)

// A Log is what a partition is read from: a kafka.Reader.
type Log interface {
	Fetch(ctx context.Context) ([]topic.Record, error)
	SetNext(offset int64)
	Span() topic.Span
	Identity(ctx context.Context) (topic.Identity, error)
}

// A Point is up to where a log is counted.
type Point struct {
	Generation int64  // of the log
	Offset     int64  // of the next record to be counted
	Last       int64  // offset of the last record that was counted; -1 for none
	Checksum   uint64 // xxhash64 of that record
}

// A Position is where the counting of a partition stands.
type Position struct {
	log  Log
	now  func() time.Time
	lost func(from, to int64)

	at     Point
	topic  topic.Identity // of what was counted; empty while it is unknown
	seen   topic.Identity // of the log, when it was last asked for
	asked  time.Time      // when that was; zero: it has to be asked for before anything is counted
	checks bool           // the next record that is read is the one before ours, and must be the one that we know
	fresh  bool           // nothing was counted before: that the log begins later is no loss
	end    int64          // of the log, as last seen
	known  int64          // end of the log when it was last sure to be ours; a log that shrinks is checked again
	short  time.Time      // since when the log ends before what we have counted
	began  int64          // end of the log when counting began; unknown until it was read
	looked time.Time      // when the log was last seen, or Begin was called
	found  bool           // it was seen since then
}

// New makes a Position in a log. Begin has to follow. Records of the log that are gone before they were read are
// reported to lost.
func New(log Log, now func() time.Time, lost func(from, to int64)) *Position {
	return &Position{log: log, now: now, lost: lost, began: unknown}
}

// Reset forgets what is known of the log's end: the partition is taken again.
func (p *Position) Reset() { p.looked, p.found = p.now(), false }

// Begin goes to where counting goes on, in a topic that is empty where it is not known.
func (p *Position) Begin(at Point, identity topic.Identity) {
	p.at, p.began = at, unknown
	p.topic, p.seen, p.asked = identity, "", time.Time{}
	p.known, p.fresh, p.short = 0, at.Offset == 0, time.Time{}
	p.Seek()
}

// Restart goes to the start of a log that has replaced ours: to the point that Next returned.
func (p *Position) Restart(at Point) {
	p.Begin(at, "")
	p.fresh = false
}

// Topic is that of what was counted; empty while it is unknown.
func (p *Position) Topic() topic.Identity { return p.topic }

// At is up to where the log is counted.
func (p *Position) At() Point { return p.at }

// Seek has the next Fetch begin where the counting goes on: one record earlier, where there is one, to see that the log
// is still the one that we know.
func (p *Position) Seek() {
	p.checks = p.at.Last >= 0
	if p.checks {
		p.log.SetNext(p.at.Last)
		return
	}
	p.log.SetNext(p.at.Offset)
}

// Fetch waits for records. Another goroutine may call it, while only questions are asked of the Position: At and Lag.
func (p *Position) Fetch(ctx context.Context) ([]topic.Record, error) {
	records, err := p.log.Fetch(ctx)
	if err == nil || errors.Is(err, topic.ErrTrimmed) {
		if unidentified := p.identify(ctx); unidentified != nil {
			return nil, unidentified
		}
	}
	return records, err
}

// SetPatient is topic.SetPatient for the log.
func (p *Position) SetPatient(patient bool) { topic.SetPatient(p.log, patient) }

// identify asks now and then which topic the log is. An offset, and even a record, says little about that: a log of the
// same name elsewhere may be longer than what was counted.
func (p *Position) identify(ctx context.Context) error {
	now := p.now()
	if since := now.Sub(p.asked); !p.asked.IsZero() && since >= 0 && since < identifyEvery {
		return nil
	}
	seen, err := p.log.Identity(ctx)
	switch {
	case err == nil:
		p.seen, p.asked = seen, now
	case p.asked.IsZero():
		return err
	default:
		p.asked = now // the log can be read; it is asked for later
	}
	return nil
}

// A Replaced log is not the one that was counted. It is read from its start, as a new generation.
type Replaced struct {
	Why   string
	Start int64
}

// Accept takes what Fetch returned. It returns the records that are to be counted, or that the log was replaced.
func (p *Position) Accept(records []topic.Record, err error) ([]topic.Record, *Replaced) {
	span := p.log.Span()
	p.end = span.End
	if err != nil {
		p.asked = time.Time{}
	} else if p.topic == "" {
		p.topic = p.seen
	}

	switch {
	case (err == nil || errors.Is(err, topic.ErrTrimmed)) && p.elsewhere():
		return nil, &Replaced{fmt.Sprintf("it is in the topic %s, and we have counted in %s", p.seen, p.topic), span.Start}
	case errors.Is(err, topic.ErrTrimmed):
		p.trimmed(span)
		return nil, nil
	case errors.Is(err, topic.ErrPastEnd):
		return nil, p.ends(span)
	case err != nil:
		p.Seek() // by the time it can be read it may be another
		return nil, nil
	case span.End < p.at.Offset:
		return nil, p.tooShort(span)
	case span.End < p.known && !p.checks:
		p.known = span.End
		p.Seek()
		return nil, nil
	}

	p.looked, p.found = p.now(), true
	p.short = time.Time{}
	p.known, p.fresh = span.End, false
	if p.began == unknown {
		p.began = span.End
	}
	if p.checks {
		return p.compare(records, span)
	}

	return records, nil
}

// elsewhere reports whether the log is in another topic than what was counted.
func (p *Position) elsewhere() bool { return p.topic != "" && p.seen != "" && !p.seen.Is(p.topic) }

// trimmed goes on where the log begins now.
func (p *Position) trimmed(span topic.Span) {
	if span.Start > p.at.Offset && !p.fresh {
		p.lost(p.at.Offset, span.Start)
	}
	p.at.Offset, p.at.Last = max(p.at.Offset, span.Start), -1
	p.Seek()
}

func (p *Position) ends(span topic.Span) *Replaced {
	return &Replaced{fmt.Sprintf("the log ends at %d, and we have counted up to %d", span.End, p.at.Offset), span.Start}
}

// tooShort doubts a log that ends before what was counted, and believes it after a while.
func (p *Position) tooShort(span topic.Span) *Replaced {
	now := p.now()
	if p.short.IsZero() {
		p.short = now
		p.Seek()
	}
	if now.Sub(p.short) < shortPatience {
		return nil
	}
	return p.ends(span)
}

// compare checks that the record before ours is the one that we know, and returns those behind it.
func (p *Position) compare(records []topic.Record, span topic.Span) ([]topic.Record, *Replaced) {
	if len(records) == 0 {
		return nil, nil
	}
	if first := &records[0]; first.Offset == p.at.Last {
		if xxhash.Sum64(first.Value) != p.at.Checksum {
			return nil, &Replaced{fmt.Sprintf("record %d is another than it was", p.at.Last), span.Start}
		}
		records = records[1:]
	}
	p.checks = false
	return records, nil
}

// Next is where the next generation of the log begins. It is greater than any that the partition has had, also when what
// stored them has forgotten them.
func (p *Position) Next(start int64) Point {
	return Point{Generation: max(p.at.Generation+1, p.now().Unix()), Offset: start, Last: -1}
}

// Counted notes that records are counted, in the order in which Accept returned them.
func (p *Position) Counted(records []topic.Record) {
	if n := len(records); n > 0 {
		last := &records[n-1]
		p.at.Offset, p.at.Last, p.at.Checksum = last.Offset+1, last.Offset, xxhash.Sum64(last.Value)
	}
}

// Settled reports whether the log is known to be ours, and all is counted that was in it when counting began.
func (p *Position) Settled() bool { return !p.checks && p.began != unknown && p.at.Offset >= p.began }

// Halt notes that no more is read. How many records wait is not known from then on.
func (p *Position) Halt() { p.found = false }

// Lag is how many records wait, as it was last seen.
func (p *Position) Lag() Lag { return Lag{max(0, p.end-p.at.Offset), p.looked, p.found} }

// A Lag is how many records of a log wait to be counted, as it was seen at some time.
type Lag struct {
	Records int64
	looked  time.Time
	found   bool
}

// LagPatience is how old a lag may be; an idle log is looked at twice a second.
const LagPatience = 15 * time.Second

// UnknownSince is since when it is not known how many records wait: Kafka does not answer, or what was read cannot be
// counted. Nil while it is known.
func (l Lag) UnknownSince(now time.Time) *time.Time {
	if l.found && now.Sub(l.looked) < LagPatience {
		return nil
	}
	return new(l.looked.UTC())
}
