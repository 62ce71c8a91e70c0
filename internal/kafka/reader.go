package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"weir/internal/sleep"
	"weir/internal/topic"
)

const defaultMaxBytes = 4 << 20

// A Reader reads one partition, record after record. One goroutine uses it.
type Reader struct {
	// MaxBytes bounds an answer; 0 is 4 MiB. One batch of records comes complete even when it is longer. Values near a
	// batch's size waste up to half of the transferred bytes. It also bounds the unpacked size of compressed records
	// for a Fetch: the rest comes with the next.
	MaxBytes int
	// SharesRoom makes the Reader wait for room before it unpacks a record that is longer than MaxBytes: see MakeRoom.
	SharesRoom bool

	client    *Client
	topic     string
	partition int
	next      int64
	wait      time.Duration // for a record
	span      topic.Span
	trouble   trouble
	throttled time.Duration

	records  []topic.Record
	buffer   []byte // of the last answer, with the records' keys and values
	unpacked []byte // or here, for compressed batches
	consumed int    // bytes of unpacked that were read

	left     []byte     // of the last answer
	complete bool       // a batch of it was complete
	packed   *unpacking // the batch that is being unpacked, or nil
	held     int        // bytes of compressed batches that this Fetch returns

	needsRoom bool // the next record is long
	hasRoom   bool
	room      []byte // of the client; nil until it is needed
}

// NewReader reads a partition from an offset on. It starts nothing.
func (c *Client) NewReader(name string, partition int, offset int64) *Reader {
	return &Reader{client: c, topic: name, partition: partition, next: offset, wait: longPoll}
}

// Next returns the offset that the next Fetch begins at.
func (r *Reader) Next() int64 { return r.next }

// SetNext makes the next Fetch begin at an offset.
func (r *Reader) SetNext(offset int64) {
	r.drop()
	r.GiveRoom()
	r.next, r.needsRoom = offset, false
}

// SetPatient is what topic.SetPatient calls.
func (r *Reader) SetPatient(patient bool) {
	r.wait = longPoll
	if patient {
		r.wait = patientPoll
	}
}

// Span returns the extent of the partition at the last answer; zero before the first.
func (r *Reader) Span() topic.Span { return r.span }

// Fetch returns the next records. It waits up to half a second for one, two if it is patient. It returns none when there is none, or when the
// log was compacted at that place. The records and their bytes are valid until the next Fetch.
//
// ErrTrimmed means that the log begins after Next, ErrPastEnd that it ends before; Span then has the log's extent, and
// Next stays. After any other error, except the context's, the same call may be repeated at once: Fetch has logged and
// counted it, and has already paused. Records before a damaged batch are returned, and the next Fetch fails.
func (r *Reader) Fetch(ctx context.Context) ([]topic.Record, error) {
	// The last answer has more than one Fetch returns: no request is needed.
	if r.packed != nil {
		if err := r.goOn(); err != nil {
			return nil, r.failed(ctx, err)
		}
		return r.records, nil
	}

	sleep.For(ctx, r.throttled)

	// The request owns the buffer until it has an answer: when the context ends, the answer may still arrive in it.
	buffer := bounded(r.buffer, r.maxBytes())
	r.buffer = nil
	got, err := r.client.fetch(ctx, r.topic, r.partition, r.next, r.wait, r.maxBytes(), buffer)
	r.throttled = 0
	if got != nil {
		r.throttled = got.throttle
	}
	if err == nil {
		err = r.read(got)
	}
	if err != nil {
		return nil, r.failed(ctx, err)
	}

	if r.trouble.times > 0 {
		r.client.errorLog.over("fetch", fmt.Sprintf("%s/%d can be read", r.topic, r.partition), r.trouble.since)
		r.trouble = trouble{}
	}
	return r.records, nil
}

// identifyAgain is the pause after a failed request for the identity.
const identifyAgain = 500 * time.Millisecond

// Identity returns the identity of the topic. As after Fetch, the same call may be repeated at once after an error.
func (r *Reader) Identity(ctx context.Context) (topic.Identity, error) {
	id, err := r.client.Identity(ctx, r.topic)
	if err != nil && ctx.Err() == nil {
		r.client.errorLog.note("identity", err)
		sleep.For(ctx, identifyAgain)
	}
	return id, err
}

// goOn reads more of the last answer.
func (r *Reader) goOn() error {
	r.begin()
	if err := r.continueBatches(); err != nil && len(r.records) == 0 {
		return err
	}
	return nil
}

// bounded returns a buffer for reuse, but drops one that a long batch made large.
func bounded(b []byte, most int) []byte {
	if cap(b) > 2*most {
		return nil
	}
	return b[:0]
}

func (r *Reader) maxBytes() int {
	if r.MaxBytes > 0 {
		return r.MaxBytes
	}
	return defaultMaxBytes
}

// read reads an answer; it returns an error when nothing precedes the damage. An answer without a batch, though the log
// goes on, is a hole of the log cleaner with an unknown length.
func (r *Reader) read(a *answer) error {
	r.drop()
	r.GiveRoom()
	r.begin()
	r.buffer = a.buffer
	if !a.found {
		return nil
	}

	wanted := r.next
	if err := r.readBatches(a.batches); err != nil && len(r.records) == 0 {
		return err
	}

	r.span = a.span
	if len(a.batches) == 0 && a.span.End > wanted {
		r.next = wanted + 1
	}
	return nil
}

func (r *Reader) failed(ctx context.Context, err error) error {
	if errors.Is(err, kafkago.OffsetOutOfRange) {
		err = r.outOfRange(ctx)
	}
	err = fmt.Errorf("fetching %s/%d: %w", r.topic, r.partition, r.client.rightless(r.client.cause(ctx, err), "Read", r.topic))
	// These are for the caller to decide, and not faults of the connection: no pause, no line in the log.
	if ctx.Err() != nil || errors.Is(err, topic.ErrTrimmed) || errors.Is(err, topic.ErrPastEnd) {
		return err
	}
	r.client.errorLog.note("fetch", err)
	sleep.For(ctx, r.trouble.another(time.Now()))
	return err
}

// outOfRange asks for the extent of the partition, because the broker's refusal does not have it.
func (r *Reader) outOfRange(ctx context.Context) error {
	span, err := r.client.span(ctx, r.topic, r.partition)
	switch {
	case err != nil:
		return err
	case r.next < span.Start:
		r.span = span
		return topic.Errorf(topic.ErrTrimmed, "the log begins at %d now: %d records from %d on are gone", span.Start, span.Start-r.next, r.next)
	case r.next > span.End:
		r.span = span
		return topic.Errorf(topic.ErrPastEnd, "the log ends at %d, before %d", span.End, r.next)
	}
	return topic.Errorf(topic.ErrNoLeader, "offset %d is out of range for one broker and not for another", r.next)
}
