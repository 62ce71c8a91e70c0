package tape

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"weir/internal/logfile"
)

// A Room is shared by many tapes: it has buffers for LongLines long lines.
type Room struct {
	taken   chan struct{} // one element for each tape that has such a line
	buffers sync.Pool     // of largeBytes
}

// NewRoom returns a room that no tape uses yet.
func NewRoom() *Room { return &Room{taken: make(chan struct{}, LongLines)} }

// Used is the number of tapes that have room.
func (r *Room) Used() int { return len(r.taken) }

// buffer returns a buffer of largeBytes.
func (r *Room) buffer() []byte {
	if r != nil {
		if b, ok := r.buffers.Get().(*[largeBytes]byte); ok {
			return b[:]
		}
	}
	return make([]byte, largeBytes)
}

// spare keeps a large buffer for its next use.
func (r *Room) spare(b []byte) {
	if r != nil && cap(b) == largeBytes {
		r.buffers.Put((*[largeBytes]byte)(b[:largeBytes]))
	}
}

// NeedsRoom reports whether makeRoom has to be called before the next line is taken or more is read. final means that
// nothing more comes.
func (t *Tape) NeedsRoom(final bool) bool {
	switch {
	case t.far:
		return final || bytes.IndexByte(t.rest(), '\n') >= 0 // a line that was passed over has ended
	case t.hasRoom || t.compressed == logfile.Plain:
		return false
	}
	return len(t.rest()) > keptBytes && bytes.IndexByte(t.rest(), '\n') < 0
}

// MakeRoom waits until the tape may have a long line in memory, and reads a line again that was passed over, up to the
// Position where the file was read.
func (t *Tape) MakeRoom(ctx context.Context) error {
	if err := t.takeRoom(ctx); err != nil {
		return err
	}
	if !t.far {
		return nil
	}
	if t.base+int64(t.filled)-t.textBegins > largeBytes-TailBytes { // as after a large hole
		t.far, t.long = false, true
		return nil
	}

	err := t.readAgain()
	if err != nil {
		t.GiveRoom()
	}
	return err
}

// readAgain reads a line that was passed over. It returns ErrTruncated when the line was written over meanwhile.
func (t *Tape) readAgain() error {
	begin, end, passed := max(0, t.textBegins-TailBytes), t.base+int64(t.filled), t.Position()
	again := t.room.buffer()[:max(chunkBytes, end-begin)]
	n, err := t.file.ReadAt(again[:end-begin], begin)
	if int64(n) < end-begin {
		if err = shorter(err); err != ErrTruncated {
			err = fmt.Errorf("reading a long line again: %w", err)
		}
		return err
	}

	// The line must still join the bytes in the buffer, and have no end before them: otherwise it was written over.
	overlap := max(t.base, begin)
	if !bytes.Equal(t.buffer[overlap-t.base:t.filled], again[overlap-begin:end-begin]) || bytes.IndexByte(again[t.textBegins-begin:passed-begin], '\n') >= 0 {
		return ErrTruncated
	}

	t.room.spare(t.buffer)
	t.buffer, t.base, t.read, t.filled, t.far = again, begin, int(t.textBegins-begin), int(end-begin), false
	return nil
}

// HoldsRoom reports whether the tape has a long line in memory. It must not wait for other logs then.
func (t *Tape) HoldsRoom() bool { return t.hasRoom }

// takeRoom waits until the tape may have a long line in memory.
func (t *Tape) takeRoom(ctx context.Context) error {
	if t.hasRoom || t.room == nil {
		return nil
	}

	select {
	case t.room.taken <- struct{}{}:
		t.hasRoom = true
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// GiveRoom lets another tape have a long line.
func (t *Tape) GiveRoom() {
	if t.hasRoom {
		t.hasRoom = false
		<-t.room.taken
	}
}
