package blocklist

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/cespare/xxhash/v2"
)

// ContentBinary is the media type of the binary form of a list.
const ContentBinary = "application/vnd.weir.blocklist"

// ErrCut reports a list that ends too early, or whose count or checksum does not match.
var ErrCut = errors.New("the list is not complete")

// ErrLarge reports a list with more than a list can have.
var ErrLarge = errors.New("the list is too large")

// A size bounds what is read of a list. One who writes it may be anyone.
type size struct {
	records uint64
	bytes   int64
}

// largest is the size of a list under some limits: with its orders, those that wait, and records that were changed.
func (l Limits) largest() size {
	return size{uint64(l.Entries) + 2*maxLocal + 1, 2 * int64(l.Bytes)}
}

func (s size) exceeded(records uint64, bytes int64) error {
	switch {
	case s.records > 0 && records > s.records:
		return fmt.Errorf("%w: it has more than %d records", ErrLarge, s.records)
	case s.bytes > 0 && bytes > s.bytes:
		return fmt.Errorf("%w: it has more than %d MiB", ErrLarge, s.bytes>>20)
	}
	return nil
}

// A Header precedes the records of a list.
type Header struct {
	Version  Version // of the list with these records
	After    int64   // of a delta: the records follow this offset; -1 in a snapshot
	AsOf     int64   // wall clock (Unix milliseconds) of the oldest mark that it rests on
	Snapshot bool    // all active entries, not only the changes
}

// buffer is how many bytes are collected before they are written. There may be many readers of changes.
func (h *Header) buffer() int {
	if h.Snapshot {
		return 64 << 10
	}
	return 8 << 10
}

// The binary form. Numbers are varints, see the package's comment.
//
//	magic       8 bytes  weirlist
//	version     1 byte   1
//	kind        1 byte   0 a snapshot, 1 a delta
//	list        text, u  name and epoch
//	offset      u        of the newest record; plus one
//	after       u        of a delta: the offset that it follows; plus one
//	as of       z
//	items       1 byte each what follows: 1 a record, 2 an order that waits for the log, 0 the end
//	   record   offset (u), key (text), 1 for a value or 0 for none (1 byte), value (text)
//	   order    key (text), value (text)
//	count       u        of items
//	checksum    8 bytes  xxhash64 of all before it, little endian
const (
	magic     = "weirlist"
	itemEnd   = 0
	itemLog   = 1
	itemLocal = 2

	kindSnapshot = 0
	kindDelta    = 1
)

// A Writer writes the binary form of a list: NewWriter writes its head, then come records and orders, and Close writes
// its end. Readers refuse a list that was not closed. After an error all further calls return that error.
type Writer struct {
	to     *bufio.Writer
	digest *xxhash.Digest
	count  uint64
	room   []byte
	err    error
}

// NewWriter begins a list. It never closes its destination.
func NewWriter(to io.Writer, h Header) *Writer {
	w := &Writer{to: bufio.NewWriterSize(to, h.buffer()), digest: xxhash.New()}
	b := w.room[:0]
	b = append(b, magic...)
	b = append(b, RecordVersion)
	if h.Snapshot {
		b = append(b, kindSnapshot)
	} else {
		b = append(b, kindDelta)
	}

	b = appendText(b, h.Version.List.Name)
	b = binary.AppendUvarint(b, uint64(h.Version.List.Epoch))
	b = binary.AppendUvarint(b, uint64(h.Version.Offset+1))
	if !h.Snapshot {
		b = binary.AppendUvarint(b, uint64(h.After+1))
	}

	w.write(binary.AppendVarint(b, h.AsOf))
	return w
}

func (w *Writer) write(b []byte) {
	w.room = b[:0]
	if w.err != nil {
		return
	}
	w.digest.Write(b)
	_, w.err = w.to.Write(b)
}

