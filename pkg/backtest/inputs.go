package backtest

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"weir/internal/logfile"
	"weir/pkg/request"
)

// sampleLines is the number of lines in which the format is detected.
const sampleLines = 200

// A log is an input whose first lines were read.
type log struct {
	Input
	rank       int    // among all inputs, by first; hits of the same time count in this order
	head       uint64 // hash of the first lines; 0 if there are too few to distinguish logs
	first      int64  // the oldest time among the first lines; longAgo when none could be read
	size       int64  // in bytes, as far as it is known
	choice     request.Choice
	sequential bool    // the meaning of a line depends on those before it
	opened     *source // kept open, because it cannot be opened again; nil when it can, or is empty
	empty      bool    // there are no lines to read
	once       bool    // it cannot be opened again: standard input, a pipe
}

// lookAtAll looks at every input and puts them in the order in which they are read. It returns all errors together.
func lookAtAll(ctx context.Context, c *Config, done *atomic.Int64) ([]*log, error) {
	if len(c.Inputs) > maxInputs {
		return nil, fmt.Errorf("%d inputs are too many, at most %d can be read", len(c.Inputs), maxInputs)
	}
	logs := make([]*log, len(c.Inputs))
	errs := make([]error, len(c.Inputs))
	for i, in := range c.Inputs {
		logs[i] = &log{Input: in, first: longAgo}
		errs[i] = logs[i].look(ctx, c, done)
	}

	if err := errors.Join(append(errs, twice(logs))...); err != nil {
		closeAll(logs)
		return nil, err
	}

	// By first time: the merge opens a log only when its lines may be due, so that few are open at a time.
	slices.SortStableFunc(logs, func(a, b *log) int { return cmp.Compare(a.first, b.first) })
	for i, l := range logs {
		l.rank = i
	}
	return logs, nil
}

// Detect returns how Run would read an input, without reading it: the choice is empty for an empty file. The input is a
// regular file.
func Detect(ctx context.Context, in Input, envelope, format string, o request.Options) (request.Choice, error) {
	l := &log{Input: in, first: longAgo}
	err := l.look(ctx, &Config{Envelope: envelope, Format: format, Options: o}, new(atomic.Int64))
	return l.choice, err
}

// tellingLines is a number of equal first lines that two logs do not have by chance.
const tellingLines = 20

// twice refuses logs that begin alike: with a file and its packed copy every line would count twice.
func twice(logs []*log) error {
	var errs []error
	byHead := map[uint64]*log{}
	for _, l := range logs {
		if other := byHead[l.head]; other != nil && l.head != 0 {
			errs = append(errs, fmt.Errorf("%s and %s begin with the same lines, which would count twice: name one of them", other.Path, l.Path))
		}
		byHead[l.head] = l
	}
	return errors.Join(errs...)
}

func closeAll(logs []*log) {
	for _, l := range logs {
		if l.opened != nil {
			_ = l.opened.Close()
			l.opened = nil
		}
	}
}

// open opens the log at its beginning.
func (l *log) open(ctx context.Context, done *atomic.Int64) (*source, error) {
	if s := l.opened; s != nil {
		l.opened = nil
		return s, nil
	}
	return openSource(ctx, l.Input, done)
}

// look opens the log, and finds its format and its first time.
func (l *log) look(ctx context.Context, c *Config, done *atomic.Int64) error {
	again := false
	if info, err := os.Stat(l.Path); l.Reader == nil && err == nil && info.Mode().IsRegular() {
		again, l.size = true, info.Size()
		done = new(atomic.Int64) // only the complete reading counts as progress
	}

	s, err := openSource(ctx, l.Input, done)
	if err != nil {
		return err
	}

	// A damaged log is not refused here if its first lines can be read: the report then says where it breaks off.
	lines, damage, err := headLines(s)
	atEnd := errors.Is(damage, io.EOF)
	switch {
	case err != nil:
	case atEnd && strings.TrimSpace(strings.Join(lines, "")) == "":
		l.empty = true
	default:
		if err = l.understand(c, lines); err != nil && damage != nil && !atEnd {
			err = damage
		}
		if atEnd && errors.Is(err, request.ErrNoRequest) { // as a log that has only its #Fields yet
			l.empty, err = true, nil
		}

		// Few lines may be alike by chance, as after each rotation.
		if len(lines) >= tellingLines {
			l.head = maphash.String(hashSeed, strings.Join(lines, "\n"))
		}
	}

	l.once = !again

	// A pipe cannot be opened again, so it stays open with the bytes that were looked at.
	if again || err != nil || l.empty {
		err = errors.Join(err, s.Close())
	} else {
		l.opened = s
	}

	if err != nil {
		return fmt.Errorf("%s: %w", l.Path, err)
	}
	return nil
}

// headLines are the first complete lines. end is io.EOF when there are no others, and the last line may then lack its
// newline. It is nil when there are more.
func headLines(s *source) (lines []string, end, err error) {
	head, err := s.Peek(headBytes)
	if err == nil && bytes.IndexByte(head, '\n') < 0 { // the first line alone is longer than the head
		s.Reader = bufio.NewReaderSize(s.Reader, maxLineBytes+headBytes)
		head, err = s.Peek(maxLineBytes + headBytes)
	}

	if err != nil && !errors.Is(err, io.EOF) && len(head) == 0 {
		return nil, nil, err // if there is more, the same error follows it
	}

	// The last line of the head is not complete, unless the log ends there.
	if end := bytes.LastIndexByte(head, '\n'); !errors.Is(err, io.EOF) && end >= 0 {
		head = head[:end]
	}

	lines = strings.SplitN(string(logfile.Line(head, true)), "\n", sampleLines+1)
	if len(lines) > sampleLines {
		lines = lines[:sampleLines]
	}

	for i := range lines {
		lines[i] = strings.TrimSuffix(strings.TrimLeft(lines[i], "\x00"), "\r")
	}

	// It will be left out as too long, and must not decide about the format.
	if len(lines[0]) > maxLineBytes && len(lines) > 1 {
		lines = lines[1:]
	}

	return lines, err, nil
}

// understand detects by the first lines how to read the log.
func (l *log) understand(c *Config, lines []string) error {
	if l.Records {
		for i := range lines {
			lines[i] = string(recordOf([]byte(lines[i])))
		}
	}
	var err error
	if l.choice, err = request.Choose(c.Envelope, c.Format, lines, c.Options); err != nil {
		return err
	}

	d, err := request.NewDecoder(l.choice.Envelope, l.choice.Format, c.Options)
	if err != nil {
		return err
	}

	l.sequential = isSequential(l.choice, lines)

	// The oldest of them, because lines may be out of order by as much as late.
	for _, line := range lines {
		d.DecodeEach(line, func(r *request.Request, err error) {
			if err == nil && (l.first == longAgo || r.UnixMilli < l.first) {
				l.first = r.UnixMilli
			}
		})
	}

	return nil
}

// isSequential reports whether the meaning of a line depends on those before it: in parts of a long line that a
// container's runtime split, and in logs whose columns are named in a line of their own.
func isSequential(c request.Choice, head []string) bool {
	directive := func(line string) bool { return strings.HasPrefix(line, "#") }
	return slices.Contains([]string{"docker", "cri"}, c.Envelope) || slices.Contains([]string{"iis", "cloudfront"}, c.Format) ||
		directive(c.Format) || slices.ContainsFunc(head, directive)
}
