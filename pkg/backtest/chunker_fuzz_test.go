package backtest

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/iotest"

	"weir/internal/logfile"
)

// linesOf are the lines of a chunker, and how many it left out.
func linesOf(t *testing.T, source io.Reader, bufferBytes int) (lines []string, skipped int64, err error) {
	t.Helper()
	c := &chunker{source: source}
	buffer := make([]byte, 0, bufferBytes)
	for {
		r, err := c.next(buffer)
		skipped += r.skipped
		lines = append(lines, splitLines(r.data)...)
		if err != nil {
			return lines, skipped, err
		}
		if len(r.data) == 0 || r.data[len(r.data)-1] != '\n' {
			t.Fatalf("a run that is not the last ends with %q", r.data)
		}
	}
}

func splitLines(data []byte) (lines []string) {
	for len(data) > 0 {
		line, rest, _ := bytes.Cut(data, []byte{'\n'})
		lines, data = append(lines, string(logfile.WithoutHole(line))), rest
	}
	return lines
}

// The lines are those of bufio.Scanner, in whatever pieces the source delivers them and however large the buffer is;
// those over maxLineBytes are left out and counted.
func FuzzChunker(f *testing.F) {
	f.Add([]byte("one\ntwo\r\n\nthree"), 3, 0)
	f.Add([]byte("\n\n\n"), 1, 0)
	f.Add([]byte(""), 16, 0)
	f.Add([]byte("before\nafter\n"), 64, maxLineBytes)
	f.Add([]byte("before\nafter"), 64, maxLineBytes-7)
	f.Add([]byte("before\n\x00\x00after\n\x00"), 4, 0)
	f.Add([]byte("\x00"), 0, 0)
	f.Add([]byte("before\n\x00\x00"), 64, 0)
	f.Add([]byte("before\n"), 300_000, maxLineBytes+maxLineBytes/8)
	f.Fuzz(func(t *testing.T, data []byte, bufferBytes, long int) {
		bufferBytes = 1 + max(bufferBytes, -bufferBytes-1)%(1<<19)
		if long = max(long, -long-1) % (maxLineBytes + maxLineBytes/4); long > 0 {
			at := bytes.IndexByte(data, '\n') + 1
			data = append(append(bytes.Clone(data[:at]), bytes.Repeat([]byte{'x'}, long)...), data[at:]...)
		}
		wanted, wantedSkipped := scanned(t, data)
		for name, source := range map[string]io.Reader{
			"whole": bytes.NewReader(data), "half": iotest.HalfReader(bytes.NewReader(data)),
			"eof with data": iotest.DataErrReader(bytes.NewReader(data)),
		} {
			lines, skipped, err := linesOf(t, source, bufferBytes)
			if !errors.Is(err, io.EOF) || skipped != wantedSkipped || !slices.Equal(lines, wanted) {
				t.Fatalf("%s: %d lines, %d skipped, %v; want %d lines, %d skipped", name, len(lines), skipped, err, len(wanted), wantedSkipped)
			}
		}
	})
}

func scanned(t *testing.T, data []byte) (lines []string, skipped int64) {
	s := bufio.NewScanner(bytes.NewReader(data))
	s.Buffer(nil, 2*maxLineBytes)
	s.Split(func(data []byte, atEOF bool) (int, []byte, error) { // as ScanLines, but \r stays
		if i := bytes.IndexByte(data, '\n'); i >= 0 {
			return i + 1, data[:i], nil
		}
		if atEOF && len(logfile.WithoutHole(data)) > 0 {
			return len(data), data, nil
		}
		if atEOF { // zeros alone are no line
			return len(data), nil, nil
		}
		return 0, nil, nil
	})
	for s.Scan() {
		line := logfile.WithoutHole(s.Bytes())
		if len(line) > maxLineBytes {
			skipped++
			continue
		}
		lines = append(lines, string(line))
	}
	if s.Err() != nil {
		t.Fatal(s.Err())
	}
	return lines, skipped
}

func TestChunkerLeavesOutTheLineThatAnErrorCutOff(t *testing.T) {
	broken := errors.New("broken")
	source := io.MultiReader(bytes.NewReader([]byte("one\ntwo\nthr")), iotest.ErrReader(broken))
	lines, _, err := linesOf(t, source, 1024)
	if !errors.Is(err, broken) || !slices.Equal(lines, []string{"one", "two"}) {
		t.Fatalf("got %q, %v", lines, err)
	}
}

func TestChunkerGivesUpOnASourceThatGivesNothing(t *testing.T) {
	if _, _, err := linesOf(t, zeroReader{}, 16); !errors.Is(err, io.ErrNoProgress) {
		t.Fatal(err)
	}
}

type zeroReader struct{}

func (zeroReader) Read([]byte) (int, error) { return 0, nil }
