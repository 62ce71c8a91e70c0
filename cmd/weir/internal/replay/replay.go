package replay

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"weir/cmd/weir/internal/output"
	"weir/pkg/request"
)

// A replay sends the lines of inputs, one after the other.
type replay struct {
	to       sink
	pace     speed
	now      bool
	progress *output.Progress
	begun    time.Time
	total    int64 // bytes of all files
	before   int64 // bytes of the files that are sent already
	sent     sent
	unsent   string // the first line that was not sent, and why

	pacer   *pacer
	request request.Request
	shown   time.Time
}

// file sends all lines of an input.
func (r *replay) file(ctx context.Context, in *sendInput) error {
	lines, closeInput, err := in.open(ctx)
	if err != nil {
		return err
	}
	defer closeInput()
	if r.pacer == nil {
		r.pacer = &pacer{speed: r.pace}
	}

	for number := 1; ; number++ {
		err := r.line(ctx, in, lines, number)
		if errors.Is(err, io.EOF) {
			r.before += in.done.Load()
			return nil
		}
		if err != nil {
			return err
		}

		done := r.before + in.done.Load()
		if now := time.Now(); now.Sub(r.shown) > 100*time.Millisecond {
			r.shown = now
			r.progress.Show(done, r.total)
		}
	}
}

// line reads the next line and sends it when it is due.
func (r *replay) line(ctx context.Context, in *sendInput, lines *bufio.Reader, number int) error {
	if lines.Buffered() == 0 {
		if err := r.idle(ctx, in); err != nil {
			return err
		}
	}

	line, err := readLine(lines)
	if errors.Is(err, errLong) {
		r.skip(in, number, err)
		return nil
	}
	if err != nil {
		return err
	}
	if len(line) == 0 {
		return nil
	}

	// Lines without a time, such as comments, are sent unchanged.
	timed := in.decoder != nil && in.decoder.Decode(request.Text(line), &r.request) == nil
	if in.decoder != nil && !timed {
		r.sent.Untimed++
	}

	due := r.pacer.due(r.request.UnixMilli, timed)
	if err := waitUntil(ctx, due, func() error { return r.to.flush(ctx) }); err != nil {
		return err
	}

	if timed && in.mover != nil {
		moved, ok := in.mover.move(request.Text(line), &r.request, r.newTime(due))
		if !ok {
			r.skip(in, number, errors.New("its time cannot be replaced"))
			return nil
		}
		line = moved
	}

	r.sent.Lines++
	r.sent.Bytes += int64(len(line)) + 1
	return r.to.add(ctx, line)
}

// idle flushes the sink before waiting for standard input.
func (r *replay) idle(ctx context.Context, in *sendInput) error {
	if in.path != "-" {
		return nil
	}
	return r.to.flush(ctx)
}

// newTime returns the new time of a line: with the log's own pace when it was due, otherwise now.
func (r *replay) newTime(due time.Time) int64 {
	if r.pace.factor > 0 {
		return due.UnixMilli()
	}
	return time.Now().UnixMilli()
}

func (r *replay) skip(in *sendInput, number int, err error) {
	r.sent.Unsent++
	if r.unsent == "" {
		r.unsent = fmt.Sprintf("%s:%d: %v", in.path, number, err)
	}
}

// outcome returns an error when lines were not sent.
func (r *replay) outcome() error {
	if r.sent.Unsent == 0 {
		return nil
	}
	return fmt.Errorf("%s not sent, the first: %s", output.Counted(int(r.sent.Unsent), "line"), r.unsent)
}
