package topics

import (
	"context"
	"time"

	"weir/internal/kafka"
	"weir/internal/topic"
	"weir/pkg/collector/pipeline"
)

const fetchBytes = 1 << 20

// A fetcher fetches records on request, in a goroutine of its own, so that its owner can do other work meanwhile. The
// reader, the records and the error belong to that goroutine from a request on until more, and to the owner otherwise.
type fetcher struct {
	reader  reader
	now     func() time.Time
	want    chan struct{} // fetch the next records; the last ones are not needed any more
	more    chan struct{} // the next records, or an error, are there
	records []topic.Record
	err     error
	at      time.Time // of the answer
}

// A reader reads a partition. Long records need room, which all readers share, where the log is in Kafka.
type reader struct {
	topic.Reader
	roomy
}

type roomy interface {
	NeedsRoom() bool
	MakeRoom(ctx context.Context) error
	GiveRoom()
}

type unlimited struct{}

func (unlimited) NeedsRoom() bool                { return false }
func (unlimited) MakeRoom(context.Context) error { return nil }
func (unlimited) GiveRoom()                      {}

// openReader makes a reader of a partition from an offset on.
func openReader(log topic.Log, of topicPartition, offset int64, maxBytes int) reader {
	opened := log.Reader(of.topic, of.number, offset, maxBytes)
	if r, ok := opened.(*kafka.Reader); ok {
		r.SharesRoom = true
		return reader{r, r}
	}
	return reader{opened, unlimited{}}
}

func newFetcher(log topic.Log, of topicPartition, offset int64, now func() time.Time) *fetcher {
	return &fetcher{reader: openReader(log, of, offset, fetchBytes), now: now, want: make(chan struct{}, 1), more: make(chan struct{}, 1)}
}

// run fetches until the context is done.
func (f *fetcher) run(ctx context.Context) {
	for {
		select {
		case <-f.want:
		case <-ctx.Done():
			return
		}
		f.err = pipeline.Contained(func() (err error) {
			f.records, err = f.reader.Fetch(ctx)
			return err
		})
		f.at = f.now()
		f.more <- struct{}{}
	}
}