// Record writes a record of the log.
func (w *Writer) Record(c Change) {
	b := w.room[:0]
	b = append(b, itemLog)
	b = binary.AppendUvarint(b, uint64(c.Offset))
	b = appendBytes(b, c.Key)
	if c.Value == nil {
		b = append(b, 0)
	} else {
		b = appendBytes(append(b, 1), c.Value)
	}
	w.count++
	w.write(b)
}

// Order writes an order that waits for the log.
func (w *Writer) Order(o *Order) error {
	value, err := o.Append(nil)
	if err != nil {
		return err
	}
	b := appendBytes(append(w.room, itemLocal), o.RecordKey())
	w.count++
	w.write(appendBytes(b, value))
	return w.err
}

// held writes a record as a Set stores it, without an offset.
func (w *Writer) held(state *ruleState, p packed) error {
	key, value := p.key(), p.value()
	b := w.room[:0]
	b = append(b, itemLog, 0)
	b = binary.AppendUvarint(b, uint64(len(state.name)+1+len(key)))
	b = append(append(append(b, state.name...), '/'), key...)
	w.count++
	w.write(appendBytes(append(b, 1), value))
	return w.err
}

func appendBytes(b, more []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(more)))
	return append(b, more...)
}

// Close writes the list's end.
func (w *Writer) Close() error {
	b := w.room[:0]
	b = append(b, itemEnd)
	w.write(binary.AppendUvarint(b, w.count))

	// The checksum is written past the digest, for it covers all before it.
	b = binary.LittleEndian.AppendUint64(w.room, w.digest.Sum64())
	if w.err == nil {
		_, w.err = w.to.Write(b)
	}
	if w.err == nil {
		w.err = w.to.Flush()
	}
	if w.err != nil {
		return fmt.Errorf("writing the list: %w", w.err)
	}

	return nil
}

// A Reader reads the binary form of a list. The list is complete and undamaged only when Next has returned io.EOF. Its
// other errors are ErrNewer, ErrDamaged, ErrCut, and those of its source.
type Reader struct {
	Header Header

	alone  bool // nothing may follow the list's end
	most   size // zero: as much as there is
	bytes  int64
	from   io.Reader
	buffer []byte // read from the source
	at     int    // parsed up to here
	hashed int    // added to the digest up to here
	digest *xxhash.Digest
	count  uint64
	err    error
	key    []byte
	value  []byte
}

// readBytes is the size of one read.
const readBytes = 64 << 10

// NewReader reads a list's head.
func NewReader(from io.Reader) (*Reader, error) {
	r := &Reader{from: from, buffer: make([]byte, 0, readBytes), digest: xxhash.New()}
	var begin [len(magic) + 2]byte
	r.full(begin[:])
	switch {
	case r.err != nil:
		return nil, r.err
	case string(begin[:len(magic)]) != magic || begin[9] > kindDelta:
		return nil, fmt.Errorf("%w: this is no list", ErrDamaged)
	case begin[8] != RecordVersion:
		return nil, fmt.Errorf("%w: the list is of version %d, this program reads %d", ErrNewer, begin[8], RecordVersion)
	}

	// The numbers fail quietly: r.err keeps the first error, and is looked at once.
	h := &r.Header
	h.Version.List.Name = string(r.text(nil, maxListName))
	h.Version.List.Epoch = r.number()
	h.Version.Offset = r.number() - 1
	h.After, h.Snapshot = -1, begin[9] == kindSnapshot
	if !h.Snapshot {
		h.After = r.number() - 1
	}

	asOf := uint64(r.number())
	h.AsOf = int64(asOf>>1) ^ -int64(asOf&1)
	if r.err == nil && (h.Version.List != ListID{} && !h.Version.List.valid() || h.Version.Offset < h.After) {
		r.err = fmt.Errorf("%w: the head of a list", ErrDamaged)
	}

	return r, r.err
}

