package listeners

import (
	"context"
	"fmt"

	"weir/pkg/collector/pipeline"
)

// A feed brings the records of an inbox to a stream, whose goroutine it is called in.
type feed struct {
	in      *pipeline.Intake
	inbox   *inbox
	what    string                                          // is counted
	message func(record []byte, to *pipeline.Stream) []byte // without what is around it
	sample  func(record []byte) []byte                      // likewise, while the form is not known
}

// run gives the records of the inbox to the stream until ctx is done; then it waits for Kafka to acknowledge them
// until work is done.
func (f feed) run(ctx, work context.Context, to *pipeline.Stream) error {
	left := 0 // records that were taken and not counted
	var err error
	for err == nil && ctx.Err() == nil {
		if taken := f.inbox.take(); len(taken.ends) > 0 {
			left, err = f.count(work, to, taken)
		} else {
			err = to.Wait(ctx, f.inbox.more)
		}
	}

	if ctx.Err() == nil {
		return fmt.Errorf("counting %s: %w", f.what, err)
	}
	if left == 0 { // else the second context is done already
		left, err = f.count(work, to, f.inbox.take())
	}
	if err == nil {
		err = to.Drain(work)
	}
	if err != nil {
		f.in.Logger().Error("Kafka did not acknowledge the last lines: they may be lost", "lines not counted", left, "cuts not acknowledged", to.InFlight(), "why", err)
	}

	return nil
}

// count gives the taken records to the stream. It returns how many are left after an error.
func (f feed) count(ctx context.Context, to *pipeline.Stream, taken records) (left int, err error) {
	left = len(taken.ends)
	to.SetLag(int64(left))
	f.learn(to, taken)
	err = taken.each(func(record []byte, why pipeline.Reason) (err error) {
		message := f.message(record, to)
		// A client must not be able to make its requests too long to be counted.
		if why == pipeline.Counted || why == pipeline.ReasonLong && to.Reads(message) {
			err = to.Add(ctx, message, to.Position()+1)
		} else {
			err = to.Lost(ctx, record, why, to.Position()+1)
		}
		if err == nil {
			left--
			to.SetLag(int64(left))
		}
		return err
	})

	to.Show()
	return left, err
}

// learn finds out the form from the taken records, where it is not known.
func (f feed) learn(to *pipeline.Stream, taken records) {
	if !to.Learns() {
		return
	}
	var sample []string
	_ = taken.each(func(record []byte, why pipeline.Reason) error {
		if why == pipeline.Counted {
			sample = append(sample, string(f.sample(record)))
		}
		if len(sample) == pipeline.SampleLines {
			return errEnough
		}
		return nil
	})

	to.Learn(sample, nil)
}
