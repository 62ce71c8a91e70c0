package blocklist

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cespare/xxhash/v2"
)

// ContentJSON is the media type of the list as JSON, one line per entry.
const ContentJSON = "application/jsonl"

// The form of JSON lines: a first line that describes the list, a line for every entry and order, and a last line with
// their number and the xxhash64 of all bytes before that line.
type firstLine struct {
	Version int      `json:"v"`
	List    string   `json:"list"`
	At      string   `json:"version"`
	After   string   `json:"after,omitempty"` // of a delta
	AsOf    *instant `json:"as_of"`
}

type lastLine struct {
	Count    *int64 `json:"count"`
	Checksum string `json:"checksum"`
}

// A JSONWriter writes a list as lines of JSON: NewJSONWriter writes the first, then come entries, and Close writes the
// last. After an error all further calls return that error.
type JSONWriter struct {
	to     *bufio.Writer
	digest *xxhash.Digest
	count  int64
	err    error
}

// NewJSONWriter begins a list.
func NewJSONWriter(to io.Writer, h Header) *JSONWriter {
	w := &JSONWriter{to: bufio.NewWriterSize(to, h.buffer()), digest: xxhash.New()}
	asOf := instant(h.AsOf)
	first := firstLine{Version: RecordVersion, List: h.Version.List.String(), At: h.Version.String(), AsOf: &asOf}
	if !h.Snapshot {
		first.After = Version{h.Version.List, h.After}.String()
	}
	w.line(first)
	return w
}

func (w *JSONWriter) line(what any) {
	text, err := json.Marshal(what)
	if w.err == nil {
		w.err = err
	}
	w.write(append(text, '\n'))
}

func (w *JSONWriter) write(line []byte) {
	if w.err != nil {
		return
	}
	w.digest.Write(line)
	_, w.err = w.to.Write(line)
}

// Entry writes a line.
func (w *JSONWriter) Entry(e *Entry) error {
	text, err := e.MarshalJSON()
	if w.err == nil {
		w.err = err
	}
	w.count++
	w.write(append(text, '\n'))
	return w.err
}

// Close writes the last line.
func (w *JSONWriter) Close() error {
	w.line(lastLine{Count: &w.count, Checksum: hex.EncodeToString(w.digest.Sum(nil))})
	if w.err == nil {
		w.err = w.to.Flush()
	}
	if w.err != nil {
		return fmt.Errorf("writing the list: %w", w.err)
	}
	return nil
}

// WriteJSONAfter writes as lines of JSON the changes after a version, including ended entries. When the Set does not
// know these, it writes all active entries. It writes only entries for which wanted returns true; a nil wanted means
// all. The errors are those of WriteAfter.
func (s *Set) WriteJSONAfter(to io.Writer, after Version, nowMilli int64, wanted func(*Entry) bool) error {
	return s.WriteJSONSome(to, after, nowMilli, maxDelta, wanted)
}

// WriteJSONSome is WriteJSONAfter with at most so many changes, and fewer long ones.
func (s *Set) WriteJSONSome(to io.Writer, after Version, nowMilli int64, most int, wanted func(*Entry) bool) error {
	c, err := s.capture(after, most)
	if err != nil {
		return err
	}

	w := NewJSONWriter(to, c.header)
	show := func(e *Entry) bool {
		return e == nil || wanted != nil && !wanted(e) || w.Entry(e) == nil
	}

	// Changes include ended entries, or a reader would keep them.
	for _, change := range c.changes {
		show(change.Entry())
	}
	if c.header.Snapshot {
		c.list.inForce(nowMilli, func(h Held) bool { return show(h.Entry()) })
		return w.Close() // orders that wait for the log are active, and so included
	}

	for _, o := range c.local {
		show(o.Entry())
	}
	return w.Close()
}

// Entry returns the record in its shown form, or nil for records that are not shown: a watermark, a record without a
// value, one that cannot be read.
func (c Change) Entry() *Entry {
	r, err := DecodeRecord(c.Key, c.Value)
	switch {
	case err != nil:
		return nil
	case r.Order != nil:
		return r.Order.Entry()
	}
	return r.Entry
}

