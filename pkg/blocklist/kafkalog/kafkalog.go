// Package kafkalog reads the topic blocklist from Kafka for package follow.
//
// A Log belongs to one goroutine. It starts none, and waits for records for half a second at most.
package kafkalog

import (
	"context"
	"errors"

	"weir/internal/topic"
	"weir/pkg/blocklist"
	"weir/pkg/blocklist/follow"
)

// A Log is the topic, read from its beginning on.
type Log struct {
	reader  topic.Reader
	changes []blocklist.Change
}

// New makes the log of a topic. It sends no request yet.
func New(log topic.Log, name string) *Log {
	return &Log{reader: log.Reader(name, 0, 0, 0)}
}

// Read implements follow.Log.
func (l *Log) Read(ctx context.Context) ([]blocklist.Change, error) {
	records, err := l.reader.Fetch(ctx)
	switch {
	case errors.Is(err, topic.ErrTrimmed):
		return nil, errors.Join(follow.ErrTrimmed, err)
	case errors.Is(err, topic.ErrPastEnd):
		return nil, errors.Join(follow.ErrPastEnd, err)
	case err != nil:
		return nil, err
	}

	// The old records are dropped, or they would keep their fetch in memory.
	clear(l.changes)
	l.changes = l.changes[:0]
	for _, r := range records {
		l.changes = append(l.changes, blocklist.Change{Offset: r.Offset, Key: r.Key, Value: r.Value})
	}

	return l.changes, nil
}

// Next implements follow.Log.
func (l *Log) Next() int64 { return l.reader.Next() }

// SetNext implements follow.Log.
func (l *Log) SetNext(offset int64) { l.reader.SetNext(offset) }

// Topic implements follow.Log.
func (l *Log) Topic(ctx context.Context, before string) (name string, same bool, err error) {
	id, err := l.reader.Identity(ctx)
	if err != nil {
		return "", false, err
	}
	return string(id), id == "" || before == "" || id.Is(topic.Identity(before)), nil
}

// Span implements follow.Log.
func (l *Log) Span() (start, end int64) {
	span := l.reader.Span()
	return span.Start, span.End
}
