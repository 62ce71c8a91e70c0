package backtest

import (
	"bytes"
	"errors"
	"io"

	"weir/internal/logfile"
)

const (
	maxLineBytes  = logfile.MaxLine
	longHeadBytes = 4096 // kept of a line that is too long, for its sample
)

// A chunker splits a stream into runs of complete lines. Lines over maxLineBytes are left out; a run ends before such a
// line, so that lines can be numbered. Any number of zeros before a line is skipped.
type chunker struct {
	source io.Reader
	carry  []byte // read already, and not returned yet
	err    error  // of source, once it has ended
}

// A run is the result of one call of next.
type run struct {
	data    []byte // complete lines; the last line of the stream may lack its newline
	skipped int64  // lines left out just before data because they are too long
	long    []byte // the beginning of the first of them
}

// next fills buffer with complete lines, and grows it for a longer line. Data may come with an error: io.EOF at the
// end, or the source's error. A line that such an error cut off is left out.
func (c *chunker) next(buffer []byte) (run, error) {
	var r run
	// One byte more than the longest line is enough to see that a line is too long.
	if buffer = buffer[:0:min(cap(buffer), maxLineBytes+1)]; cap(buffer) < len(c.carry) {
		buffer = make([]byte, 0, len(c.carry))
	}

	buffer = append(buffer, c.carry...)
	c.carry = c.carry[:0]
	for {
		buffer = c.fill(buffer)
		if end := bytes.LastIndexByte(buffer, '\n') + 1; end > 0 {
			c.carry = append(c.carry, buffer[end:]...)
			r.data = buffer[:end]
			return r, c.errWithoutCarry()
		}

		// Zeros may be gigabytes (a sparse file, a log that was cut off while it was written), so they are dropped
		// before the buffer grows.
		if rest := logfile.WithoutHole(buffer); len(rest) < len(buffer) && c.err == nil {
			buffer = buffer[:copy(buffer, rest)]
			continue
		}

		switch {
		case len(logfile.WithoutHole(buffer)) > maxLineBytes:
			buffer = c.skipLong(buffer, &r)
		case errors.Is(c.err, io.EOF):
			r.data = logfile.WithoutHole(buffer) // zeros alone are no line, wherever the buffer ended before
			return r, c.err
		case c.err != nil:
			return r, c.err
		// No line end, and no end of the source: the line is longer than the buffer.
		default:
			grown := make([]byte, len(buffer), min(2*cap(buffer)+1, maxLineBytes+1))
			copy(grown, buffer)
			buffer = grown
		}
	}
}

// fill reads until the buffer is full or the source ends.
func (c *chunker) fill(buffer []byte) []byte {
	for idle := 0; c.err == nil && len(buffer) < cap(buffer); {
		n, err := c.source.Read(buffer[len(buffer):cap(buffer)])
		buffer = buffer[:len(buffer)+n]
		c.err = err
		if idle++; n > 0 {
			idle = 0
		}

		// As bufio does: a source that returns nothing so often is stuck.
		if idle == 100 {
			c.err = io.ErrNoProgress
		}
	}
	return buffer
}

// errWithoutCarry is the error to return with a run: the end of the stream comes only after the last line.
func (c *chunker) errWithoutCarry() error {
	if errors.Is(c.err, io.EOF) && len(c.carry) > 0 {
		return nil
	}
	return c.err
}

// skipLong reads past the line at the start of the buffer, and returns the data after it.
func (c *chunker) skipLong(buffer []byte, r *run) []byte {
	if r.skipped++; r.skipped == 1 {
		r.long = bytes.Clone(buffer[:longHeadBytes])
	}
	for {
		if end := bytes.IndexByte(buffer, '\n') + 1; end > 0 {
			return buffer[:copy(buffer, buffer[end:])]
		}
		if c.err != nil {
			return buffer[:0]
		}
		buffer = c.fill(buffer[:0])
	}
}
