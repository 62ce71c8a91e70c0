package listeners

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"testing/iotest"

	"weir/pkg/collector/pipeline"
)

// framed returns all messages of a framer.
func framed(r io.Reader) (messages []string, reasons []pipeline.Reason, end error) {
	f := newFramer(r)
	for {
		message, why, err := f.next()
		if err == nil || len(message) > 0 {
			messages, reasons = append(messages, string(message)), append(reasons, why)
		}
		if err != nil {
			return messages, reasons, err
		}
	}
}

// For any bytes:
//   - the framer ends, and returns no more bytes than it received;
//   - how the bytes are split into reads changes nothing;
//   - lines are the same as in a plain split;
//   - a message with its length comes back unchanged, with its newlines.
func FuzzSyslogFraming(f *testing.F) {
	for _, seed := range []string{"", "\n", "<1>a\nb\r\n\n\x00c", "5 <1>ab5 <1>cd", "5 <1>ab\n5 <1>cd\n", "5 <1>abx", "12 ", "12 x", "99999999999 <", "1.2.3.4 - - [x]\n7", "0 <", "3 <1>0 4 <1>", "200 <short"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		messages, reasons, end := framed(bytes.NewReader(data))
		total := 0
		for _, m := range messages {
			total += len(m)
		}
		if total > len(data) {
			t.Fatalf("%d bytes came of %d", total, len(data))
		}
		again, reasonsAgain, endAgain := framed(iotest.OneByteReader(bytes.NewReader(data)))
		if !slices.Equal(messages, again) || !slices.Equal(reasons, reasonsAgain) || !errors.Is(endAgain, end) {
			t.Fatalf("byte by byte: %q %v, at once: %q %v", again, endAgain, messages, end)
		}
		if !newFramer(bytes.NewReader(data)).countsOctets() && len(data) < maxMessageBytes {
			if want := plainLines(data); !slices.Equal(messages, want) || !errors.Is(end, io.EOF) {
				t.Fatalf("lines %q, want %q", messages, want)
			}
		}
		message := "<1>" + string(data[:min(len(data), maxMessageBytes-3)])
		twice := fmt.Sprintf("%d %s%d %s", len(message), message, len(message), message)
		if got, why, end := framed(bytes.NewReader([]byte(twice))); !slices.Equal(got, []string{message, message}) || why[0] != pipeline.Counted || !errors.Is(end, io.EOF) {
			t.Fatalf("%q came back as %q, %v", message, got, end)
		}
	})
}

func plainLines(data []byte) (lines []string) {
	for _, line := range bytes.Split(data, []byte("\n")) {
		if line = bytes.TrimRight(line, "\r\n\x00"); len(line) > 0 {
			lines = append(lines, string(line))
		}
	}
	return lines
}

func BenchmarkSyslogFraming(b *testing.B) {
	const line = "<190>Mar  3 08:00:00 web-1 nginx: 203.0.113.7 - - [03/Mar/2026:08:00:00 +0000] \"GET /index.html HTTP/1.1\" 200 4711 \"-\" \"Mozilla/5.0 (X11; Linux x86_64)\"\n"
	data := bytes.Repeat([]byte(line), 1000)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		f := newFramer(bytes.NewReader(data))
		for {
			message, _, err := f.next()
			if err != nil {
				break
			}
			cutSyslog(message)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/line")
}
