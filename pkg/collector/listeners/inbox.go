package listeners

import (
	"context"
	"sync"

	"weir/internal/sleep"
	"weir/pkg/collector/pipeline"
)

// An inbox is a queue of records: several goroutines put them in, and the stream's goroutine takes them. Its capacity
// in bytes bounds the waiting records; as many again may be taken and in the process of being counted.
type inbox struct {
	capacity int
	more     chan struct{} // something was put in

	mu      sync.Mutex
	waiting records
	spare   records
	room    chan struct{} // closed when the records are taken
}

// records are several records, one after the other.
type records struct {
	bytes []byte
	ends  []end
}

// An end is where a record ends, and why it cannot be read if that is known (counted otherwise).
type end struct {
	at  int
	why pipeline.Reason
}

// size is the memory that they use.
func (r *records) size() int { return len(r.bytes) + 16*len(r.ends) }

func newInbox(capacity int) *inbox {
	return &inbox{capacity: capacity, more: make(chan struct{}, 1), room: make(chan struct{})}
}

// depth is the number of waiting bytes.
func (b *inbox) depth() float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return float64(b.waiting.size())
}

// try puts a record in if there is room. If not, it returns a channel that is closed when another try may succeed.
func (b *inbox) try(record []byte, why pipeline.Reason) (ok bool, room <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := &b.waiting
	if len(w.ends) > 0 && w.size()+len(record)+16 > b.capacity {
		return false, b.room
	}

	w.bytes = append(w.bytes, record...)
	w.ends = append(w.ends, end{len(w.bytes), why})
	if len(w.ends) == 1 {
		sleep.Wake(b.more)
	}

	return true, nil
}

// put waits for room.
func (b *inbox) put(ctx context.Context, record []byte, why pipeline.Reason) error {
	for {
		ok, room := b.try(record, why)
		if ok {
			return nil
		}
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// take returns all waiting records. They are valid until the next call.
func (b *inbox) take() records {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := b.waiting
	b.waiting, b.spare = records{b.spare.bytes[:0], b.spare.ends[:0]}, taken
	close(b.room)
	b.room = make(chan struct{})
	return taken
}

// each calls a function with every record.
func (r *records) each(call func(record []byte, why pipeline.Reason) error) error {
	begin := 0
	for _, e := range r.ends {
		record := r.bytes[begin:e.at:e.at]
		begin = e.at
		if err := call(record, e.why); err != nil {
			return err
		}
	}
	return nil
}
