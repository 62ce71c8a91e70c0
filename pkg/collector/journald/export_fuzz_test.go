package journald

import (
	"bytes"
	"encoding/binary"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"weir/pkg/collector/ordered"
)

// A piecewise reader returns some bytes at a time, and in between an error that passes.
type piecewise struct {
	text  []byte
	size  int
	again bool
}

func (p *piecewise) Read(b []byte) (int, error) {
	if p.again = !p.again; p.again {
		return 0, errNone
	}
	if len(p.text) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.text[:min(p.size, len(p.text))])
	p.text = p.text[n:]
	return n, nil
}

// decodeAll returns the entries before the first error.
func decodeAll(in io.Reader, keep ...string) (all []entry) {
	d := newDecoder(in, keep)
	for {
		e, err := d.next()
		switch err {
		case nil:
			all = append(all, e)
		case errNone:
		default:
			return all
		}
	}
}

// slowly decodes a text that is in memory at once.
func slowly(text []byte, keep string) (all []entry) {
	e, named, fault := entry{fields: map[string][]byte{}}, false, false
	for {
		line, rest, ok := bytes.Cut(text, []byte("\n"))
		if !ok {
			return all
		}
		text = rest
		name, value, has := strings.Cut(string(line), "=")
		switch {
		case len(line) == 0 && (!named || fault):
			return all
		case len(line) == 0:
			all = append(all, e)
			e, named, fault = entry{fields: map[string][]byte{}}, false, false
			continue
		case !has:
			if len(text) < 8 {
				return all
			}
			size := binary.LittleEndian.Uint64(text)
			if text = text[8:]; uint64(len(text)) <= size || text[size] != '\n' {
				return all
			}
			value, text = string(text[:size]), text[size+1:]
		}
		if _, had := e.fields[name]; name == keep && !had {
			e.fields[name] = []byte(value)
		}
		if name == cursorField {
			e.series, e.number, ok = readCursor(value)
			named, fault = true, fault || !ok
		}
	}
}

func same(a, b entry) bool {
	return a.series == b.series && a.number == b.number && maps.EqualFunc(a.fields, b.fields, bytes.Equal)
}

const goodCursor = "__CURSOR=s=0123456789abcdef0123456789abcdef;i=1f;b=0;m=1;t=2;x=3\n"

// Entries are the same in whatever pieces they come, and the same as those of a slow decoder.
func FuzzExport(f *testing.F) {
	f.Add([]byte(goodCursor+"MESSAGE=a\n\n"), 1)
	f.Add([]byte(goodCursor+"MESSAGE\n\x03\x00\x00\x00\x00\x00\x00\x00a\nb\nX\n\xff\xff\xff\xff\xff\xff\xff\xff\n\n"), 3)
	f.Add([]byte("MESSAGE=a\n\n"+goodCursor+"\n"), 100)
	f.Add([]byte(goodCursor+"MESSAGE\n\x00\x00\x00\x00\x00\x00\x00\x00\nMESSAGE=2\n__CURSOR=s=1\n\n"), 2)
	f.Fuzz(func(t *testing.T, text []byte, size int) {
		if len(text) >= ownField { // a longer cursor is cut
			return
		}
		want := slowly(text, message)
		for _, n := range []int{1 + max(0, size)%100, len(text) + 1} {
			if got := decodeAll(&piecewise{text: text, size: n}, message); !slices.EqualFunc(got, want, same) {
				t.Errorf("in pieces of %d bytes, %q is read as %v, want %v", n, text, got, want)
			}
		}
	})
}

// Long values are cut off, and those of other fields take no memory, also where a value never ends.
func TestLongValues(t *testing.T) {
	long := strings.Repeat("x", ordered.LongestEntry+10)
	text := goodCursor + "OTHER=" + long + "\nMESSAGE=" + long + "\n\n" + goodCursor + "MESSAGE=" + long[:100_000] + "\n\n"
	all := decodeAll(strings.NewReader(text), message)
	if len(all) != 2 || !all[0].long || len(all[0].fields[message]) != ordered.LongestEntry || all[1].long || len(all[1].fields[message]) != 100_000 {
		t.Errorf("%d entries", len(all))
	}
	d := newDecoder(strings.NewReader("NOT THE EXPORT FORMAT"+long), []string{message})
	if _, err := d.next(); err != errExport {
		t.Errorf("the error is %v", err)
	}
	d = newDecoder(strings.NewReader(goodCursor+"MESSAGE="+long+long), []string{message})
	if _, err := d.next(); err != io.EOF || len(d.value) > ordered.LongestEntry {
		t.Errorf("%d bytes are kept; %v", len(d.value), err)
	}
}

// A place that can be read is written the same.
func FuzzPlace(f *testing.F) {
	f.Add(int64(7), "0123456789abcdef0123456789abcdef:5:a:-3:01234567,89abcdef")
	f.Add(int64(0), "0123456789abcdef0123456789abcdef:0:0:0:")
	f.Fuzz(func(t *testing.T, position int64, id string) {
		p, err := placeOf(ordered.Place{Position: position, ID: id})
		if err != nil {
			return
		}
		again, err := placeOf(p.ordered())
		if err != nil || again.ordered() != p.ordered() {
			t.Errorf("%q is read as %+v, and that as %+v: %v", id, p, again, err)
		}
	})
}

// Any bytes are a header or none.
func FuzzHeader(f *testing.F) {
	f.Add([]byte("LPKSHHRH" + strings.Repeat("\xff", headerBytes)))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, ok := readHeader(b)
		if ok != (len(b) >= headerBytes && string(b[:8]) == string(signature)) || ok && (!isID(h.series) || h.tail > 1<<63-1) {
			t.Errorf("%q is read as %+v, %v", b, h, ok)
		}
	})
}
