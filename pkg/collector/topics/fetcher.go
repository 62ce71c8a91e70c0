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
	reader  *kafka.Reader
	now     func() time.Time
	want    chan struct{} // fetch the next records; the last ones are not needed any more
	more    chan struct{} // the next records, or an error, are there
	records []topic.Record
	err     error
	at      time.Time // of the answer
}

func newFetcher(reader *kafka.Reader, now func() time.Time) *fetcher {
	reader.MaxBytes, reader.SharesRoom = fetchBytes, true
	return &fetcher{reader: reader, now: now, want: make(chan struct{}, 1), more: make(chan struct{}, 1)}
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
