package request

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files anew")

// A decodeCase is the first line of a file in testdata/decode; the others are records.
type decodeCase struct {
	Envelope, Format string
	Fields           map[string]string
	Wanted           []string // of Decoder.Want
	Ask              []string // of Decoder.Envelope, after every record
	Detect           string   // the format that Detect finds, where it is not Format
	DetectEnvelope   string   `json:"detect_envelope"`
	records          []string
}

func (c decodeCase) options() Options { return Options{Fields: c.Fields} }

func readCase(t testing.TB, file string) decodeCase {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(string(data), "\n")
	var c decodeCase
	if err := json.Unmarshal([]byte(head), &c); err != nil {
		t.Fatal(file, err)
	}
	c.records = strings.Split(strings.TrimSuffix(rest, "\n"), "\n")
	return c
}

func caseFiles(t testing.TB) []string {
	files, err := filepath.Glob("testdata/decode/*.log")
	if err != nil || len(files) == 0 {
		t.Fatal("no cases", err)
	}
	return files
}

// TestDecode compares the request of every kind of record with the golden files.
func TestDecode(t *testing.T) {
	for _, file := range caseFiles(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			c := readCase(t, file)
			d, err := NewDecoder(c.Envelope, c.Format, c.options())
			if err != nil {
				t.Fatal(err)
			}
			d.Want(c.Wanted)
			var got strings.Builder
			for i, record := range c.records {
				fmt.Fprintf(&got, "%d\n", i+1)
				d.DecodeEach(record, func(r *Request, err error) {
					got.WriteString(describe(r, err))
					for _, name := range c.Ask {
						if value, ok := d.Envelope(name); ok {
							fmt.Fprintf(&got, "    around: %s = %q\n", name, value)
						}
					}
				})
			}
			compareGolden(t, strings.TrimSuffix(file, ".log")+".golden", got.String())
		})
	}
}

func compareGolden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	gotLines, wantLines := bufio.NewScanner(strings.NewReader(got)), bufio.NewScanner(strings.NewReader(string(want)))
	for line := 1; ; line++ {
		more, expected := gotLines.Scan(), wantLines.Scan()
		if !more && !expected {
			return
		}
		if gotLines.Text() != wantLines.Text() {
			t.Fatalf("%s:%d:\n got %s\nwant %s", file, line, gotLines.Text(), wantLines.Text())
		}
	}
}

func describe(r *Request, err error) string {
	switch {
	case err == ErrNoRequest:
		return "  no request\n"
	case err != nil:
		return fmt.Sprintf("  unread: %s (%v)\n", Reason(err), err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "  %s", time.UnixMilli(r.UnixMilli).UTC().Format("2006-01-02T15:04:05.000Z"))
	for _, name := range []string{"ip", "user", "method", "host", "path", "query", "status", "bytes", "agent", "referrer"} {
		if value, ok := r.Field(name); ok {
			fmt.Fprintf(&b, " %s=%q", name, value)
		}
	}
	if r.Forwarded != "" {
		fmt.Fprintf(&b, " forwarded=%q", r.Forwarded)
	}
	b.WriteByte('\n')
	for _, f := range r.Fields {
		fmt.Fprintf(&b, "    %s = %q\n", f.Name, f.Value)
	}
	return b.String()
}
