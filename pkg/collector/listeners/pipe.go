package listeners

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"weir/internal/logfile"
	"weir/internal/sleep"
	"weir/pkg/collector/pipeline"
)

// Stdin is the path of standard input.
const Stdin = "-"

// A PipeConfig names the pipe that a source reads.
type PipeConfig struct {
	Path string // of a named pipe, or Stdin
}

// A pipeSource reads lines from standard input or a named pipe. They cannot be read again: with the process, those
// are lost that it had read and Kafka had not acknowledged. A line is counted as often as it comes. While Kafka is away the
// pipe is not read, and its writers wait. At the end Kafka has 5 s to acknowledge the rest.
//
// A named pipe is open for writing too, so that it has no end when its writers go. Standard input has one; the source
// then has nothing more to read. If another pipe takes the place of a named one, it is read as well.
//
// Bounds: a line has at most 16 MiB, and the inbox 8 MiB or one line.
//
// A goroutine reads each pipe, one looks for another pipe, and the stream's goroutine parses.
type pipeSource struct {
	in      *pipeline.Intake
	path    string
	inbox   *inbox
	input   *os.File    // in place of standard input, in tests
	missing atomic.Bool // there is no pipe at the path
}

// NewPipe makes a source of a pipe.
func NewPipe(in *pipeline.Intake, config PipeConfig) (pipeline.Source, error) {
	return &pipeSource{in: in, path: config.Path, inbox: newInbox(usualSyslogLimits.inboxBytes), input: os.Stdin}, nil
}

// Announce does nothing: no requests wait.
func (p *pipeSource) Announce() {}

func (p *pipeSource) Status() pipeline.SourceStatus {
	status := p.in.Status("pipe")
	status.CaughtUp = status.CaughtUp && !p.missing.Load()
	return status
}

// Run reads until the context is done.
func (p *pipeSource) Run(ctx context.Context) error {
	pipe, interruptible, err := p.open()
	if err != nil {
		return fmt.Errorf("opening the pipe: %w", err)
	}
	stream := incarnation(p.in, p.path, false)
	defer stream.Close()
	p.in.Logger().Info("reads a pipe; what was read and is not in Kafka when the process is killed is lost", "path", p.path)

	work, abandon := lingering(ctx)
	defer abandon()
	reading, stop := context.WithCancel(ctx)
	defer stop()
	defer closeWith(reading, pipe)()
	var running sync.WaitGroup
	ended := func() {
		if interruptible {
			running.Wait()
		}
	}
	defer ended()
	running.Go(func() { p.readAll(reading, pipe) }) // of a terminal it ends with the process only
	if p.path != Stdin {
		running.Go(func() { p.follow(reading, pipe) })
	}

	lines := feed{in: p.in, inbox: p.inbox, what: "a pipe", message: func(record []byte, _ *pipeline.Stream) []byte { return record }, sample: bytes.Clone}
	return lines.run(reading, work, stream)
}

// readAll reads a pipe to its end, or until the context is done.
func (p *pipeSource) readAll(ctx context.Context, pipe *os.File) {
	err := pipeline.Contained(func() error { return p.read(ctx, pipe) })
	switch {
	case ctx.Err() != nil, errors.Is(err, os.ErrClosed):
	case err != nil:
		p.in.Trouble("pipe", fmt.Errorf("reading %s: %w", p.path, err))
	default:
		p.in.Logger().Info("the input has ended", "path", p.path)
	}
}

const pipeLook = time.Second // between two looks at the path of a named pipe

// follow reads each pipe that takes the place of the one before, which may still have writers: it is closed when it is
// replaced a second time.
func (p *pipeSource) follow(ctx context.Context, pipe *os.File) {
	var reading sync.WaitGroup
	defer reading.Wait()
	before, now := func() {}, closeWith(ctx, pipe) // they close the pipes that are read
	defer func() { before(); now() }()
	for sleep.For(ctx, pipeLook); ctx.Err() == nil; sleep.For(ctx, pipeLook) {
		next, err := p.another(pipe)
		if ctx.Err() != nil {
			return
		}
		was := p.missing.Swap(err != nil)
		if err != nil {
			p.in.Trouble("pipe", err)
			continue
		}
		if was {
			p.in.Mended("pipe")
		}

		if next != nil {
			p.in.Logger().Info("reads another pipe, which has taken the place of the one before", "path", p.path)
			before()
			before, now, pipe = now, closeWith(ctx, next), next
			reading.Go(func() { p.readAll(ctx, next) })
		}
	}
}

// another opens the pipe at the path if it is not the one that is read.
func (p *pipeSource) another(than *os.File) (*os.File, error) {
	was, err := than.Stat()
	if err != nil {
		return nil, err
	}
	is, err := os.Stat(p.path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("%s is gone: its writers wait until there is a pipe again (mkfifo)", p.path)
	case err != nil:
		return nil, err
	case is.Mode()&os.ModeNamedPipe == 0:
		return nil, fmt.Errorf("%s is not a named pipe any more: make it again (mkfifo), or restart the collector to read it as a file", p.path)
	case os.SameFile(was, is):
		return nil, nil
	}
	pipe, _, err := p.open()
	return pipe, err
}

// open opens the pipe. interruptible means that closing it ends a read.
func (p *pipeSource) open() (pipe *os.File, interruptible bool, err error) {
	if p.path != Stdin {
		pipe, err = os.OpenFile(p.path, os.O_RDWR, 0)
		return pipe, true, err
	}

	// A pipe of ours alone can be made to not block. A terminal is the shell's too.
	info, err := p.input.Stat()
	if err != nil {
		return nil, false, err
	}
	if info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
		return p.input, false, nil
	}
	number, err := syscall.Dup(int(p.input.Fd()))
	if err != nil {
		return nil, false, err
	}
	if err := syscall.SetNonblock(number, true); err != nil {
		return nil, false, err
	}
	return os.NewFile(uintptr(number), p.input.Name()), true, nil
}

// read puts all lines into the inbox.
func (p *pipeSource) read(ctx context.Context, pipe io.Reader) error {
	lines := bufio.NewReaderSize(pipe, maxMessageBytes)
	var long []byte // the beginning of a line that is longer than the buffer
	for {
		part, err := lines.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			if len(long) <= logfile.MaxLine {
				long = append(long, part...)
			}
			continue
		}

		line := part
		if len(long) > 0 {
			long = append(long, part...)
			line, long = long, nil
		}
		line = bytes.TrimRight(line, "\r\n")
		why := pipeline.Counted
		if len(line) > logfile.MaxLine {
			line, why = line[:logfile.MaxLine], pipeline.ReasonLong
		}
		if len(line) > 0 {
			if err := p.inbox.put(ctx, line, why); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			sleep.Wake(p.inbox.more)
			return nil
		case err != nil:
			return err
		}
	}
}
