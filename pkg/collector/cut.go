package collector

import (
	"sync/atomic"
	"time"

	"weir/internal/kafka"
	"weir/pkg/hit"
)

// A cut is the part of a log between two positions, and the batches made from it. Once the journal has noted a cut, it
// is never made differently.
//
// The stream's goroutine owns it, except for noted, fault and left: through these the journal's and the producer's
// goroutines report how far the cut has got, and wake the stream.
type cut struct {
	source      string
	from, to    int64
	clock       int64  // the collector's when the cut was begun, Unix ms: requests after it are ahead of time
	fingerprint string // of the rules
	span        int64  // how much request time it may cover, ms
	first       int64  // the newest request time with its first request, Unix ms; noTime before that
	reached     int64  // the newest request time of the stream up to here, Unix ms; unknown (noTime) before the first
	note        []byte // what the source keeps with the position
	batches     []batch

	begun time.Time
	then  []func(error) // called once Kafka has all of it, or has refused it

	noted     atomic.Bool  // the journal has it, or has refused it
	fault     error        // why it was refused; written before noted
	left      atomic.Int32 // batches that Kafka does not have yet
	lost      atomic.Int32 // hits in those that Kafka refused permanently
	submitted bool         // the journal has been asked to note it
	sent      bool
	again     bool // it was noted by an earlier owner, who may have sent it
}

// A batch is one record for one partition.
type batch struct {
	partition int
	hits      int
	value     []byte
}

// copied returns the same cut in the state before anything of it was sent.
func (c *cut) copied() *cut {
	return &cut{source: c.source, from: c.from, to: c.to, clock: c.clock, fingerprint: c.fingerprint, reached: c.reached, note: c.note, batches: c.batches}
}

func (c *cut) bytes() int {
	n := 0
	for i := range c.batches {
		n += len(c.batches[i].value)
	}
	return n
}

// messages returns the cut's records. The producer's goroutine calls the function for each record that is settled.
func (c *cut) messages(settled func(*cut, *batch, error)) []kafka.Message {
	messages := make([]kafka.Message, len(c.batches))
	for i := range c.batches {
		b := &c.batches[i]
		messages[i] = kafka.Message{Partition: b.partition, Value: b.value, Done: func(_ int64, err error) { settled(c, b, err) }}
	}
	return messages
}

// header returns the header of one of its batches.
func (c *cut) header(part int, more bool) hit.Header {
	return hit.Header{Source: c.source, From: c.from, To: c.to, Part: part, More: more, Clock: c.clock, Fingerprint: c.fingerprint}
}
