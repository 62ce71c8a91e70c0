package objects

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/cespare/xxhash/v2"

	"weir/internal/bucket"
	"weir/internal/logfile"
	"weir/pkg/collector/ordered"
)

const (
	pageBytes = 1 << 20
	pageLines = 16 << 10 // at most: a line in memory takes more than its bytes, and an object may be packed newlines
)

// A reading is an object that is being read.
type reading struct {
	bucket.Object
	body  *bucket.Body
	begin int64 // the position of its first byte

	packed   *transfer
	unpacked io.ReadCloser // nil until the first page
	carry    []byte        // unpacked, and in no page yet
	at       int64         // bytes that pages have
	chain    uint64        // the hash of the lines in them
	err      error         // of unpacked: io.EOF at its end
	damage   error         // why the rest cannot be read
	byBytes  bool          // it is read from where at was at first, and without the lines before
	hash     xxhash.Digest
}

// A transfer notes how the server's bytes end, so that a damaged object differs from a connection that broke.
type transfer struct {
	io.Reader
	err error
}

func (t *transfer) Read(p []byte) (int, error) {
	n, err := t.Reader.Read(p)
	if err != nil {
		t.err = err
	}
	return n, err
}

func newReading(body *bucket.Body) *reading {
	return &reading{Object: body.Object, body: body, packed: &transfer{Reader: body}}
}

func (r *reading) close() {
	if r.unpacked != nil {
		_ = r.unpacked.Close()
	}
	_ = r.body.Close()
}

// unpack finds out how the object is packed.
func (r *reading) unpack() error {
	packed := bufio.NewReaderSize(r.packed, 64<<10)
	head, err := packed.Peek(logfile.HeadBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	kind, err := logfile.KindOf(head)
	if err == nil {
		r.unpacked, err = logfile.Unpack(kind, packed)
	}
	return err
}

// fill reads until there is a page of bytes that end with a line, or the most, or the object ends.
func (r *reading) fill(most int) error {
	if r.unpacked == nil && r.err == nil {
		r.err = r.unpack()
	}
	fresh := len(r.carry)
	for r.err == nil && (len(r.carry) < pageBytes || bytes.IndexByte(r.carry[fresh:], '\n') < 0) && len(r.carry) < most {
		fresh = len(r.carry)
		if cap(r.carry)-len(r.carry) < 64<<10 {
			grown := make([]byte, len(r.carry), max(pageBytes+128<<10, 2*cap(r.carry)))
			copy(grown, r.carry)
			r.carry = grown
		}
		var n int
		n, r.err = r.unpacked.Read(r.carry[len(r.carry):min(cap(r.carry), most)])
		r.carry = r.carry[:len(r.carry)+n]
	}
	switch {
	case r.err == nil || errors.Is(r.err, io.EOF):
	case r.packed.err != nil && !errors.Is(r.packed.err, io.EOF):
		return r.packed.err // the server's, and not the object's
	default:
		r.damage, r.err = r.err, io.EOF
	}
	return nil
}

// page returns some lines. ended means that no others follow.
func (r *reading) page() (entries []ordered.Entry, ended bool, err error) {
	for {
		id := place{Key: r.Key, ID: r.ID, ETag: r.ETag, Begin: r.begin, Page: r.at, Chain: r.compared(), Bytes: r.byBytes}.first().ID
		if err := r.fill(logfile.MaxLine + 1); err != nil {
			return nil, false, err
		}
		end := bytes.LastIndexByte(r.carry, '\n') + 1
		switch atEnd := r.err != nil; {
		case atEnd && r.damage == nil && !r.Open: // the end of a line that is being written may follow
			end = len(r.carry)
		case end == 0 && !atEnd:
			return r.long(id)
		}
		data, taken := r.carry[:end], 0
		for len(data) > 0 && len(entries) < pageLines {
			length := bytes.IndexByte(data, '\n') + 1
			if length == 0 {
				length = len(data)
			}
			line := data[:length]
			data = data[length:]
			taken += length
			first := r.at == 0
			r.passed(line)
			if length == 1 && line[0] == '\n' && len(data) > 0 { // an empty line is no request; the next one's place is after it
				continue
			}
			line = logfile.Line(bytes.TrimRight(line, "\r\n"), first)
			entries = append(entries, ordered.Entry{Value: line, After: ordered.Place{Position: r.begin + r.at, ID: id}})
		}
		r.carry = bytes.Clone(r.carry[taken:])
		if r.err != nil || len(entries) > 0 {
			return entries, r.err != nil && taken == end, nil
		}
	}
}

// passed counts bytes that end with a line, or with the object.
func (r *reading) passed(line []byte) {
	r.hash.ResetWithSeed(r.chain)
	_, _ = r.hash.Write(line)
	r.chain = r.hash.Sum64()
	r.at += int64(len(line))
}

// long passes the line at the beginning, which is too long. If its end is not written yet, it is left for later.
func (r *reading) long(id string) (entries []ordered.Entry, ended bool, err error) {
	sample, before := bytes.Clone(r.carry[:sampleBytes]), r.at
	r.hash.ResetWithSeed(r.chain)
	for {
		end := bytes.IndexByte(r.carry, '\n') + 1
		if end == 0 {
			end = len(r.carry)
		}
		_, _ = r.hash.Write(r.carry[:end])
		r.at += int64(end)
		found := end > 0 && r.carry[end-1] == '\n'
		r.carry = bytes.Clone(r.carry[end:])
		if found || r.err != nil {
			if r.Open && !found {
				r.at = before
				return nil, true, nil
			}
			r.chain = r.hash.Sum64()
			return []ordered.Entry{{Value: sample, Long: true, After: ordered.Place{Position: r.begin + r.at, ID: id}}}, false, nil
		}
		if err := r.fill(pageBytes); err != nil {
			return nil, false, err
		}
	}
}

// compared is the hash by which the lines are compared later; 0 where their number of bytes is enough.
func (r *reading) compared() uint64 {
	if r.byBytes {
		return 0
	}
	return r.chain
}

// skip passes as many bytes as were read before, and reports whether their lines are the same, as far as that is known.
func (r *reading) skip(size int64, chain uint64) (same bool, err error) {
	same, err = r.pass(size)
	return same && (chain == 0 || r.chain == chain), err
}

// pass passes bytes up to a position in the object, which is the end of a line or was the end of the object. It reports
// whether there are so many.
func (r *reading) pass(to int64) (enough bool, err error) {
	var long *xxhash.Digest // of a line that is longer than what is in memory
	for r.at < to {
		if len(r.carry) == 0 {
			if err := r.fill(pageBytes); err != nil {
				return false, err
			}
			if len(r.carry) == 0 {
				return false, nil
			}
		}
		rest := r.carry[:min(int64(len(r.carry)), to-r.at)]
		end := bytes.IndexByte(rest, '\n') + 1
		part := rest
		if end > 0 {
			part = rest[:end]
		}
		if long == nil {
			long = xxhash.NewWithSeed(r.chain)
		}
		_, _ = long.Write(part)
		r.at += int64(len(part))
		r.carry = r.carry[len(part):]
		if end > 0 || r.at == to {
			r.chain, long = long.Sum64(), nil
		}
	}
	return true, nil
}
