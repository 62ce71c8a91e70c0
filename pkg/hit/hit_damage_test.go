package hit

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestNewerVersionsAreRefused(t *testing.T) {
	record := write(t, NewWriter(), []string{"a"}, []told{{"a", "x", 1, 1, ""}}, header)
	for _, version := range []byte{3, 4, 255} {
		record[0] = version
		record = seal(record[:len(record)-checksumBytes], 0)
		var r Reader
		if err := r.Reset(record); !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), fmt.Sprint(version)) {
			t.Errorf("version %d: %v", version, err)
		}
	}
}

// Any byte may stand first in what is no batch, or is damaged: without its checksum no version is believed.
func TestAVersionIsBelievedWithItsChecksumOnly(t *testing.T) {
	record := write(t, NewWriter(), []string{"a"}, []told{{"a", "x", 1, 1, ""}}, header)
	for name, stray := range map[string][]byte{
		"JSON":              []byte(`{"hello":1}`),
		"a version alone":   {3},
		"a changed version": append([]byte{3}, record[1:]...),
		"text":              []byte("GET / HTTP/1.1"),
	} {
		var r Reader
		if err := r.Reset(stray); !errors.Is(err, ErrDamaged) || errors.Is(err, ErrNewer) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func smallRecord(t *testing.T) []byte {
	return write(t, NewWriter(), []string{"a", "b"}, []told{
		{"a", "203.0.113.7", 5, 1, ""}, {"b", "alice", 1005, 700, ""}, {"a", "2001:db8::/64", 7, 1, ""}, {"b", "alice", 9, 0, "id"},
	}, header)
}

func TestCutAnywhere(t *testing.T) {
	record := smallRecord(t)
	var r Reader
	for n := range record {
		if err := r.Reset(record[:n]); !errors.Is(err, ErrDamaged) || len(r.Items())+len(r.Pairs())+len(r.Rules()) > 0 {
			t.Errorf("%d of %d bytes are read: %v", n, len(record), err)
		}
	}
	if err := r.Reset(append(record, 0)); !errors.Is(err, ErrDamaged) {
		t.Errorf("a byte more: %v", err)
	}
}

func TestAnyBitChanged(t *testing.T) {
	record := smallRecord(t)
	var r Reader
	for bit := range 8 * len(record) {
		record[bit/8] ^= 1 << (bit % 8)
		err := r.Reset(record)
		if !errors.Is(err, ErrDamaged) {
			t.Errorf("bit %d changed: %v", bit, err)
		}
		record[bit/8] ^= 1 << (bit % 8)
	}
	if err := r.Reset(record); err != nil {
		t.Fatal(err)
	}
}

// sealed makes a record of what stands between version and checksum.
func sealed(body string) []byte {
	return seal(append([]byte{Version}, body...), 0)
}

func TestRecordsThatNoVersionWrites(t *testing.T) {
	const start = "\x00\x01s\x00\x01\x00\x00" // a header
	for name, body := range map[string]string{
		"nothing":                    "",
		"from behind to":             "\x00\x01s\x00\x00\x00\x00" + "\x00\x00",
		"to beyond int64":            "\x00\x01s\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x01\x00\x00" + "\x00\x00",
		"source too long":            "\x00\xe1\x03" + strings.Repeat("s", 481) + "\x00\x01\x00\x00" + "\x00\x00",
		"fewer rules than said":      start + "\x02\x01a",
		"a rule that is not there":   start + "\x01\x01a\x01\x08\x01x\x00\x00",
		"a form that is none":        start + "\x01\x01a\x01\x05\x01x\x00\x00",
		"an IPv4 prefix of 33 bits":  start + "\x01\x01a\x01\x02\x21abcde\x00\x00",
		"an IPv6 prefix of 129 bits": start + "\x01\x01a\x01\x03\x81\x01abcdefghijklmnopq\x00\x00",
		"bits beyond the prefix":     start + "\x01\x01a\x01\x02\x04\xff\x00\x00",
		"an address cut short":       start + "\x01\x01a\x01\x01abc",
		"a pair without an item":     start + "\x01\x01a\x02\x00\x01x\x00\x01y\x00\x00",
		"an item without a pair":     start + "\x01\x01a\x01\x00\x01x\x00\x00\x00",
		"a pair before the first":    start + "\x01\x01a\x01\x00\x01x\x00\x00\x20",
		"items without pairs":        start + "\x00\x00\x00",
		"a time of no unit":          start + "\x01\x01a\x01\x00\x01x\x00\x03\x01",
		"a cost of 0":                start + "\x01\x01a\x01\x00\x01x\x00\x04\x00",
		"a cost beyond int64":        start + "\x01\x01a\x01\x00\x01x\x00\x04\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
		"an unknown command":         start + "\x01\x01a\x01\x00\x01x\x00\x08\x02\x00",
		"a command with a cost":      start + "\x01\x01a\x01\x00\x01x\x00\x0c\x01\x00",
		"an id cut short":            start + "\x01\x01a\x01\x00\x01x\x00\x08\x01\x05id",
		"an endless number":          start + "\x01\x01a\x01\x00\x01x\x00" + strings.Repeat("\xff", 12),
	} {
		var r Reader
		if err := r.Reset(sealed(body)); !errors.Is(err, ErrDamaged) || len(r.Items()) > 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	var r Reader
	if err := r.Reset(sealed(start + "\x01\x01a\x01\x00\x01x\x00\x00")); err != nil {
		t.Errorf("and this one is sound: %v", err)
	}
}