// A JSONReader reads a list from lines of JSON. The list is complete only when Next has returned io.EOF.
type JSONReader struct {
	Header Header

	lines  *bufio.Scanner
	digest *xxhash.Digest
	count  int64
	bytes  int64
	err    error
}

const maxLine = 64 << 10

// largestJSON is the size of the largest list as JSON, which has some 350 bytes an entry.
var largestJSON = size{defaultEntries + 2*maxLocal, 4 * defaultBytes}

// NewJSONReader reads a list's first line.
func NewJSONReader(from io.Reader) (*JSONReader, error) {
	r := &JSONReader{lines: bufio.NewScanner(from), digest: xxhash.New()}
	r.lines.Buffer(nil, maxLine)
	var first firstLine
	line, err := r.line()
	if err == nil {
		err = json.Unmarshal(line, &first)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: no first line: %w", ErrCut, err)
	}
	if first.Version > RecordVersion {
		return nil, fmt.Errorf("%w: the list is of version %d", ErrNewer, first.Version)
	}

	r.Header, err = first.header()

	// The first line is in the checksum, and does not count as an entry.
	r.count = 0
	r.digest.Write(line)
	r.digest.Write([]byte{'\n'})
	return r, err
}

func (f firstLine) header() (Header, error) {
	version, err := ParseVersion(f.At)
	after, err2 := ParseVersion(f.After)
	h := Header{Version: version, After: after.Offset, Snapshot: f.After == ""}
	if h.Snapshot {
		h.After = -1
	}
	if f.AsOf != nil {
		h.AsOf = int64(*f.AsOf)
	}
	return h, errors.Join(err, err2)
}

func (r *JSONReader) line() ([]byte, error) {
	if r.lines.Scan() {
		return r.lines.Bytes(), nil
	}
	if err := r.lines.Err(); err != nil {
		return nil, fmt.Errorf("reading the list: %w", err)
	}
	return nil, fmt.Errorf("reading the list: %w", ErrCut)
}

// Next returns the next entry, and io.EOF after the last. Its other errors are ErrCut, ErrDamaged and those of its
// source.
func (r *JSONReader) Next() (*Entry, error) {
	if r.err != nil {
		return nil, r.err
	}
	e, err := r.next()
	r.err = err
	return e, err
}

func (r *JSONReader) next() (*Entry, error) {
	line, err := r.line()
	if err != nil {
		return nil, err
	}

	// No entry begins with count: its first member is its id.
	if bytes.HasPrefix(line, []byte(`{"count":`)) {
		return nil, r.end(line)
	}

	r.digest.Write(line)
	r.digest.Write([]byte{'\n'})
	r.count++
	r.bytes += int64(len(line))
	if err := largestJSON.exceeded(uint64(r.count), r.bytes); err != nil {
		return nil, err
	}
	e := new(Entry)
	if err := json.Unmarshal(line, e); err != nil {
		return nil, fmt.Errorf("%w: line %d of the list: %w", ErrDamaged, r.count, err)
	}

	return e, nil
}

func (r *JSONReader) end(line []byte) error {
	var last lastLine
	if err := json.Unmarshal(line, &last); err != nil {
		return fmt.Errorf("%w: its last line: %w", ErrCut, err)
	}
	if last.Count == nil || *last.Count != r.count || last.Checksum != hex.EncodeToString(r.digest.Sum(nil)) {
		return fmt.Errorf("%w: %d entries read, and the last line says %s", ErrCut, r.count, line)
	}
	return io.EOF
}

// UnmarshalText reads the output of MarshalText.
func (i *instant) UnmarshalText(text []byte) error {
	at, err := time.Parse(time.RFC3339, string(text))
	if err != nil {
		return fmt.Errorf("%q is not a time: %w", text, err)
	}
	*i = instant(at.UnixMilli())
	return nil
}

// untilInstant returns the Unix milliseconds of an end.
func (i instant) untilInstant() int64 {
	if i >= lastInstant {
		return Never
	}
	return int64(i)
}
