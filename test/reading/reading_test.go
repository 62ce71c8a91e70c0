// Package reading compares the collector's reading of files with the backtest's: the same bytes are the same requests.
package reading

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"weir/pkg/backtest"
	"weir/pkg/collector"
	"weir/pkg/collector/files"
	"weir/pkg/collector/pipeline"
	"weir/pkg/rule"
	"weir/test/sink"
)

const (
	mebibyte = 1 << 20
	longest  = 16 << 20 // maximum bytes of a line
)

// line is a request whose line has size bytes, or the minimum.
func line(n, size int) string {
	text := fmt.Sprintf(`203.0.113.%d - - [03/Mar/2026:08:00:%02d +0000] "GET /%d HTTP/1.1" 200 2 "-" "test`, n%7, n%60, n)
	return text + strings.Repeat("x", max(0, size-len(text)-1)) + `"`
}

func lines(count int) string {
	text := ""
	for n := range count {
		text += line(n, 0) + "\n"
	}
	return text
}

func zeros(n int) string { return strings.Repeat("\x00", n) }

// bz2Lines are lines(50), as bzip2 writes them.
const bz2Lines = `QlpoOTFBWSZTWdwGYwwABSVfgEAQUAv/8ALCRAoiABwAQAIdNhBA0qH6p/6qj/1VNNAGgAGap6Inqo0BGQGBjAATAAEwKVKbSYoy
mnqGaT0TJuiyi8kXhFyRaeeMZ6dfx6fnt+tuOOXHHHCoroVV0qtqrd3dqqoAAAAAAAAAAAAABwlSV4lSVnlSVtjSfdfVds7+1VVV
39pJMzJJMzJJMzJJMzJJpxxx0RfaLCLyRdikdUW0DRFsi5UMvCLBfSLBGiLNFr009PUaos+2vPnzRc0XfZFyRd0WhLRFjCL5RchW
aLbO++9Y0yrtNJxNJ8A0mk9aCJpPWgAADuTSc65zrpsnK31Ok0mJpP9ppOaAAAMTSetAF8rnWN3q93SS2mkxNNCaT5QAAAAAEu73
xuXL3wAAAAAAqXfONy6vc1Vb23ut3ttJ6JNy6uypLJdXaLGdNc401zrr6osD9osRPCLsi6ot0XdF4RYRfCLKL4RfKL3Rf5F9IvtF
5ov+LuSKcKEhuAzGGA==`

func gzipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func zstded(t *testing.T, text string) string {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(w.EncodeAll([]byte(text), nil))
}

func bzipped(t *testing.T) string {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(bz2Lines, "\n", ""))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func tarred(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Name: "access.log", Mode: 0o644, Size: int64(len(text))}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func utf16Of(text string, order binary.AppendByteOrder, mark string) string {
	b := []byte(mark)
	for _, unit := range utf16.Encode([]rune(text)) {
		b = order.AppendUint16(b, unit)
	}
	return string(b)
}

// A counting is the result of reading a file.
type counting struct {
	read   int64
	unread map[string]int64
	fault  string
}

func (c counting) String() string {
	return fmt.Sprintf("%d read, unread %v, %q", c.read, c.unread, c.fault)
}

// byBacktest has the backtest read a file.
func byBacktest(t *testing.T, path string, set *rule.Set) counting {
	t.Helper()
	report, err := backtest.Run(t.Context(), backtest.Config{Rules: set, Inputs: []backtest.Input{{Path: path}}, Format: "combined"})
	if err != nil {
		return counting{fault: err.Error()}
	}
	return counting{report.Requests, report.Unread, strings.Join(report.Faults, "; ")}
}

// byCollector has a collector read a file, until it is read or cannot be read.
func byCollector(t *testing.T, path string, set *rule.Set) counting {
	t.Helper()
	return byCollectorOf(t, path, set, "none", "combined", sink.New(4))
}

