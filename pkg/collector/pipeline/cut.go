package pipeline

import (
	"sync/atomic"
	"time"

	"weir/internal/sleep"
	"weir/internal/topic"
	"weir/pkg/collector/journal"
)

// A Cut is the part of a log between two positions, and the batches made from it. Once the journal has noted a cut, it
// is never made differently.
//
// The stream's goroutine owns it, except for noted, fault and left: through these the journal's and the producer's
// goroutines report how far the cut has got, and wake the stream.
type Cut struct {
	journal.Cut

	span  int64 // how much request time it may cover, ms
	first int64 // the newest request time with its first request, Unix ms; NoTime before that
	begun time.Time
	wake  chan<- struct{} // of the stream
	then  []func(error)   // called once Kafka has all of it, or has refused it

	noted     atomic.Bool  // the journal has it, or has refused it
	fault     error        // why it was refused; written before noted
	left      atomic.Int32 // batches that Kafka does not have yet
	lost      atomic.Int32 // hits in those that Kafka refused permanently
	submitted bool         // the journal has been asked to note it
	sent      bool
	again     bool // it was noted by an earlier owner, who may have sent it
}

// SetNoted reports that the journal has the cut, or why it has refused it, and wakes the stream.
func (c *Cut) SetNoted(fault error) {
	c.fault = fault
	c.noted.Store(true)
	sleep.Wake(c.wake)
}

const valueBytes = 16 // of a value that was seen

func (c *Cut) bytes() int {
	n := 0
	for i := range c.Batches {
		n += len(c.Batches[i].Value)
	}
	return n + len(c.Seen)*valueBytes
}

// messages returns the records of a cut. The producer's goroutine calls the function for each that is settled.
func messages(c *journal.Cut, settled func(*journal.Batch, error)) []topic.Message {
	messages := make([]topic.Message, len(c.Batches))
	for i := range c.Batches {
		b := &c.Batches[i]
		messages[i] = topic.Message{Partition: b.Partition, Value: b.Value, Done: func(_ int64, err error) { settled(b, err) }}
	}
	return messages
}
