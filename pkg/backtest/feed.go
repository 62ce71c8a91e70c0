package backtest

import (
	"context"
	"sync/atomic"

	"weir/internal/logfile"
)

const (
	mostChunkBytes  = 256 << 10
	leastChunkBytes = 16 << 10
	mostHeldBytes   = 64 << 20 // in the chunks of all feeds
)

// A feed reads one log: it splits it into chunks, has them parsed, and sends them in the order of the lines.
type feed struct {
	log  *log
	out  chan *chunk // in the order of the lines; run closes it
	free chan *chunk
}

// newFeed makes a feed that reads ahead by so many chunks; feeds is the number of feeds.
func newFeed(l *log, ahead, feeds int) *feed {
	chunkBytes := max(leastChunkBytes, min(mostChunkBytes, mostHeldBytes/(ahead*feeds)))
	f := &feed{log: l, out: make(chan *chunk, ahead), free: make(chan *chunk, ahead)}
	for range ahead {
		f.free <- &chunk{log: l, buffer: make([]byte, 0, chunkBytes), done: make(chan struct{}, 1)}
	}
	return f
}

// run reads the log to its end. It calls parse with each chunk; parse makes sure that chunk.done gets a value.
func (f *feed) run(ctx context.Context, done *atomic.Int64, parse func(*chunk)) {
	defer close(f.out)
	s, err := f.log.open(ctx, done)
	if err != nil {
		f.fail(ctx, err, parse)
		return
	}
	defer func() { _ = s.Close() }()
	lines := &chunker{source: s}
	for first := true; ; first = false {
		c := f.freeChunk(ctx)
		if c == nil {
			return
		}

		// A longer line made the buffer grow; the larger one is kept.
		c.run, c.end = lines.next(c.buffer)
		if cap(c.data) > cap(c.buffer) {
			c.buffer = c.data[:0]
		}
		if first {
			c.data = logfile.Line(c.data, true)
		}

		end := c.end // c has another owner once it is sent
		f.out <- c
		parse(c)
		if end != nil {
			return
		}
	}
}

// freeChunk returns a chunk to fill; nil when ctx is done.
func (f *feed) freeChunk(ctx context.Context) *chunk {
	select {
	case c := <-f.free:
		return c
	case <-ctx.Done():
		return nil
	}
}

// fail sends an empty chunk with the error.
func (f *feed) fail(ctx context.Context, err error, parse func(*chunk)) {
	if c := f.freeChunk(ctx); c != nil {
		c.run, c.end = run{}, err
		f.out <- c
		parse(c)
	}
}
