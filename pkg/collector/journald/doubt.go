package journald

import (
	"context"
	"time"

	"weir/internal/sleep"
)

// A doubt is about an entry that lacks fields which are wanted, perhaps because it was being written.
type doubt struct {
	series    string
	number    uint64
	since     time.Time
	unfounded bool // another child read it without them too
	apart     time.Duration
}

const (
	// A doubt can be settled when there is another entry, because they are written one after the other. Where none comes, the
	// program that wrote this one may have been killed.
	doubtFor = time.Second
	askEvery = 10 * time.Millisecond
	// Each doubt costs a process. So where entries just do not have the fields, doubts wait longer.
	doubtsApart = 100 * time.Millisecond
)

// lacks reports whether an entry lacks a field that is wanted.
func (l *log) lacks(e *entry) bool {
	if _, has := e.fields[message]; !has {
		return true
	}
	for _, name := range l.options.Fields {
		if _, has := e.fields[name]; !has {
			return true
		}
	}
	return false
}

// doubts reports whether an entry that lacks fields is to be read again.
func (l *log) doubts(e *entry) bool {
	switch was := &l.doubt; {
	case e.series == was.series && e.number == was.number:
		was.unfounded = true
		return false
	case e.number <= l.end: // it was complete when the child was started
		return false
	case was.unfounded:
		*was = doubt{apart: doubtsApart}
	default:
		*was = doubt{}
	}
	l.doubt.series, l.doubt.number, l.doubt.since = e.series, e.number, time.Now()
	return true
}

// settle waits until the entry that is in doubt, if any is, can be read again.
func (l *log) settle(ctx context.Context, at place) error {
	d := &l.doubt
	if d.series != at.series || d.number <= at.number {
		return nil
	}
	sleep.For(ctx, d.apart-time.Since(d.since))
	for time.Since(d.since) < doubtFor && ctx.Err() == nil {
		all, err := l.series()
		if err != nil {
			return err
		}
		for _, s := range all {
			if s.id == d.series && s.tail > d.number {
				return nil
			}
		}
		sleep.For(ctx, askEvery)
	}
	return nil
}
