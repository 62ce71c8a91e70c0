package aggregator

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"weir/internal/kafka"
	"weir/internal/telemetry"
	"weir/pkg/blocklist"
	"weir/pkg/hit"
)

// A list is which list all aggregators write to. Its name is agreed on in the store; its epoch grows when the topic was
// made again, which an aggregator sees as it follows its end.
type list struct {
	config  *Config
	logger  *slog.Logger
	faults  *telemetry.Faults
	owner   func(partition int) *partition // nil where it is not ours
	listEnd func(ctx context.Context) (int64, error)

	mu     sync.Mutex
	id     blocklist.ListID
	newest int64 // an offset that was acknowledged, unknown before
}

func newListName() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

func newList(a *Aggregator, name string) *list {
	return &list{config: &a.config, logger: a.logger, faults: a.faults, owner: a.owner,
		listEnd: func(ctx context.Context) (int64, error) { return a.listEnd(ctx) }, id: blocklist.ListID{Name: name}, newest: unknown}
}

func (l *list) current() blocklist.ListID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.id
}

func (l *list) told() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.newest
}

// tell notes that a record has arrived.
func (l *list) tell(offset int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.newest = max(l.newest, offset)
}

// seen notes what a partition's former owner knew: the list's id, and how far the topic had got.
func (l *list) seen(id string, told int64) {
	if known, err := blocklist.ParseListID(id); err == nil {
		l.adopt(known)
	}
	l.tell(told)
}

// adopt takes a list that others found later than ours.
func (l *list) adopt(id blocklist.ListID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if id.Epoch > l.id.Epoch {
		l.id = id
		l.logger.Warn("the list is another: all that is live is published again", "list", id)
	}
}

// follow reads the end of the topic until the context is done.
func (l *list) follow(ctx context.Context) {
	var reader *kafka.Reader
	for ctx.Err() == nil && reader == nil {
		end, err := l.listEnd(ctx)
		if err != nil {
			l.faults.Note("list", err)
			sleep(ctx, tryAgain)
			continue
		}
		l.faults.Over("list")
		reader = l.config.Client.NewReader(l.config.BlocklistTopic, 0, end)
	}

	last, short := int64(unknown), doubt{}
	for ctx.Err() == nil {
		told := l.told()
		records, err := reader.Fetch(ctx)
		span := reader.Span()
		switch {
		case errors.Is(err, kafka.ErrPastEnd) || err == nil && short.lasts(span.End <= told || span.End < last, l.config.Now()):
			l.begin(span)
			short = doubt{}
			reader.SetNext(span.Start)
			last = span.End
			continue
		case errors.Is(err, kafka.ErrTrimmed):
			reader.SetNext(span.Start)
			continue
		case err != nil:
			continue // said by the reader, with the pause that belongs to it
		}

		last = max(last, span.End)
		for i := range records {
			l.look(ctx, &records[i])
		}
	}
}

// readListed reads records of the list, up to an offset that exists.
func (a *Aggregator) readListed(ctx context.Context, from, to int64, each func(*kafka.Record)) error {
	reader := a.config.Client.NewReader(a.config.BlocklistTopic, 0, from)
	for reader.Next() < to {
		records, err := reader.Fetch(ctx)
		if errors.Is(err, kafka.ErrTrimmed) {
			reader.SetNext(reader.Span().Start)
			continue
		}
		if err != nil {
			return fmt.Errorf("reading the end of the list: %w", err)
		}

		for i := range records {
			each(&records[i])
		}
	}

	return nil
}

// A doubt is since when a log ends before what is known to be in it. A new leader may say so for a moment.
type doubt struct{ since time.Time }

// shortPatience is for a log that ends too early.
const shortPatience = 15 * time.Second

// lasts says whether it has been so for too long for that.
func (d *doubt) lasts(short bool, now time.Time) bool {
	if !short {
		d.since = time.Time{}
		return false
	}
	if d.since.IsZero() {
		d.since = now
	}
	return now.Sub(d.since) >= shortPatience
}

// begin begins a list: the topic is not the one that we wrote to.
func (l *list) begin(span kafka.Span) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.id.Epoch = max(l.id.Epoch+1, l.config.Now().UnixMilli())
	l.newest = span.End - 1
	l.logger.Error("the topic of the list was made anew: all that is live is published again", "topic", l.config.BlocklistTopic, "list", l.id, "ends at", span.End)
}

// look hands a record to the owner of its key, which knows whether it came too late.
func (l *list) look(ctx context.Context, r *kafka.Record) {
	record, err := blocklist.DecodeRecord(r.Key, r.Value)
	switch {
	case err != nil:
		return // readers of the list say it
	case record.Mark != nil:
		l.adopt(record.Mark.List)
	case record.Entry != nil || r.Value == nil:
		if number, ok := partitionOf(r.Key, l.config.Partitions); ok {
			l.superseded(ctx, number, superseded{string(r.Key), record.Entry})
		}
	}
}

// partitionOf is the partition of hits that an entry's record comes from; false for records that are no entry's.
func partitionOf(recordKey []byte, partitions int) (int, bool) {
	rule, key, err := blocklist.ParseRecordKey(recordKey)
	return hit.Partition(rule, []byte(key), partitions), err == nil
}

func (l *list) superseded(ctx context.Context, number int, late superseded) {
	p := l.owner(number)
	if p == nil {
		return
	}
	select {
	case p.heals <- late:
	case <-ctx.Done():
	case <-time.After(time.Second): // its goroutine waits; the entry is published again with the next walk
		p.missed.Store(true)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
