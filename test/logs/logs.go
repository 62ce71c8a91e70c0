// Package logs has a folder of logs that tests write, rotate, pack and damage, and knows the hits that they give.
package logs

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

// A Folder has logs under test, and knows the hits that they should give.
type Folder struct {
	T     testing.TB
	Dir   string
	Want  map[string]int64
	Lines int
}

// New makes a folder without logs.
func New(t testing.TB) *Folder {
	return &Folder{T: t, Dir: t.TempDir(), Want: map[string]int64{}}
}

// Put replaces a file, with a modification time some time ago.
func (b *Folder) Put(name string, data []byte, ago time.Duration) {
	b.T.Helper()
	next := b.Path(".next")
	at := time.Now().Add(-ago)
	for _, err := range []error{os.WriteFile(next, data, 0o644), os.Chtimes(next, at, at), os.Rename(next, b.Path(name))} {
		if err != nil {
			b.T.Fatal(err)
		}
	}
}

// ManyLines returns more lines of a log, whose hits are wanted.
func (b *Folder) ManyLines(n int) string {
	var text strings.Builder
	for range n {
		text.WriteString(b.Line())
	}
	return text.String()
}

// WriteAt writes over the content of a file.
func (b *Folder) WriteAt(name string, position int64, text string) {
	b.T.Helper()
	f, err := os.OpenFile(b.Path(name), os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteAt([]byte(text), position)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		b.T.Fatal(err)
	}
}

// Text is the content of a file.
func (b *Folder) Text(name string) string {
	b.T.Helper()
	text, err := os.ReadFile(b.Path(name))
	if err != nil {
		b.T.Fatal(err)
	}
	return string(text)
}

// LongLine is a line with n bytes or more in its path, without its end; its hit is wanted.
func (b *Folder) LongLine(n int) (begins, ends string) {
	line := b.Line()
	at := strings.Index(line, " HTTP/1.1")
	return line[:at] + "?" + strings.Repeat("x", n), line[at:]
}

// Overwrite replaces the content of a file, as copytruncate and a writer after it do.
func (b *Folder) Overwrite(name string, lines int) {
	b.T.Helper()
	if err := os.Truncate(b.Path(name), 0); err != nil {
		b.T.Fatal(err)
	}
	b.Log(name, lines)
}

// Copy copies a file.
func (b *Folder) Copy(from, to string) {
	b.T.Helper()
	data, err := os.ReadFile(b.Path(from))
	if err != nil {
		b.T.Fatal(err)
	}
	b.Append(to, string(data))
}

// Truncate cuts a file off, or makes it longer with zeros.
func (b *Folder) Truncate(name string, size int64) {
	b.T.Helper()
	if err := os.Truncate(b.Path(name), size); err != nil {
		b.T.Fatal(err)
	}
}

// LinesApart is the text of a log whose lines are ten minutes apart. The last ones are long.
func (b *Folder) LinesApart(name string, begin time.Time, short, long int) string {
	var text strings.Builder
	for n := range short + long {
		at, more := begin.Add(time.Duration(n)*10*time.Minute), ""
		if n >= short {
			more = strings.Repeat("x", 256<<10)
		}
		fmt.Fprintf(&text, "203.0.113.7 - - [%s] \"GET /%s?%s HTTP/1.1\" 200 2 \"-\" \"test\"\n", at.Format("02/Jan/2006:15:04:05 -0700"), name, more)
		b.Want["per-ip 203.0.113.7"]++
	}
	return text.String()
}

// Path is the path of a file.
func (b *Folder) Path(name string) string { return filepath.Join(b.Dir, name) }

// Line returns one more line of a log, whose hit is wanted.
func (b *Folder) Line() string {
	b.Lines++
	ip := fmt.Sprintf("203.0.113.%d", b.Lines%7)
	b.Want["per-ip "+ip]++
	return fmt.Sprintf("%s - - [03/Mar/2026:08:%02d:%02d +0000] \"GET /%d HTTP/1.1\" 200 2 \"-\" \"test\"\n", ip, b.Lines/60%60, b.Lines%60, b.Lines)
}

// Log appends lines to a file.
func (b *Folder) Log(name string, lines int) {
	b.T.Helper()
	text := ""
	for range lines {
		text += b.Line()
	}
	b.Append(name, text)
}

// Append appends a text to a file.
func (b *Folder) Append(name, text string) {
	b.T.Helper()
	f, err := os.OpenFile(b.Path(name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		b.T.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		b.T.Fatal(err)
	}
}

// Rename renames a file.
func (b *Folder) Rename(from, to string) {
	b.T.Helper()
	if err := os.Rename(b.Path(from), b.Path(to)); err != nil {
		b.T.Fatal(err)
	}
}

// Remove removes a file.
func (b *Folder) Remove(name string) {
	b.T.Helper()
	if err := os.Remove(b.Path(name)); err != nil {
		b.T.Fatal(err)
	}
}

// CopyTruncate moves the content of a file to another as logrotate does with copytruncate.
func (b *Folder) CopyTruncate(from, to string) {
	b.T.Helper()
	data, err := os.ReadFile(b.Path(from))
	if err != nil {
		b.T.Fatal(err)
	}
	half := len(data) / 2
	b.Append(to, string(data[:half]))
	time.Sleep(5 * time.Millisecond) // a copy takes its time
	b.Append(to, string(data[half:]))
	if err := os.Truncate(b.Path(from), 0); err != nil {
		b.T.Fatal(err)
	}
}

// Compress does the same as gzip and zstd: it writes the packed file next to the original, then removes the original.
func (b *Folder) Compress(name, extension string) {
	b.T.Helper()
	in, err := os.Open(b.Path(name))
	if err != nil {
		b.T.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(b.Path(name + extension))
	if err != nil {
		b.T.Fatal(err)
	}
	defer out.Close()
	var w io.WriteCloser = gzip.NewWriter(out)
	if extension == ".zst" {
		w, _ = zstd.NewWriter(out)
	}
	if _, err := io.Copy(w, in); err != nil {
		b.T.Fatal(err)
	}
	if err := w.Close(); err != nil {
		b.T.Fatal(err)
	}
	info, _ := in.Stat()
	_ = os.Chtimes(b.Path(name+extension), info.ModTime(), info.ModTime())
	b.Remove(name)
}
