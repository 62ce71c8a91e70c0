package replay

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"weir/cmd/internal/exit"
	"weir/internal/logfile"
	"weir/pkg/backtest"
	"weir/pkg/request"
)

// maxLine is the longest line that is sent.
const maxLine = 1 << 20

// A sendInput is a file to be sent, or standard input.
type sendInput struct {
	path  string
	stdin io.Reader
	size  int64 // of the file, 0 when not known
	timed bool  // its times matter

	decoder *request.Decoder // nil when the times do not matter
	mover   *timeMover       // nil unless times are moved
	first   int64            // the first time in it, Unix ms
	lines   *bufio.Reader    // of standard input, which is opened only once
	done    atomic.Int64     // bytes read of the file, before decompression
}

// look detects the input's format, and reads its first time.
func (in *sendInput) look(ctx context.Context, s *sendCommand) error {
	lines, closeInput, err := in.open(ctx)
	if err != nil {
		return err
	}
	defer closeInput()
	if !in.timed {
		return nil
	}

	sample, err := sampleOf(lines)
	if errors.Is(err, io.EOF) {
		return nil // it is empty
	}
	if err != nil {
		return fmt.Errorf("%s: %w", in.path, err)
	}

	choice, err := request.Choose(s.read.Envelope, s.read.Format, sample, s.options)
	if err == nil && s.now {
		in.mover, err = newTimeMover(choice, s.options)
	}
	if err == nil {
		in.decoder, err = request.NewDecoder(choice.Envelope, choice.Format, s.options)
	}
	if err != nil {
		return exit.Wrongf("%s: %w", in.path, err)
	}

	// Read the first time of the sample, and try to move it.
	var r request.Request
	for _, line := range sample {
		if in.decoder.Decode(line, &r) != nil {
			continue
		}
		in.first = r.UnixMilli
		if in.mover != nil {
			if _, ok := in.mover.move(line, &r, time.Now().UnixMilli()); !ok {
				return exit.Wrongf("%s: the times of %s cannot be replaced: a line does not have its time in one piece and a known form; leave out --now", in.path, choice.Format)
			}
		}
		return nil
	}

	return nil
}

// sampleOf returns the lines that have come so far.
func sampleOf(lines *bufio.Reader) ([]string, error) {
	if _, err := lines.Peek(1); err != nil {
		return nil, err
	}
	head, err := lines.Peek(lines.Buffered())
	if end := bytes.LastIndexByte(head, '\n'); end >= 0 {
		head = head[:end]
	}
	return strings.Split(string(head), "\n"), err
}

// open opens the input, decompressed.
func (in *sendInput) open(ctx context.Context) (*bufio.Reader, func(), error) {
	if in.lines != nil {
		return in.lines, func() {}, nil
	}
	from, closeFile := in.stdin, func() {}
	if in.path != "-" {
		if info, err := os.Stat(in.path); err == nil && info.Mode().IsRegular() {
			in.size = info.Size()
		}
		file, err := backtest.OpenFile(ctx, in.path)
		if err != nil {
			return nil, nil, err
		}
		from, closeFile = file, func() { file.Close() }
	}

	// Count compressed bytes, as in.size does.
	in.done.Store(0)
	source, err := backtest.Open(ctx, backtest.Input{Path: in.path, Reader: logfile.Counting{Reader: from, Done: &in.done}})
	if err != nil {
		closeFile()
		return nil, nil, err
	}

	lines := bufio.NewReaderSize(source, maxLine)
	if in.path == "-" {
		in.lines = lines
		return lines, func() {}, nil
	}

	return lines, func() { source.Close(); closeFile() }, nil
}

// errLong means that a line is longer than maxLine.
var errLong = errors.New("the line is too long")

// readLine returns the next line without its end. It is valid until the next call.
func readLine(lines *bufio.Reader) ([]byte, error) {
	line, err := lines.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = lines.ReadSlice('\n')
		}
		if err == nil || errors.Is(err, io.EOF) {
			err = errLong
		}
		return nil, err
	}

	if errors.Is(err, io.EOF) && len(line) > 0 {
		err = nil
	}
	return bytes.TrimRight(line, "\r\n"), err
}
