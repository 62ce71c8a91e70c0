package journal

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"weir/internal/seen"
	"weir/internal/varint"
)

// The journal's bytes: a header and entries. Each is its length (4 bytes, little endian), the CRC-32C of what follows
// (4 bytes), a byte with the kind, and fields: texts and numbers as encoding/binary's varints, texts with their
// lengths before them.
const (
	plainVersion   = 1
	journalVersion = 2 // with values: an earlier program would take their entries for damage

	entryHeader = 'H' // version, collector, generation
	entryLog    = 'L' // source, position, reached, note: the state of a log
	entryForget = 'F' // source
	entryCut    = 'C' // source, from, to, clock, fingerprint, reached, note, batches: partition, hits, value
	entryDone   = 'D' // source, to
	entrySeen   = 'S' // by, source, to, values: hash (8 bytes), time after the one before; with "" as source they count at once
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const frameBytes = 8

// A header has the collector that owns the journal, and how often the journal was rewritten.
type header struct {
	collector  string
	generation uint64
}

// A Cut is what the journal has of a cut. It does not change once it is noted.
type Cut struct {
	Source      string
	From, To    int64  // positions in the log
	Clock       int64  // the collector's when the cut was begun, Unix ms: requests after it are ahead of time
	Fingerprint string // of the rules
	Reached     int64  // the newest request time of the log up to here, Unix ms; unknown (math.MinInt64) before the first
	Note        []byte // what the source keeps with the position
	Batches     []Batch
	Seen        []seen.Value // the values that its requests count with, if its source remembers any
	SeenBy      string       // the source that remembers them
	Unsynced    bool         // it need not be synced with its note, for its log can be read again; this is not stored
}

// A Batch is one record for one partition of the topic of hits.
type Batch struct {
	Partition int
	Hits      int
	Value     []byte
}

// An entry is a cut, or, for the other kinds, a log with the fields that the kind uses.
type entry struct {
	kind byte
	cut  *Cut
	log  Log
	by   string // with the values
	seen []seen.Value
}

// frame appends the bytes that fill appends, with a frame around them.
func frame(b []byte, kind byte, fill func([]byte) []byte) []byte {
	start := len(b)
	b = append(b, make([]byte, frameBytes)...)
	b = fill(append(b, kind))
	body := b[start+frameBytes:]
	binary.LittleEndian.PutUint32(b[start:], uint32(len(body)))
	binary.LittleEndian.PutUint32(b[start+4:], crc32.Checksum(body, castagnoli))
	return b
}

// unframe takes the first frame off; ok is false when it is incomplete or damaged.
func unframe(b []byte) (kind byte, body, rest []byte, ok bool) {
	if len(b) <= frameBytes {
		return 0, nil, b, false
	}
	length := int64(binary.LittleEndian.Uint32(b))
	if length < 1 || length > int64(len(b)-frameBytes) {
		return 0, nil, b, false
	}
	body = b[frameBytes : frameBytes+length]
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(b[4:]) {
		return 0, nil, b, false
	}
	return body[0], body[1:], b[frameBytes+length:], true
}

func (h header) bytes(version uint64) []byte {
	return frame(nil, entryHeader, func(b []byte) []byte {
		b = binary.AppendUvarint(b, version)
		b = appendText(b, h.collector)
		return binary.AppendUvarint(b, h.generation)
	})
}

var (
	errNotOurs = errors.New("this is not a collector's journal, or its beginning is destroyed; restore it from a copy, or move it away: then all files are read again as configured, and requests that were counted may be counted twice")
	errNewer   = errors.New("it was written by a newer version; run that one")
)

// cutHeader reads a journal's header; an empty file has none.
func cutHeader(b []byte) (*header, []byte, error) {
	if len(b) == 0 {
		return nil, nil, nil
	}
	kind, body, rest, ok := unframe(b)
	if !ok || kind != entryHeader {
		return nil, nil, errNotOurs
	}

	f := fields{varint.Reader{Left: body}}
	version := f.Unsigned()
	h := &header{f.text(), f.Unsigned()}
	switch {
	case version > journalVersion:
		return nil, nil, errNewer
	case f.Failed:
		return nil, nil, errNotOurs
	}

	return h, rest, nil
}

func (e entry) append(b []byte) []byte {
	return frame(b, e.kind, func(b []byte) []byte {
		switch e.kind {
		case entryCut:
			return e.cut.append(b)
		case entryLog:
			b = appendText(b, e.log.Source)
			b = binary.AppendVarint(b, e.log.Position)
			b = binary.AppendVarint(b, e.log.Reached)
			return appendText(b, e.log.Note)
		case entryDone:
			return binary.AppendVarint(appendText(b, e.log.Source), e.log.Position)
		case entrySeen:
			b = appendText(appendText(b, e.by), e.log.Source)
			return appendSeen(binary.AppendVarint(b, e.log.Position), e.seen)
		}
		return appendText(b, e.log.Source)
	})
}

func (c *Cut) append(b []byte) []byte {
	b = appendText(b, c.Source)
	for _, v := range []int64{c.From, c.To, c.Clock, c.Reached} {
		b = binary.AppendVarint(b, v)
	}

	b = appendText(b, c.Fingerprint)
	b = appendText(b, c.Note)
	b = binary.AppendUvarint(b, uint64(len(c.Batches)))
	for i := range c.Batches {
		b = binary.AppendUvarint(b, uint64(c.Batches[i].Partition))
		b = binary.AppendUvarint(b, uint64(c.Batches[i].Hits))
		b = appendText(b, c.Batches[i].Value)
	}

	return b
}

// cutEntry takes the first entry off.
func cutEntry(b []byte) (e entry, rest []byte, ok bool) {
	kind, body, rest, ok := unframe(b)
	if !ok {
		return entry{}, b, false
	}

	f := fields{varint.Reader{Left: body}}
	e.kind = kind
	switch kind {
	case entryCut:
		e.cut = f.cut()
	case entryLog:
		e.log = Log{f.text(), f.Signed(), f.Signed(), f.bytes()}
	case entryDone:
		e.log = Log{Source: f.text(), Position: f.Signed()}
	case entryForget:
		e.log = Log{Source: f.text()}
	case entrySeen:
		e.by, e.log = f.text(), Log{Source: f.text(), Position: f.Signed()}
		e.seen = f.seen()
	default:
		f.Fail()
	}

	if f.Failed || len(f.Left) > 0 {
		return entry{}, b, false
	}
	return e, rest, true
}

// fields are read one by one from the body of an entry. After the first that is missing, all are zero.
type fields struct{ varint.Reader }

func (f *fields) cut() *Cut {
	c := &Cut{Source: f.text(), From: f.Signed(), To: f.Signed(), Clock: f.Signed(), Reached: f.Signed(), Fingerprint: f.text(), Note: f.bytes()}
	for n := f.Unsigned(); n > 0 && !f.Failed; n-- {
		c.Batches = append(c.Batches, Batch{int(f.Unsigned()), int(f.Unsigned()), f.bytes()})
	}
	return c
}

func appendSeen(b []byte, values []seen.Value) []byte {
	b = binary.AppendUvarint(b, uint64(len(values)))
	before := int64(0)
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, v.Hash)
		b = binary.AppendVarint(b, v.At-before)
		before = v.At
	}
	return b
}

func (f *fields) seen() (values []seen.Value) {
	at := int64(0)
	for n := f.Unsigned(); n > 0 && !f.Failed; n-- {
		hash := f.Take(8)
		at += f.Signed()
		if !f.Failed {
			values = append(values, seen.Value{Hash: binary.LittleEndian.Uint64(hash), At: at})
		}
	}
	return values
}

// bytes returns a part of the body, not a copy.
func (f *fields) bytes() []byte { return slices.Clip(f.Take(f.Number())) }

func (f *fields) text() string { return string(f.bytes()) }

func appendText[T ~string | ~[]byte](b []byte, text T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// datasync makes the disk store the bytes that were written to a file.
func datasync(file *os.File) error { return unix.Fdatasync(int(file.Fd())) }
