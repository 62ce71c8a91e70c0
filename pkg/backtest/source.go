package backtest

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"
)

// headBytes is how much of an input is looked at to find out its format and its first time.
const headBytes = 64 << 10

// A source is an open input, decompressed where it was compressed.
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

// Open opens an input as Run does: decompressed, told by its first bytes, and with reads that end when ctx does.
func Open(ctx context.Context, in Input) (io.ReadCloser, error) {
	return openSource(ctx, in, new(atomic.Int64))
}

// openSource opens an input. What is read of it, before decompression, is added to done.
func openSource(ctx context.Context, in Input, done *atomic.Int64) (*source, error) {
	s := &source{}
	from := in.Reader
	if from == nil {
		f, err := os.Open(in.Path)
		if err != nil {
			return nil, err
		}
		s.closers = append(s.closers, f.Close)
		from = f
	}
	if !isRegular(from) {
		from = interruptible{ctx, from}
	}
	if err := s.decompress(bufio.NewReaderSize(counting{from, done}, headBytes)); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", in.Path, err), s.Close())
	}
	return s, nil
}

// isRegular says that a reader is a file that can be opened again and whose reads do not wait.
func isRegular(r io.Reader) bool {
	f, ok := r.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular()
}

// decompress finds out by the first bytes how the input is compressed.
func (s *source) decompress(r *bufio.Reader) error {
	magic, err := r.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	plain, err := s.decompressor(magic, r)
	if err != nil {
		return err
	}
	s.Reader = bufio.NewReaderSize(plain, headBytes)
	return nil
}

func (s *source) decompressor(magic []byte, r *bufio.Reader) (io.Reader, error) {
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		return newGunzip(r)
	case bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}), len(magic) == 4 && magic[0]&0xf0 == 0x50 && bytes.Equal(magic[1:], []byte{0x2a, 0x4d, 0x18}):
		const maxWindowBytes = 128 << 20 // zstd --long
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindowBytes))
		if err != nil {
			return nil, err
		}
		s.closers = append(s.closers, func() error { z.Close(); return nil })
		return z, nil
	case bytes.HasPrefix(magic, []byte("BZh")):
		return bzip2.NewReader(r), nil
	case bytes.Equal(magic, []byte("\xfd7zX")):
		return nil, errors.New("xz is not read; give it through a pipe: xz -dc FILE | weir backtest -")
	case bytes.HasPrefix(magic, []byte("PK\x03\x04")):
		return nil, errors.New("zip is not read; give it through a pipe: unzip -p FILE | weir backtest -")
	}
	return r, nil
}

// counting counts the bytes read.
type counting struct {
	io.Reader
	done *atomic.Int64
}

func (c counting) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.done.Add(int64(n))
	return n, err
}

// interruptible ends its reads when the context does. The read that then goes on behind it ends when its source
// gives something, and nobody looks at what it gives: a terminal or a pipe cannot be read in another way.
type interruptible struct {
	ctx context.Context
	io.Reader
}

func (r interruptible) Read(p []byte) (int, error) {
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	go func() {
		n, err := r.Reader.Read(p)
		done <- result{n, err}
	}()
	select {
	case got := <-done:
		return got.n, got.err
	case <-r.ctx.Done():
		return 0, r.ctx.Err()
	}
}
