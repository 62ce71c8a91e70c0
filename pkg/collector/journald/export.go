package journald

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"weir/pkg/collector/ordered"
)

// An entry is what is read of an entry of a journal.
type entry struct {
	series string // the ID of its sequence of numbers, in hexadecimal
	number uint64 // in its series
	time   int64  // at which the journal took it, Unix µs
	fields map[string][]byte
	long   bool // its fields have more than ordered.LongestEntry, and are cut off
}

// A decoder reads entries in the export format. The next call of Read continues an entry that one began and did not end. It
// has one buffer, and the fields of one entry.
type decoder struct {
	in   io.Reader
	keep map[string]bool // the fields to return

	buffer       []byte
	begin, end   int // of what is not read in the buffer
	state        state
	name         string // of the field that is being read
	left         uint64 // bytes of it that follow
	value        []byte
	room         int // bytes that the fields of the entry may still have
	entry        entry
	named, fault bool // a cursor was read; it is none
}

// A state is what the next byte belongs to.
type state int

const (
	atLine  state = iota // NAME=value, or a NAME whose value follows as bytes, or the empty line after an entry
	inText               // a value that is longer than the buffer
	atSize               // how many bytes follow
	inBytes              // these bytes
	atEnd                // the newline after them
)

const bufferBytes = 64 << 10

var errExport = errors.New("the output of journalctl is not in the export format")

func newDecoder(in io.Reader, keep []string) *decoder {
	d := &decoder{in: in, keep: map[string]bool{}, buffer: make([]byte, bufferBytes)}
	for _, name := range keep {
		d.keep[name] = true
	}
	d.forget()
	return d
}

// forget begins another entry.
func (d *decoder) forget() {
	d.entry, d.room, d.named, d.fault = entry{fields: map[string][]byte{}}, ordered.LongestEntry, false, false
}

// next returns the next entry, or the error of the reader. After an error that passes, it may be called again.
func (d *decoder) next() (entry, error) {
	for {
		e, complete, err := d.buffered()
		if complete || err != nil {
			return e, err
		}
		if err := d.fill(); err != nil {
			return entry{}, err
		}
	}
}

// fill reads more bytes into the buffer, which has room.
func (d *decoder) fill() error {
	d.end = copy(d.buffer, d.buffer[d.begin:d.end])
	d.begin = 0
	n, err := d.in.Read(d.buffer[d.end:])
	d.end += n
	if n > 0 {
		return nil
	}
	return err
}

// buffered reads what the buffer has of an entry. Where that does not complete it, the buffer has room for more.
func (d *decoder) buffered() (e entry, complete bool, err error) {
	for d.begin < d.end {
		b := d.buffer[d.begin:d.end]
		switch d.state {
		case atLine:
			at := bytes.IndexByte(b, '\n')
			switch {
			case at < 0 && len(b) < len(d.buffer):
				return e, false, nil
			case at < 0:
				err = d.longText(b)
			case at == 0:
				d.begin++
				return d.ended()
			default:
				d.begin += at + 1
				d.line(b[:at])
			}
		case inText:
			at := bytes.IndexByte(b, '\n')
			if at < 0 {
				d.add(b)
				d.begin = d.end
				continue
			}
			d.add(b[:at])
			d.begin += at + 1
			d.field()
		case atSize:
			if len(b) < 8 {
				return e, false, nil
			}
			d.left, d.state = binary.LittleEndian.Uint64(b), inBytes
			d.begin += 8
			d.bytes(nil)
		case inBytes:
			d.bytes(b)
		case atEnd:
			if b[0] != '\n' {
				err = errExport
			}
			d.begin++
			d.field()
		}
		if err != nil {
			return e, false, err
		}
	}
	return e, false, nil
}

// line reads a line with a field, or with the name of one.
func (d *decoder) line(b []byte) {
	name, value, text := bytes.Cut(b, []byte{'='})
	d.name = string(name)
	if !text {
		d.state = atSize
		return
	}
	d.add(value)
	d.field()
}

// longText begins a field whose line does not fit into the buffer.
func (d *decoder) longText(b []byte) error {
	name, value, text := bytes.Cut(b, []byte{'='})
	if !text {
		return errExport
	}
	d.name, d.state = string(name), inText
	d.add(value)
	d.begin = d.end
	return nil
}

// bytes reads bytes of a value, up to its end.
func (d *decoder) bytes(b []byte) {
	n := min(d.left, uint64(len(b)))
	d.add(b[:n])
	d.begin += int(n)
	if d.left -= n; d.left == 0 {
		d.state = atEnd
	}
}

const (
	cursorField = "__CURSOR"
	timeField   = "__REALTIME_TIMESTAMP"
	ownField    = 1 << 10 // bytes of these two that are read
)

// add adds to the value of the field that is being read.
func (d *decoder) add(b []byte) {
	switch room := max(0, ownField-len(d.value)); {
	case d.name == cursorField || d.name == timeField:
		d.value = append(d.value, b[:min(len(b), room)]...)
	case d.keep[d.name]:
		n := min(len(b), d.room)
		d.value = append(d.value, b[:n]...)
		d.room -= n
		d.entry.long = d.entry.long || n < len(b)
	}
}

// field ends the field that is being read. Of several with one name the first one counts.
func (d *decoder) field() {
	e, value := &d.entry, d.value
	d.value, d.state = nil, atLine
	switch {
	case d.name == cursorField:
		var ok bool
		e.series, e.number, ok = readCursor(string(value))
		d.named, d.fault = true, d.fault || !ok
	case d.name == timeField:
		e.time, _ = strconv.ParseInt(string(value), 10, 64)
	case d.keep[d.name]:
		if _, has := e.fields[d.name]; !has {
			e.fields[d.name] = value
		}
	}
}

// ended returns the entry that an empty line ends.
func (d *decoder) ended() (entry, bool, error) {
	e, named, fault := d.entry, d.named, d.fault
	d.forget()
	if !named || fault {
		return entry{}, false, fmt.Errorf("%w: an entry has no cursor", errExport)
	}
	return e, true, nil
}

// readCursor returns the series and the number in a cursor.
func readCursor(text string) (series string, number uint64, ok bool) {
	found := 0
	for part := range strings.SplitSeq(text, ";") {
		name, value, _ := strings.Cut(part, "=")
		var err error
		switch name {
		case "s":
			found++
			series = strings.ToLower(value)
		case "i":
			found++
			number, err = strconv.ParseUint(value, 16, 63)
		}
		if err != nil {
			return "", 0, false
		}
	}
	return series, number, found == 2 && isID(series)
}

// isID reports whether a text is an ID as systemd writes it.
func isID(text string) bool {
	return len(text) == 32 && strings.Trim(text, "0123456789abcdef") == ""
}
