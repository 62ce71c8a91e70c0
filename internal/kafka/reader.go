package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

const (
	longPoll        = 500 * time.Millisecond // how long a broker waits for a record before it answers that there is none
	defaultMaxBytes = 4 << 20
)

// A Record is one record of a partition.
type Record struct {
	Offset     int64
	Time       time.Time // by the producer's clock, or the broker's where the topic says so
	Key, Value []byte    // nil is Kafka's null, which is not the same as empty
}

// A Reader reads one partition, record after record. One goroutine uses it.
type Reader struct {
	// MaxBytes bounds an answer; 0 is 4 MiB. One batch of records comes whole even when it is longer. Values
	// near a batch's size waste up to half of what is sent.
	MaxBytes int

	client    *Client
	topic     string
	partition int
	next      int64
	span      Span
	trouble   trouble
	throttled time.Duration

	records []Record
	bytes   []byte // where the records' keys and values are
}

// NewReader reads a partition from an offset on. It starts nothing.
func (c *Client) NewReader(topic string, partition int, offset int64) *Reader {
	return &Reader{client: c, topic: topic, partition: partition, next: offset}
}

// Next is the offset that the next Fetch begins at.
func (r *Reader) Next() int64 { return r.next }

// SetNext makes the next Fetch begin at an offset.
func (r *Reader) SetNext(offset int64) { r.next = offset }

// Span is what the partition held at the last answer; zero before the first.
func (r *Reader) Span() Span { return r.span }

// Fetch returns the next records. It waits up to half a second for one and returns none when there is none, or
// when the log was compacted where it looked. The records and their bytes are good until the next Fetch.
//
// ErrTrimmed says that the log begins after Next, ErrPastEnd that it ends before; Span then says where, and Next
// stays. After any other error but the context's the same call may simply be repeated: it was logged and counted,
// and the pause that belongs after it is over.
func (r *Reader) Fetch(ctx context.Context) ([]Record, error) {
	sleep(ctx, r.throttled)
	response, err := r.client.kafka.Fetch(ctx, &kafkago.FetchRequest{
		Topic: r.topic, Partition: r.partition, Offset: r.next,
		MinBytes: 1, MaxBytes: int64(r.maxBytes()), MaxWait: longPoll,
	})
	if err == nil {
		r.throttled = response.Throttle
		err = response.Error
	}
	if err == nil {
		err = r.take(response)
	}
	if err != nil {
		return nil, r.failed(ctx, err)
	}
	if r.trouble.times > 0 {
		r.client.faults.over("fetch", fmt.Sprintf("%s/%d can be read", r.topic, r.partition), r.trouble.since)
		r.trouble = trouble{}
	}
	return r.records, nil
}

func (r *Reader) maxBytes() int {
	if r.MaxBytes > 0 {
		return r.MaxBytes
	}
	return defaultMaxBytes
}

// take copies the records that were wanted out of kafka-go's buffers, and moves on.
func (r *Reader) take(response *kafkago.FetchResponse) error {
	clear(r.records)
	r.records, r.bytes = r.records[:0], r.bytes[:0]
	wanted := r.next
	for {
		record, err := response.Records.ReadRecord()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = r.keep(record, wanted)
		}
		if err != nil {
			r.next = wanted
			return fmt.Errorf("reading a record: %w", err)
		}
	}
	r.span = Span{Start: response.LogStartOffset, End: response.HighWatermark}
	if len(r.records) == 0 && response.HighWatermark > wanted {
		r.next = max(wanted, lastBatch(response.Records)) + 1
	}
	return nil
}

func (r *Reader) keep(record *kafkago.Record, wanted int64) error {
	defer closeBytes(record.Key)
	defer closeBytes(record.Value)
	if record.Offset < wanted {
		return nil // a batch begins before the offset that it was fetched for
	}
	key, err := r.copy(record.Key)
	if err != nil {
		return err
	}
	value, err := r.copy(record.Value)
	if err != nil {
		return err
	}
	r.records = append(r.records, Record{Offset: record.Offset, Time: record.Time, Key: key, Value: value})
	r.next = record.Offset + 1
	return nil
}

func closeBytes(b kafkago.Bytes) {
	if b != nil {
		b.Close()
	}
}

// copy takes bytes over into the reader's own. Where these have no room, larger ones are begun: what was copied
// before stays where it is.
func (r *Reader) copy(from kafkago.Bytes) ([]byte, error) {
	if from == nil {
		return nil, nil
	}
	if from.Len() == 0 {
		return []byte{}, nil
	}
	begin, length := len(r.bytes), from.Len()
	if cap(r.bytes)-begin < length {
		r.bytes, begin = make([]byte, 0, max(2*cap(r.bytes), length, 64<<10)), 0
	}
	r.bytes = r.bytes[:begin+length]
	to := r.bytes[begin : begin+length : begin+length]
	_, err := io.ReadFull(from, to)
	return to, err
}

// lastBatch is where the last batch of an answer begins, -1 when there is none.
//
// An answer without a wanted record, though the log goes on, comes from what the log cleaner leaves: empty batches,
// holes at the end of batches and of segments. How long a hole is kafka-go does not say; to go on after the
// beginning of the last batch is the largest step that skips nothing.
func lastBatch(records kafkago.RecordReader) int64 {
	stream, _ := records.(*protocol.RecordStream)
	if stream == nil || len(stream.Records) == 0 {
		return -1
	}
	batch, _ := stream.Records[len(stream.Records)-1].(interface{ Offset() int64 })
	if batch == nil {
		return -1
	}
	return batch.Offset()
}

func (r *Reader) failed(ctx context.Context, err error) error {
	if errors.Is(err, kafkago.OffsetOutOfRange) {
		err = r.outOfRange(ctx)
	}
	err = fmt.Errorf("fetching %s/%d: %w", r.topic, r.partition, r.client.cause(ctx, err))
	if ctx.Err() != nil || errors.Is(err, ErrTrimmed) || errors.Is(err, ErrPastEnd) {
		return err
	}
	r.client.faults.note("fetch", err)
	sleep(ctx, r.trouble.another(time.Now()))
	return err
}

// outOfRange asks what the partition holds, for the broker's refusal does not say.
func (r *Reader) outOfRange(ctx context.Context) error {
	span, err := r.client.span(ctx, r.topic, r.partition)
	switch {
	case err != nil:
		return err
	case r.next < span.Start:
		r.span = span
		return faultf(ErrTrimmed, "the log begins at %d now: %d records from %d on are gone", span.Start, span.Start-r.next, r.next)
	case r.next > span.End:
		r.span = span
		return faultf(ErrPastEnd, "the log ends at %d, before %d", span.End, r.next)
	}
	return faultf(ErrNoLeader, "offset %d is out of range for one broker and not for another", r.next)
}
