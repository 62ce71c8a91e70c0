package envoy

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"

	"weir/internal/limited"
)

// A call is one stream of a connection, from its header until the client has taken the answer. The lock of calls guards
// the fields after the context, that of the connection guards frames.
type call struct {
	on     *connection
	stream uint32
	weight int                // of its header, if that is large
	watch  bool               // stays open
	cancel context.CancelFunc // nil of one that stays open
	frames int

	place *list.Element // in one of the lists of calls
	in    *list.List
	since time.Time // of being in unsent
	gone  bool      // the stream has ended, on the connection
	late  bool      // it had to make room before its message was there
}

// streams are those of a connection that have begun and not ended.
type streams struct {
	mu     sync.Mutex
	of     map[uint32]*call
	closed bool
}

// begin notes a stream, and returns whether the connection is open.
func (s *streams) begin(c *call) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if s.of == nil {
		s.of = map[uint32]*call{}
	}
	s.of[c.stream] = c
	return true
}

// data notes a frame of a call's message, and returns whether it may have so many. Each takes memory besides its bytes.
func (s *streams) data(stream uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.of[stream]
	if c == nil {
		return true
	}
	c.frames++
	return c.frames <= maxFrames
}

func (s *streams) end(stream uint32) *call {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.of[stream]
	delete(s.of, stream)
	return c
}

// close returns the streams that the end of the connection ends. No further one begins.
func (s *streams) close() []uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	var all []uint32
	for stream := range s.of {
		all = append(all, stream)
	}
	return all
}

// reads notes that a call waits for its message. If too many do, the oldest ends. The caller holds the lock.
func (c *calls) reads(of *call) {
	of.become(&c.unread)
	if c.unread.Len() > maxUnread {
		first := c.unread.Front().Value.(*call)
		first.become(nil)
		first.late = true
		first.cancel()
	}
}

// read notes that a call has its message.
func (c *calls) read(of *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if of.in == &c.unread {
		of.become(nil)
	}
}

// isLate returns whether a call had to make room before its message was there.
func (c *calls) isLate(of *call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return of.late
}

// answered notes that a call has ended here. If too many calls have and their clients do not take the answers, the
// oldest one's connection is returned, which is to be closed. The caller holds the lock.
func (c *calls) answered(of *call, now time.Time) *connection {
	of.become(nil)
	if of.gone {
		return nil
	}
	of.become(&c.unsent)
	of.since = now
	if c.unsent.Len() <= maxUnsent {
		return nil
	}
	first := c.unsent.Front().Value.(*call)
	first.become(nil)
	return first.on
}

// overdue returns the connections whose clients have not taken an answer in time.
func (c *calls) overdue(now time.Time) (on []*connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for first := c.unsent.Front(); first != nil; first = c.unsent.Front() {
		of := first.Value.(*call)
		if now.Sub(of.since) < limited.WritePatience {
			break
		}
		of.become(nil)
		on = append(on, of.on)
	}
	return on
}

// become moves a call into a list, or into none.
func (c *call) become(in *list.List) {
	if c.in != nil {
		c.in.Remove(c.place)
	}
	c.in, c.place = in, nil
	if in != nil {
		c.place = in.PushBack(c)
	}
}

var (
	errUnread = errors.New("too many calls wait for their message, the oldest one ends")
	errUnsent = errors.New("a client does not take its answers, its connection is closed")
)

// closeSlow closes connections whose clients do not take their answers, until the context is done.
func (s *Server) closeSlow(ctx context.Context) {
	tick := time.NewTicker(limited.WritePatience / 6)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			for _, on := range s.calls.overdue(now) {
				s.closeUnsent(on)
			}
		case <-ctx.Done():
			return
		}
	}
}

func (s *Server) closeUnsent(on *connection) {
	s.faults.Note("calls", errUnsent)
	_ = on.conn.Close() // it was open
}