// byCollectorOf is byCollector for any format, with a topic for the hits.
func byCollectorOf(t *testing.T, path string, set *rule.Set, envelope, format string, hits pipeline.Sink) counting {
	t.Helper()
	registry := prometheus.NewRegistry()
	c, err := collector.Open(collector.Config{
		Folder: t.TempDir(), Rules: set, Late: 10 * time.Minute, Ahead: 10 * time.Second, Sink: hits, Partitions: 4,
		Logger: slog.New(slog.DiscardHandler), Metrics: registry,
		Sources: []collector.SourceConfig{{
			IntakeConfig: pipeline.IntakeConfig{Name: "logs", Envelope: envelope, Format: format},
			File:         &files.Config{Patterns: []string{path}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	var status pipeline.SourceStatus
	for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		status = c.Status().Sources[0]
		if status.Error != "" || status.CaughtUp && len(status.Logs) > 0 && settled(t, registry, status.Logs[0].Position) {
			break
		}
		if time.Since(begun) > time.Minute {
			t.Fatalf("%+v", status)
		}
	}
	cancel()
	if err := errors.Join(<-ended, c.Close()); err != nil {
		t.Fatal(err)
	}
	got := counting{fault: status.Error, unread: map[string]int64{}}
	for _, m := range gathered(t, registry, "weir_collector_uncounted_total") {
		for _, label := range m.GetLabel() {
			if n := int64(m.GetCounter().GetValue()); n > 0 && label.GetName() == "reason" {
				got.unread[label.GetValue()] = n
				got.read -= n
			}
		}
	}
	for _, m := range gathered(t, registry, "weir_collector_requests_total") {
		got.read += int64(m.GetCounter().GetValue())
	}
	return got
}

// settled reports whether something was read, and everything that the status knows of was counted.
func settled(t *testing.T, registry *prometheus.Registry, position int64) bool {
	t.Helper()
	for _, m := range gathered(t, registry, "weir_collector_bytes_total") {
		return position > 0 && m.GetCounter().GetValue() > 0
	}
	return false
}

func gathered(t *testing.T, registry *prometheus.Registry, name string) []*dto.Metric {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()
		}
	}
	return nil
}

// asTheOther means the same number as the other reads, which is above 0.
const asTheOther = -1

// The collector and the backtest read the same requests from the same bytes, whatever the file's name, and refuse the
// same files.
func TestBothReadTheSame(t *testing.T) {
	set, err := rule.FromLimits([]string{"10/min"}, "ip")
	if err != nil {
		t.Fatal(err)
	}
	sized := func(sizes ...int) string {
		text := lines(3)
		for n, size := range sizes {
			text += line(n, size) + "\n" + lines(1)
		}
		return text
	}
	for _, c := range []struct {
		name, text string
		read, long int64
		fault      string
	}{
		{"plain.log", lines(50), 50, 0, ""},
		{"mark.log", "\ufeff" + lines(50), 50, 0, ""},
		{"ends.log", strings.ReplaceAll(lines(50), "\n", "\r\n"), 50, 0, ""},
		{"hole-first.log", zeros(5000) + lines(50), 50, 0, ""},
		{"hole-long-first.log", zeros(3*mebibyte) + lines(50), 50, 0, ""},
		{"hole.log", lines(20) + zeros(5000) + lines(30), 50, 0, ""},
		{"hole-long.log", lines(20) + zeros(3*mebibyte) + lines(30), 50, 0, ""},
		{"hole-last.log", lines(50) + zeros(3*mebibyte), 50, 0, ""},
		{"hole-mark.log", "\ufeff" + zeros(100) + lines(50), 50, 0, ""},
		{"long.log", sized(mebibyte+1, longest-1, longest, longest+1, longest*11/10, longest*3/2), 12, 3, ""},
		{"long-hole.log", lines(3) + zeros(2*mebibyte) + line(1, longest) + "\n" + zeros(mebibyte) + line(1, longest+1) + "\n" + lines(1), 5, 1, ""},
		{"packed.log.gz", gzipped(t, lines(50)), 50, 0, ""},
		{"members.log.gz", gzipped(t, lines(20)) + gzipped(t, lines(30)), 50, 0, ""},
		{"packed.log.zst", zstded(t, lines(50)), 50, 0, ""},
		{"packed.log.bz2", bzipped(t), 50, 0, ""},
		{"hole.log.gz", gzipped(t, lines(20)+zeros(3*mebibyte)+lines(30)), 50, 0, ""},
		{"long.log.gz", gzipped(t, sized(longest, longest+1)), 6, 1, ""},
		{"mark.log.gz", gzipped(t, "\ufeff"+lines(50)), 50, 0, ""},
		{"not-packed.log.gz", lines(50), 50, 0, ""},
		{"not-packed.log.bz2", lines(50), 50, 0, ""},
		{"packed-all-the-same.log", gzipped(t, lines(50)), 50, 0, ""},
		{"other.log.zst", gzipped(t, lines(50)), 50, 0, ""},
		{"a.log.xz", "\xfd7zXZ\x00" + lines(3), 0, 0, "xz is not read"},
		{"a.zip", "PK\x03\x04" + lines(3), 0, 0, "zip is not read"},
		{"a.tar", tarred(t, lines(50)), 0, 0, "a tar archive is not read"},
		{"a.tgz", gzipped(t, tarred(t, lines(50))), 0, 0, "a tar archive is not read"},
		{"a.log.gz", gzipped(t, tarred(t, lines(50))), 0, 0, "a tar archive is not read"},
		{"utf16le.log", utf16Of(lines(50), binary.LittleEndian, "\xff\xfe"), 0, 0, "UTF-16 is not read"},
		{"utf16be.log", utf16Of(lines(50), binary.BigEndian, "\xfe\xff"), 0, 0, "UTF-16 is not read"},
		{"utf16.log", utf16Of(lines(50), binary.LittleEndian, ""), 0, 0, "UTF-16 is not read"},
		{"utf16.log.gz", gzipped(t, utf16Of(lines(50), binary.LittleEndian, "\xff\xfe")), 0, 0, "UTF-16 is not read"},
		{"damaged.log.gz", gzipped(t, lines(2000))[:60] + strings.Repeat("\xff", 3000), 0, 0, "is damaged"},
		{"cut-early.log.gz", gzipped(t, lines(2000))[:60], 0, 0, "is cut off"},
		{"cut-early.log.zst", zstded(t, lines(2000))[:60], 0, 0, "is cut off"},
		{"cut-early.log.bz2", bzipped(t)[:60], 0, 0, "is cut off"},
		{"cut-mark.log.zst", zstded(t, lines(50))[:3], 0, 0, "is cut off"},
		{"cut.log.gz", gzipped(t, lines(20_000))[:20_000], asTheOther, 0, "is cut off"},
		{"cut.log.zst", zstded(t, lines(20_000))[:20_000], asTheOther, 0, "is cut off"},
		{"cut-end.log.gz", gzipped(t, lines(50))[:len(gzipped(t, lines(50)))-2], 50, 0, "is cut off"},
		{"cut-end.log.bz2", bzipped(t)[:len(bzipped(t))-2], 50, 0, "is cut off"},
		{"folder", "", 0, 0, "is a directory: name the files in it, as"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), c.name)
			var err error
			if c.text == "" {
				err = os.Mkdir(path, 0o755)
			} else {
				err = os.WriteFile(path, []byte(c.text), 0o644)
			}
			if left := time.Now().Add(-time.Hour); err == nil { // a line that was just written is not reported as cut off
				err = os.Chtimes(path, left, left)
			}
			if err != nil {
				t.Fatal(err)
			}
			want := counting{read: c.read, unread: map[string]int64{}, fault: c.fault}
			if c.long > 0 {
				want.unread["long"] = c.long
			}
			collected, tested := byCollector(t, path, set), byBacktest(t, path, set)
			if want.read == asTheOther {
				want.read = tested.read
			}
			for by, got := range map[string]counting{"the backtest": tested, "the collector": collected} {
				if got.read != want.read || !maps.Equal(got.unread, want.unread) || !strings.Contains(got.fault, want.fault) || want.fault == "" && got.fault != "" {
					t.Errorf("%s: %v, want %v", by, got, want)
				}
			}
		})
	}
}
