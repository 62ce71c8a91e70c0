package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	fetchapi "github.com/segmentio/kafka-go/protocol/fetch"

	"weir/internal/topic"
	"weir/internal/varint"
)

const (
	longPoll      = 500 * time.Millisecond // how long a broker waits for a record before it answers without one
	patientPoll   = 2 * time.Second        // the same for a patient Reader
	oldestFetch   = 4                      // version of the request: that of Kafka 0.11, which brought today's record format
	mostBeyond    = 256 << 20              // bytes of one batch that an answer may have beyond those asked for
	correlation   = 1                      // a connection has one request in flight
	headerBytes   = 4                      // of an answer, before its body
	smallestBytes = 64 << 10               // of a buffer
)

var errAnswer = errors.New("the answer has an invalid form")

// A fetch is a request for the records of a partition, which reads the answer itself. kafka-go would parse records byte
// by byte, and that costs many times more than all other work on a log's line.
type fetch struct {
	fetchapi.Request
	version int16
	most    int
	buffer  []byte // for the answer. A caller that gives up leaves the buffer to the request: the answer may still arrive.
}

// An answer is a broker's answer to a fetch.
type answer struct {
	throttle time.Duration
	code     int16
	found    bool // the partition is in it
	span     topic.Span
	batches  []byte // of records; the last may be cut off
	buffer   []byte // contains the batches
}

// ApiKey makes an answer one of kafka-go's messages.
func (*answer) ApiKey() protocol.ApiKey { return protocol.Fetch } //nolint:revive // kafka-go calls it so

// fetch asks for records. From now on the buffer belongs to the answer. A broker's refusal also returns its answer.
func (c *Client) fetch(ctx context.Context, name string, partition int, offset int64, wait time.Duration, most int, buffer []byte) (*answer, error) {
	asked := fetchapi.RequestPartition{Partition: int32(partition), CurrentLeaderEpoch: -1, FetchOffset: offset, LogStartOffset: -1, PartitionMaxBytes: int32(most)}
	request := &fetch{most: most, buffer: buffer, Request: fetchapi.Request{
		ReplicaID: -1, MaxWaitTime: int32(wait.Milliseconds()), MinBytes: 1, MaxBytes: int32(most), SessionID: -1, SessionEpoch: -1,
		Topics: []fetchapi.RequestTopic{{Topic: name, Partitions: []fetchapi.RequestPartition{asked}}},
	}}

	// Well above patientPoll: an answer without records is no failure.
	patient, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	response, err := c.transport.RoundTrip(patient, c.kafka.Addr, request)
	if err != nil {
		return nil, err
	}

	got, ok := response.(*answer)
	switch {
	case !ok:
		return nil, errAnswer
	case got.code != 0:
		return got, kafkago.Error(got.code)
	case !got.found && got.throttle == 0: // a throttled answer has nothing else
		return nil, protocol.ErrNoPartition
	}

	return got, nil
}

// Required stores the version that was agreed, and states that the request writes itself.
func (f *fetch) Required(versions map[protocol.ApiKey]int16) bool {
	f.version = versions[protocol.Fetch]
	return true
}

// RawExchange sends the request and reads the answer.
func (f *fetch) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	if f.version < oldestFetch {
		return nil, fmt.Errorf("the broker supports only version %d of fetch, and %d is needed: is it older than Kafka 0.11?", f.version, oldestFetch)
	}
	if err := protocol.WriteRequest(rw, f.version, correlation, clientID, &f.Request); err != nil {
		return nil, err
	}

	var header [4 + headerBytes]byte
	if _, err := io.ReadFull(rw, header[:]); err != nil {
		return nil, err
	}

	// The size comes from the network, and is bounded before memory is taken for it.
	size := int(int32(binary.BigEndian.Uint32(header[:]))) - headerBytes
	if id := binary.BigEndian.Uint32(header[4:]); id != correlation || size < 0 || size > f.most+mostBeyond {
		return nil, fmt.Errorf("%w: %d bytes, to request %d", errAnswer, size, id)
	}
	if cap(f.buffer) < size {
		f.buffer = make([]byte, max(size, min(2*cap(f.buffer), f.most), smallestBytes))
	}

	f.buffer = f.buffer[:size]
	if _, err := io.ReadFull(rw, f.buffer); err != nil {
		return nil, err
	}
	return readAnswer(f.buffer, f.version)
}

// readAnswer reads the answer to a fetch of one partition.
func readAnswer(b []byte, version int16) (*answer, error) {
	in := newWire(b)
	got := &answer{buffer: b, throttle: time.Duration(in.int32()) * time.Millisecond}
	// From version 7 on the answer has an error and a session of its own.
	if version >= 7 {
		got.code = in.int16()
		in.int32() // session
	}

	if topics := in.int32(); topics > 0 {
		in.Take(int64(in.int16())) // name
		if partitions := in.int32(); partitions > 0 {
			got.partition(&in, version)
		}
	}

	if in.Failed {
		return nil, fmt.Errorf("%w: it ends too early", errAnswer)
	}
	return got, nil
}

func (a *answer) partition(in *wire, version int16) {
	a.found = true
	in.int32() // number
	if code := in.int16(); code != 0 {
		a.code = code
	}

	a.span.End = in.int64()
	in.int64() // last stable offset
	// Older brokers do not send where the log begins.
	if version >= 5 {
		a.span.Start = in.int64()
	}

	const aborted = 16 // bytes of a transaction
	in.Take(max(0, int64(in.int32())) * aborted)
	if version >= 11 {
		in.int32() // preferred replica
	}

	a.batches = in.Take(max(0, int64(in.int32())))
}

// A wire reads bytes of Kafka's protocol, whose numbers have fixed lengths too.
type wire struct{ varint.Reader }

func newWire(b []byte) wire { return wire{varint.Reader{Left: b}} }

func (w *wire) int16() int16 {
	if b := w.Take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (w *wire) int32() int32 {
	if b := w.Take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (w *wire) int64() int64 {
	if b := w.Take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// bytes reads a key or a value; nil is Kafka's null.
func (w *wire) bytes() []byte {
	if n := w.Signed(); n >= 0 {
		return w.Take(n)
	}
	return nil
}
