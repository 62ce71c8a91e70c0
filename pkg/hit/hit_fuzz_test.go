package hit

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"time"
)

// For all bytes:
//   - reading them does not panic, and fails only as ErrDamaged or ErrNewer;
//   - without a checksum that was made for them they are refused;
//   - what is read is in range, can be written, and is then read the same.
func FuzzRead(f *testing.F) {
	m := newMixture(2, 50, 10)
	w := NewWriter()
	m.fill(w)
	record, _ := w.Append(nil, header)
	f.Add(record[1 : len(record)-checksumBytes])
	f.Add([]byte("\x05\x01s\x00\x01\x00\x00\x02\x01a\x00\x03\x00\x01x\x08\x00\x04\x20\x01\x0d\xb8123456789012\x00\x00\x04\x05\x2a\x02\x18\x01\x02id"))
	w.ResetValues([]string{"a", "b"}, []uint64{7, 0})
	w.AddValue(0, []byte("x"), 1, 99)
	w.AddMember(0, []byte("x"), 1, 99, 12345, true)
	w.Add(1, []byte("x"), 1, 5)
	w.AddValue(0, []byte("x"), 1, 98)
	w.Unblock(0, []byte("x"), 1, "id")
	record, _ = w.Append(nil, Header{Source: "s", To: 1, Part: 1})
	f.Add(record[1 : len(record)-checksumBytes])
	f.Fuzz(func(t *testing.T, body []byte) {
		var r Reader
		if err := r.Reset(body); err == nil && Checksum(body) != Checksum(seal(body[:len(body)-checksumBytes:len(body)-checksumBytes], 0)) {
			t.Fatal("read without its checksum")
		}
		version := byte(Version)
		if len(body) > 0 && body[0]&2 != 0 { // of a part beyond the first
			version = VersionValues
		}
		record := seal(append([]byte{version}, body...), 0)
		if err := r.Reset(record); err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Fatal(err)
			}
			return
		}
		all := contents(&r)
		// A writer has each rule once. Its twin takes two of one name for one.
		rules := slices.Clone(r.Rules())
		if len(slices.Compact(slices.Sorted(slices.Values(rules)))) < len(rules) {
			return
		}
		w := NewWriter()
		of := make([]uint64, len(rules))
		for i := range of {
			of[i] = r.Of(i)
		}
		w.ResetValues(rules, of)
		for _, item := range r.Items() {
			pair := r.Pairs()[item.Pair]
			id, command := r.Unblock(item)
			if !command && of[pair.Rule] != 0 && item.Cost > 1 {
				id, gone := Member(item.Cost)
				if !w.AddMember(pair.Rule, pair.Key, item.UnixMilli, r.Value(item), id, gone) {
					return
				}
				continue
			}
			if !command && of[pair.Rule] != 0 {
				if !w.AddValue(pair.Rule, pair.Key, item.UnixMilli, r.Value(item)) {
					return
				}
				continue
			}
			if command && !w.Unblock(pair.Rule, pair.Key, item.UnixMilli, string(id)) ||
				!command && !w.Add(pair.Rule, pair.Key, item.UnixMilli, item.Cost) {
				return
			}
		}
		again, err := w.Append(nil, r.Header())
		if err != nil {
			t.Fatal(err)
		}
		var second Reader
		if err := second.Reset(again); err != nil || second.Header() != r.Header() {
			t.Fatal(err, second.Header())
		}
		if !slices.Equal(second.values, r.values) {
			t.Fatalf("values %v, want %v", second.values, r.values)
		}
		if len(r.values) == 0 { // hits with values stay apart, and the twin knows nothing of values
			same(t, contents(&second), merged(all))
		}
	})
}

// A Reader returns all that a Writer was given, as the slow twin does.
func FuzzWrite(f *testing.F) {
	f.Add([]byte("\x00\x00\x01\x05\x00\x00\x01\x05\x00\x00\x01\x04\x10\x00\x01\x04\x00\x00\x01\x04\x00\x00\x01\x05"))
	f.Fuzz(func(t *testing.T, script []byte) {
		var said []told
		for len(script) >= 4 && len(said) < 300 {
			s := told{
				rule:      modelRules[script[0]&3],
				key:       [...]string{"x", "203.0.113.7", "2001:db8::/32", "alice /login"}[script[0]>>2&3] + string(script[1:1+script[0]>>7]),
				unixMilli: int64(int8(script[3])),
				cost:      int64(script[2]),
			}
			switch {
			case script[0]&0x10 != 0:
				s.cost, s.id = 0, string(script[2:3])
			case script[0]&0x20 != 0 && len(script) >= 12:
				s.unixMilli = int64(binary.LittleEndian.Uint64(script[4:]))
				script = script[8:]
			case script[0]&0x40 != 0:
				s.cost <<= script[2] & 63
			}
			if s.cost = s.cost &^ (-1 << 63); s.cost == 0 && s.id == "" {
				s.cost = 1
			}
			said, script = append(said, s), script[4:]
		}
		checkAgainstTwin(t, NewWriter(), new(Reader), said)
	})
}

// A key comes back byte for byte.
func FuzzKey(f *testing.F) {
	for _, key := range []string{"203.0.113.7", "10.0.0.0/8", "2001:db8:1::/64", "::1", "::ffff:1.2.3.4", "alice", "1:2:3:4:5:6:7:8/128"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if len(key) > MaxKey {
			return
		}
		if b, read, ok := packed(key); !ok || read != key || len(b) > len(key)+4 {
			t.Fatalf("%q is read as %q from %d bytes", key, read, len(b))
		}
	})
}

// Reading positions from any bytes does not panic. Positions that were read are written and read the same.
func FuzzPositions(f *testing.F) {
	p := NewPositions(10, time.Hour)
	p.Judge(Header{Source: "access.log/1", To: 7, Part: 1, More: true}, 5, 1000)
	p.Judge(Header{Source: "access.log/2", From: 7, To: 9}, 6, 900)
	b := p.Append(nil)
	f.Add(b[1 : len(b)-checksumBytes])
	f.Fuzz(func(t *testing.T, body []byte) {
		p := NewPositions(10, time.Duration(1<<63-1))
		_ = p.Read(body)
		b := seal(append([]byte{Version}, body...), 0)
		if p.Read(b) != nil {
			return
		}
		written := p.Append(nil)
		if err := p.Read(written); err != nil || !bytes.Equal(p.Append(nil), written) {
			t.Fatal(err)
		}
	})
}