// Next returns the next record, or the next order that waits for the log (then local is true). Its bytes are valid
// until the next call. After the last it returns io.EOF.
func (r *Reader) Next() (c Change, local bool, err error) {
	switch kind := r.byte(); {
	case r.err != nil:
	case kind == itemEnd:
		r.end()
	// The bytes are bounded before memory is taken for them (text): the checksum that vouches for them comes at the
	// end.
	case kind == itemLog:
		c.Offset = r.number()
		r.key = r.text(r.key, MaxBytes)
		c.Key = r.key
		if r.byte() == 1 {
			r.value = r.text(r.value, MaxBytes)
			c.Value = r.value
		}
	case kind == itemLocal:
		r.key = r.text(r.key, MaxBytes)
		r.value = r.text(r.value, MaxBytes)
		c.Key, c.Value, local = r.key, r.value, true
	default:
		r.err = fmt.Errorf("%w: an item of kind %d", ErrNewer, kind)
	}

	r.count++
	if r.err == nil {
		r.err = r.most.exceeded(r.count, r.bytes)
	}
	if r.err != nil {
		return Change{}, false, r.err
	}
	return c, local, nil
}

// end compares the count and the checksum.
func (r *Reader) end() {
	count := uint64(r.number())
	r.hash()
	sum := r.digest.Sum64()
	var want [8]byte
	r.full(want[:])
	switch {
	case r.err != nil:
	case count != r.count:
		r.err = fmt.Errorf("%w: %d items of %d", ErrCut, r.count, count)
	case sum != binary.LittleEndian.Uint64(want[:]):
		r.err = fmt.Errorf("%w: its checksum does not match", ErrCut)
	case r.alone && r.some():
		r.err = fmt.Errorf("%w: more bytes after the list's end", ErrDamaged)
	default:
		r.err = io.EOF
	}
}

func (r *Reader) full(b []byte) {
	if r.err != nil {
		return
	}
	for len(b) > 0 && r.some() {
		n := copy(b, r.buffer[r.at:])
		r.at += n
		b = b[n:]
	}
}

// some makes sure that there is at least one byte; it returns false at the end of the source.
func (r *Reader) some() bool {
	if r.err != nil || r.at < len(r.buffer) {
		return r.err == nil
	}
	r.hash()
	n, err := io.ReadAtLeast(r.from, r.buffer[:readBytes], 1)
	if err != nil {
		r.fail(err)
		return false
	}
	r.buffer, r.at, r.hashed = r.buffer[:n], 0, 0
	r.bytes += int64(n)
	return true
}

// hash adds the parsed bytes to the digest, many at a time.
func (r *Reader) hash() {
	r.digest.Write(r.buffer[r.hashed:r.at])
	r.hashed = r.at
}

func (r *Reader) fail(err error) {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = ErrCut
	}
	r.err = fmt.Errorf("reading the list: %w", err)
}

func (r *Reader) byte() byte {
	if !r.some() {
		return 0
	}
	r.at++
	return r.buffer[r.at-1]
}

// number reads a number below 2^63 in its shortest form.
func (r *Reader) number() int64 {
	if r.err != nil {
		return 0
	}
	var room [binary.MaxVarintLen64]byte
	b := room[:0]
	for len(b) < cap(b) {
		next := r.byte()
		b = append(b, next)
		if next < 0x80 {
			break
		}
	}

	v, n := binary.Uvarint(b)
	// Only the shortest form, so that one list has one sequence of bytes, and one checksum.
	if r.err == nil && (n <= 0 || v > math.MaxInt64 || n > 1 && b[n-1] == 0) {
		r.err = fmt.Errorf("%w: a number of the list", ErrDamaged)
	}
	return int64(v)
}

func (r *Reader) text(room []byte, most int64) []byte {
	length := r.number()
	if r.err == nil && length > most {
		r.err = fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrDamaged, length, most)
	}
	if r.err != nil {
		return room[:0]
	}
	if int64(cap(room)) < length {
		room = make([]byte, length)
	}

	room = room[:length]
	r.full(room)
	return room
}
