package kafka

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/segmentio/kafka-go/protocol"

	"weir/internal/topic"
)

const (
	batchMagic  = 2  // the version that Kafka has written since 0.11
	batchLength = 12 // the start of the bytes that its length counts
	batchForm   = 16 // the place of its version, in older ones too
	batchSummed = 21 // the start of the bytes that its checksum covers
	batchHeader = 61 // the start of its records

	timeOfBroker = 1 << 3 // an attribute: all records have the time at which the broker got the last of them
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	errBatch   = errors.New("it is damaged")
	errEarly   = fmt.Errorf("a record ends too early: %w", errBatch)
)

// A recordBatch is the head of a batch.
type recordBatch struct {
	base       int64 // offset of the first record before cleaning
	last       int64 // offset of the last record before cleaning
	attributes protocol.Attributes
	first      int64 // base of the records' times, Unix ms
	latest     int64
	count      int
}

// at returns the offset of a record. Brokers do not check what its producer wrote there, and an offset behind the batch
// would skip the batches of others.
func (h *recordBatch) at(delta int64) int64 { return min(h.base+delta, h.last) }

// readBatches reads the wanted records of an answer, and moves past the last batch, or past the last good one when a batch is
// damaged. It skips batches without records for us, which the log cleaner and transactions leave. It stops when enough
// is unpacked for a Fetch, and continues with the next.
func (r *Reader) readBatches(b []byte) error {
	r.left, r.complete = b, false
	return r.continueBatches()
}

func (r *Reader) continueBatches() error {
	for {
		if r.packed == nil {
			more, err := r.nextBatch()
			// The rest of a damaged answer is dropped: where the next batch begins is not known.
			if err != nil || !more {
				r.drop()
				return err
			}
		}

		if r.packed == nil {
			continue
		}
		at := r.packed.head.base
		if err := r.readPacked(); errors.Is(err, errRoom) {
			return nil
		} else if err != nil {
			r.drop()
			return fmt.Errorf("the batch at %d: %w", at, err)
		}
	}
}

// nextBatch reads the next batch, or begins to unpack it; more is false when there is none.
func (r *Reader) nextBatch() (more bool, err error) {
	b := r.left
	if len(b) <= batchForm {
		return false, r.cutOff()
	}
	if form := b[batchForm]; form != batchMagic {
		return false, fmt.Errorf("records of form %d cannot be read, only of form %d, which Kafka writes since 0.11", form, batchMagic)
	}

	size := batchLength + int(int32(binary.BigEndian.Uint32(b[batchLength-4:])))
	if size < batchHeader {
		return false, fmt.Errorf("a batch of %d bytes: %w", size, errBatch)
	}
	if size > len(b) {
		return false, r.cutOff()
	}
	if err := r.readBatch(b[:size]); err != nil {
		return false, fmt.Errorf("the batch at %d: %w", int64(binary.BigEndian.Uint64(b)), err)
	}

	// From now on a batch that is cut off is the answer's end, and not damage.
	r.complete, r.left = true, b[size:]
	return true, nil
}

// cutOff handles the last bytes of an answer: brokers cut off a batch that does not fit, but send at least one.
func (r *Reader) cutOff() error {
	if len(r.left) > 0 && !r.complete {
		return fmt.Errorf("%d bytes of a batch: %w", len(r.left), errBatch)
	}
	return nil
}

// readBatch reads the wanted records of a batch, none when it is damaged. It begins to unpack a compressed one.
func (r *Reader) readBatch(b []byte) error {
	head, records, err := readBatch(b)
	switch {
	case err != nil:
		return err
	case head.attributes.Compression() != 0 && !head.attributes.Control():
		r.packed, err = openPacked(head, records)
		return err
	}

	// A damaged batch must leave none of its records: the next Fetch begins with it again.
	before, wanted := len(r.records), r.next
	if !head.attributes.Control() {
		err = r.readRecords(&head, records)
	}

	if err != nil {
		r.records, r.next = r.records[:before], wanted
		return err
	}

	// Past the batch, also when the log cleaner has removed its last records, or all of them.
	r.next = max(r.next, head.last+1)
	return nil
}

func readBatch(b []byte) (head recordBatch, records []byte, err error) {
	in := newWire(b)
	head.base = in.int64()
	in.Take(4 + 4 + 1) // its length; the leader's epoch; the form
	if sum := in.int32(); uint32(sum) != crc32.Checksum(b[batchSummed:], castagnoli) {
		return head, nil, fmt.Errorf("its checksum does not match: %w", errBatch)
	}
	head.attributes = protocol.Attributes(in.int16())
	head.last = head.base + int64(in.int32())
	head.first, head.latest = in.int64(), in.int64()
	in.Take(8 + 2 + 4) // producer, its epoch, its sequence
	head.count = int(in.int32())
	return head, in.Left, nil
}

// readRecords reads the wanted records: a batch may begin before the offset that it was fetched for.
func (r *Reader) readRecords(head *recordBatch, records []byte) error {
	in := newWire(records)
	for range head.count {
		one := in.Take(in.Signed())
		if in.Failed {
			return errEarly
		}
		if err := r.readRecord(head, one); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reader) readRecord(head *recordBatch, record []byte) error {
	one := newWire(record)
	one.Take(1) // attributes
	at, offset := head.first+one.Signed(), head.at(one.Signed())
	key, value := one.bytes(), one.bytes()
	if one.Failed {
		return errEarly
	}
	if head.attributes&timeOfBroker != 0 {
		at = head.latest
	}

	// The broker sends complete batches, so the first may begin before the offset that was asked for.
	if offset >= r.next {
		r.records = append(r.records, topic.Record{Offset: offset, Time: time.UnixMilli(at), Key: key, Value: value, Headers: one.Left})
		r.next = offset + 1
	}
	return nil
}
