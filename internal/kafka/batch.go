package kafka

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"github.com/segmentio/kafka-go/protocol"
)

const (
	batchMagic   = 2         // of the form that Kafka has written since 0.11
	batchLength  = 12        // where the bytes begin that its length counts
	batchForm    = 16        // where its form stands, in the older ones too
	batchSummed  = 21        // where those begin that its checksum is of
	batchHeader  = 61        // where its records begin
	mostUnpacked = 256 << 20 // bytes of one batch

	timeOfBroker = 1 << 3 // an attribute: the records have the time at which the broker had the last of them
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	errBatch   = errors.New("it is damaged")
)

// A recordBatch is the head of a batch.
type recordBatch struct {
	base       int64 // offset of the first record that it was made of
	last       int64 // and of the last
	attributes protocol.Attributes
	first      int64 // time that the records count theirs from, Unix ms
	latest     int64
	count      int
}

// take takes the records of an answer that were wanted, and moves on behind the last batch: behind those before it when
// one is damaged. What has no records for us, as the log cleaner and transactions leave it, is passed over.
func (r *Reader) take(b []byte) error {
	whole := false
	for len(b) > batchForm {
		if form := b[batchForm]; form != batchMagic {
			return fmt.Errorf("records of form %d cannot be read, only of form %d, which Kafka writes since 0.11", form, batchMagic)
		}
		size := batchLength + int(int32(binary.BigEndian.Uint32(b[batchLength-4:])))
		if size < batchHeader {
			return fmt.Errorf("a batch of %d bytes: %w", size, errBatch)
		}
		if size > len(b) {
			break // brokers cut off what is too long
		}
		if err := r.takeBatch(b[:size]); err != nil {
			return fmt.Errorf("the batch at %d: %w", int64(binary.BigEndian.Uint64(b)), err)
		}
		whole, b = true, b[size:]
	}
	if len(b) > 0 && !whole {
		return fmt.Errorf("%d bytes of a batch: %w", len(b), errBatch)
	}
	return nil
}

// takeBatch takes what was wanted of a batch: nothing when it is damaged.
func (r *Reader) takeBatch(b []byte) error {
	before, wanted := len(r.records), r.next
	head, records, err := readBatch(b)
	if err == nil && head.attributes.Compression() != 0 {
		records, err = r.unpack(head.attributes, records)
	}
	if err == nil && !head.attributes.Control() {
		err = r.takeRecords(&head, records)
	}
	if err != nil {
		r.records, r.next = r.records[:before], wanted
		return err
	}
	r.next = max(r.next, head.last+1)
	return nil
}

func readBatch(b []byte) (head recordBatch, records []byte, err error) {
	in := wire{left: b}
	head.base = in.int64()
	in.take(4 + 4 + 1) // its length; the leader's epoch; the form
	if sum := in.int32(); uint32(sum) != crc32.Checksum(b[batchSummed:], castagnoli) {
		return head, nil, fmt.Errorf("it does not fit its checksum: %w", errBatch)
	}
	head.attributes = protocol.Attributes(in.int16())
	head.last = head.base + int64(in.int32())
	head.first, head.latest = in.int64(), in.int64()
	in.take(8 + 2 + 4) // producer, its epoch, its sequence
	head.count = int(in.int32())
	return head, in.left, nil
}

// unpack takes compressed records out of their wrapping.
func (r *Reader) unpack(attributes protocol.Attributes, packed []byte) ([]byte, error) {
	codec := attributes.Compression().Codec()
	if codec == nil {
		return nil, fmt.Errorf("compression %d is not known", attributes.Compression())
	}
	unpacking := codec.NewReader(bytes.NewReader(packed))
	defer unpacking.Close()
	begin, records := len(r.unpacked), bytes.NewBuffer(r.unpacked)
	n, err := records.ReadFrom(io.LimitReader(unpacking, mostUnpacked+1))
	if err != nil {
		return nil, fmt.Errorf("unpacking %s: %w", codec.Name(), err)
	}
	if n > mostUnpacked {
		return nil, fmt.Errorf("unpacked it has more than %d MiB", mostUnpacked>>20)
	}
	r.unpacked = records.Bytes()
	return r.unpacked[begin:], nil
}

// takeRecords takes those that were wanted: a batch begins before the offset that it was fetched for.
func (r *Reader) takeRecords(head *recordBatch, records []byte) error {
	in := wire{left: records}
	for range head.count {
		one := wire{left: in.take(in.varint())}
		one.take(1) // attributes
		at, offset := head.first+one.varint(), head.base+one.varint()
		key, value := one.bytes(), one.bytes()
		if in.failed || one.failed {
			return fmt.Errorf("a record ends too early: %w", errBatch)
		}
		if head.attributes&timeOfBroker != 0 {
			at = head.latest
		}
		if offset >= r.next {
			r.records = append(r.records, Record{Offset: offset, Time: time.UnixMilli(at), Key: key, Value: value})
			r.next = offset + 1
		}
	}
	return nil
}
