package backtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"

	"weir/internal/logfile"
)

// headBytes is how much of an input is read to find its format and its first time.
const headBytes = 64 << 10

// A source is an open input, decompressed if it was compressed.
type source struct {
	*bufio.Reader
	closers []func() error
}

func (s *source) Close() error {
	var errs []error
	for i := len(s.closers) - 1; i >= 0; i-- {
		errs = append(errs, s.closers[i]())
	}
	return errors.Join(errs...)
}

// Open opens an input as Run does: decompressed, recognized by its first bytes, and with reads that end when ctx does.
func Open(ctx context.Context, in Input) (io.ReadCloser, error) {
	return openSource(ctx, in, new(atomic.Int64))
}

// openSource opens an input. The bytes read from it, before decompression, are added to done.
func openSource(ctx context.Context, in Input, done *atomic.Int64) (*source, error) {
	s := &source{}
	from := in.Reader
	if from == nil {
		f, err := OpenFile(ctx, in.Path)
		if err != nil {
			return nil, err
		}
		s.closers = append(s.closers, f.Close)
		from = f
	}

	regular := isRegular(from)
	// A pipe or a terminal may wait for ever; a file does not, and needs no goroutine.
	if !regular {
		from = s.interruptible(ctx, from)
	}
	if err := s.unpack(in.Path, bufio.NewReaderSize(logfile.Counting{Reader: from, Done: done}, headBytes), regular); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", in.Path, err), s.Close())
	}

	return s, nil
}

// isRegular reports whether a reader is a file that can be opened again and whose reads do not wait.
func isRegular(r io.Reader) bool {
	if _, ok := r.(*sized); ok {
		return true
	}
	f, ok := r.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular()
}

// unpack recognizes the compression of the input by its first bytes, and skips zeros before its first line. regular
// means that it is a regular file.
func (s *source) unpack(path string, r *bufio.Reader, regular bool) error {
	head, err := peek(r, regular)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}

	// Too short to be recognized, but its name says that it is packed: rather an error than a few bytes of rubbish as a
	// line.
	if regular && len(head) < logfile.TellingBytes && logfile.NamedAsPacked(path) {
		return fmt.Errorf("it is cut off: it has %d bytes", len(head))
	}

	kind, err := logfile.KindOf(head)
	if err != nil {
		return err
	}

	plain, err := logfile.Unpack(kind, r)
	if err != nil {
		return damaged(err)
	}

	s.closers = append(s.closers, plain.Close)
	s.Reader = bufio.NewReaderSize(plain, headBytes)
	if kind != logfile.Plain {
		s.Reader = bufio.NewReaderSize(sound{plain}, headBytes)
	}

	// An error that comes behind some text is left for later: the text before it can still be read.
	if head, err = peek(s.Reader, regular); err == nil || len(head) > 0 {
		err = logfile.CheckText(head)
	} else if errors.Is(err, io.EOF) {
		err = nil
	}

	if err != nil {
		return err
	}

	for {
		head, err := s.Peek(1)
		if len(head) == 0 || head[0] != 0 {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return err
		}

		head, _ = s.Peek(s.Buffered())
		if _, err := s.Discard(len(head) - len(logfile.WithoutHole(head))); err != nil {
			return err
		}
	}
}

// peek are the first bytes. Of a pipe or terminal these are only the bytes that are there, so that peek does not wait
// for more.
func peek(r *bufio.Reader, regular bool) ([]byte, error) {
	if regular {
		return r.Peek(logfile.HeadBytes)
	}
	if head, err := r.Peek(1); err != nil {
		return head, err
	}
	return r.Peek(min(r.Buffered(), logfile.HeadBytes))
}

// A sound reader reports decompression errors as damaged input.
type sound struct{ io.Reader }

// Read implements io.Reader.
func (s sound) Read(b []byte) (int, error) {
	n, err := s.Reader.Read(b)
	return n, damaged(err)
}

// damaged replaces an error of decompression: the packed data is damaged, unless it could not be read.
func damaged(err error) error {
	var refused *fs.PathError
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("it is cut off: %w", err)
	}
	if err == nil || errors.Is(err, io.EOF) || errors.As(err, &refused) || errors.Is(err, context.Canceled) || errors.Is(err, errShrunk) || errors.Is(err, logfile.ErrBehind) {
		return err
	}
	return fmt.Errorf("it is damaged: %w", err)
}

var errShrunk = errors.New("it became shorter while it was read")

// A sized is a file that must not become shorter while it is read.
type sized struct {
	*os.File
	size, read int64
}

// Read implements io.Reader.
func (s *sized) Read(b []byte) (int, error) {
	n, err := s.File.Read(b)
	if s.read += int64(n); errors.Is(err, io.EOF) && s.read < s.size {
		err = fmt.Errorf("%w: it had %d bytes and ends at %d", errShrunk, s.size, s.read)
	}
	return n, err
}

// OpenFile opens a file. If it becomes shorter while it is read, Read returns an error. Opening a named pipe waits for
// a writer, until ctx is done.
func OpenFile(ctx context.Context, path string) (io.ReadCloser, error) {
	info, err := os.Stat(path)
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		pathErr.Op = "open" // the user asked to open it, not to look at it
	}

	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, fmt.Errorf("%s is a directory: name the files in it, as %s/*.log", path, strings.TrimSuffix(path, "/"))
	case info.Mode().IsRegular():
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		if info, err = file.Stat(); err != nil {
			return nil, errors.Join(err, file.Close())
		}
		return &sized{File: file, size: info.Size()}, nil
	}

	// Opening a pipe waits until somebody writes to it, and cannot be interrupted. If ctx ends first, the goroutine
	// stays until the process does.
	type opening struct {
		file *os.File
		err  error
	}

	opened := make(chan opening, 1)
	go func() {
		file, err := os.Open(path)
		opened <- opening{file, err}
	}()

	select {
	case o := <-opened:
		return o.file, o.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// interruptible returns a reader whose reads end when the context does. The read that still runs behind it ends when its
// source returns data, which is dropped: a terminal or a pipe cannot be read in another way.
func (s *source) interruptible(ctx context.Context, from io.Reader) io.Reader {
	read, write := io.Pipe()
	go func() {
		_, err := io.Copy(write, from)
		write.CloseWithError(err)
	}()

	stop := context.AfterFunc(ctx, func() { write.CloseWithError(ctx.Err()) })
	s.closers = append(s.closers, func() error {
		stop()
		return read.Close()
	})
	return read
}
