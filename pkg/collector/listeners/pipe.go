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
	"syscall"

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
// then has nothing more to read.
//
// Bounds: a line has at most 16 MiB, and the inbox 8 MiB or one line.
//
// One goroutine reads, and the stream's goroutine parses.
type pipeSource struct {
	in    *pipeline.Intake
	path  string
	inbox *inbox
	input *os.File // in place of standard input, in tests
}

// NewPipe makes a source of a pipe.
func NewPipe(in *pipeline.Intake, config PipeConfig) (pipeline.Source, error) {
	return &pipeSource{in: in, path: config.Path, inbox: newInbox(usualSyslogLimits.inboxBytes), input: os.Stdin}, nil
}

// Announce does nothing: no requests wait.
func (p *pipeSource) Announce() {}

func (p *pipeSource) Status() pipeline.SourceStatus { return p.in.Status("pipe") }

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
	running.Go(func() { // of a terminal it ends with the process only
		err := pipeline.Contained(func() error { return p.read(reading, pipe) })
		switch {
		case reading.Err() != nil:
		case err != nil:
			p.in.Trouble("pipe", fmt.Errorf("reading %s: %w", p.path, err))
		default:
			p.in.Logger().Info("the input has ended", "path", p.path)
		}
	})

	lines := feed{in: p.in, inbox: p.inbox, what: "a pipe", message: func(record []byte, _ *pipeline.Stream) []byte { return record }, sample: bytes.Clone}
	return lines.run(reading, work, stream)
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
