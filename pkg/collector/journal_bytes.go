package collector

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"

	"golang.org/x/sys/unix"
)

// The journal's bytes: a header and entries. Each is its length (4 bytes, little endian), the CRC-32C of what follows
// (4 bytes), a byte with the kind, and fields: texts and numbers as encoding/binary's varints, texts with their
// lengths before them.
const (
	journalVersion = 1

	entryHeader = 'H' // version, collector, generation
	entryLog    = 'L' // source, position, reached, note: the state of a log
	entryForget = 'F' // source
	entryCut    = 'C' // source, from, to, clock, fingerprint, reached, note, batches: partition, hits, value
	entryDone   = 'D' // source, to
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const frameBytes = 8

// A header has the collector that owns the journal, and how often the journal was rewritten.
type header struct {
	collector  string
	generation uint64
}

// An entry is a cut, or, for the other kinds, a log with the fields that the kind uses.
type entry struct {
	kind byte
	cut  *cut
	log  logState
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

func (h header) bytes() []byte {
	return frame(nil, entryHeader, func(b []byte) []byte {
		b = binary.AppendUvarint(b, journalVersion)
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

	f := fields{left: body}
	version := f.uint()
	h := &header{f.text(), f.uint()}
	switch {
	case version > journalVersion:
		return nil, nil, errNewer
	case f.failed:
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
			b = appendText(b, e.log.source)
			b = binary.AppendVarint(b, e.log.position)
			b = binary.AppendVarint(b, e.log.reached)
			return appendText(b, e.log.note)
		case entryDone:
			return binary.AppendVarint(appendText(b, e.log.source), e.log.position)
		}
		return appendText(b, e.log.source)
	})
}

func (c *cut) append(b []byte) []byte {
	b = appendText(b, c.source)
	for _, v := range []int64{c.from, c.to, c.clock, c.reached} {
		b = binary.AppendVarint(b, v)
	}

	b = appendText(b, c.fingerprint)
	b = appendText(b, c.note)
	b = binary.AppendUvarint(b, uint64(len(c.batches)))
	for i := range c.batches {
		b = binary.AppendUvarint(b, uint64(c.batches[i].partition))
		b = binary.AppendUvarint(b, uint64(c.batches[i].hits))
		b = appendText(b, c.batches[i].value)
	}

	return b
}

// cutEntry takes the first entry off.
func cutEntry(b []byte) (e entry, rest []byte, ok bool) {
	kind, body, rest, ok := unframe(b)
	if !ok {
		return entry{}, b, false
	}

	f := fields{left: body}
	e.kind = kind
	switch kind {
	case entryCut:
		e.cut = f.cut()
	case entryLog:
		e.log = logState{f.text(), f.int(), f.int(), f.bytes()}
	case entryDone:
		e.log = logState{source: f.text(), position: f.int()}
	case entryForget:
		e.log = logState{source: f.text()}
	default:
		f.failed = true
	}

	if f.failed || len(f.left) > 0 {
		return entry{}, b, false
	}
	return e, rest, true
}

// fields are read one by one from the body of an entry. After the first that is missing, all are zero.
type fields struct {
	left   []byte
	failed bool
}

func (f *fields) cut() *cut {
	c := &cut{source: f.text(), from: f.int(), to: f.int(), clock: f.int(), reached: f.int(), fingerprint: f.text(), note: f.bytes()}
	for n := f.uint(); n > 0 && !f.failed; n-- {
		c.batches = append(c.batches, batch{int(f.uint()), int(f.uint()), f.bytes()})
	}
	return c
}

func (f *fields) uint() uint64 {
	v, n := binary.Uvarint(f.left)
	return advance(f, v, n)
}

func (f *fields) int() int64 {
	v, n := binary.Varint(f.left)
	return advance(f, v, n)
}

func advance[N uint64 | int64](f *fields, v N, n int) N {
	if n <= 0 {
		f.left, f.failed = nil, true
		return 0
	}
	f.left = f.left[n:]
	return v
}

// bytes returns a part of the body, not a copy.
func (f *fields) bytes() []byte {
	n := f.uint()
	if n > uint64(len(f.left)) {
		f.left, f.failed = nil, true
		return nil
	}
	v := f.left[:n:n]
	f.left = f.left[n:]
	return v
}

func (f *fields) text() string { return string(f.bytes()) }

func appendText[T ~string | ~[]byte](b []byte, text T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// datasync makes the disk store the bytes that were written to a file.
func datasync(file *os.File) error { return unix.Fdatasync(int(file.Fd())) }
