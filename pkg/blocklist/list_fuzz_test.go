package blocklist

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

// FuzzDecodeRecord: for all bytes,
//   - DecodeRecord does not panic, and its errors are ErrNewer and ErrDamaged;
//   - a record that it reads is written again as the same bytes, under the same key;
//   - a Set accepts exactly the records that it reads, and can show them.
func FuzzDecodeRecord(f *testing.F) {
	for _, o := range orders() {
		c := ordered(f, 0, o)
		f.Add(c.Key, c.Value)
	}
	value, _ := someMark().Append(nil)
	f.Add(someMark().RecordKey(), value)
	c := record(f, 0, entry())
	f.Add(c.Key, c.Value)
	f.Fuzz(func(t *testing.T, key, value []byte) {
		if value == nil {
			value = []byte{}
		}
		s := NewSet(Limits{})
		r, err := DecodeRecord(key, value)
		if applied := s.Apply(0, Change{Key: key, Value: value}); (applied == nil) != (err == nil) && !bytes.HasPrefix(key, []byte(markPrefix)) {
			t.Fatalf("decoded: %v, applied: %v", err, applied)
		}
		for range s.All(0) {
		}
		var again, under []byte
		switch {
		case err != nil:
			if !errors.Is(err, ErrNewer) && !errors.Is(err, ErrDamaged) {
				t.Fatal(err)
			}
			return
		case r.Entry != nil:
			again, err = r.Entry.Append(nil)
			under = RecordKey(r.Entry.Rule, r.Entry.Key)
		case r.Order != nil:
			again, err = r.Order.Append(nil)
			under = r.Order.RecordKey()
		case r.Mark != nil:
			again, err = r.Mark.Append(nil)
			under = r.Mark.RecordKey()
		}
		if err != nil || !bytes.Equal(again, value) || !bytes.Equal(under, key) {
			t.Fatalf("%v\ngot  %q %x\nwant %q %x", err, under, again, key, value)
		}
	})
}

// FuzzRead: for all bytes, reading a list neither panics nor changes the Set unless it succeeds; then the list can be
// written and read again.
func FuzzRead(f *testing.F) {
	from := wholeSet(f, "1.1.1.1")
	_ = from.Order(allow("9.9.9.9"), at)
	f.Add(written(f, from, Version{}))
	_ = from.Apply(at, record(f, 4, verdict("2.2.2.2")))
	f.Add(written(f, from, Version{list, 2}))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := NewSet(Limits{})
		if _, err := s.Read(bytes.NewReader(b), at); err != nil {
			if s.State() != (State{}) {
				t.Fatal(err, s.State())
			}
			return
		}
		if _, err := NewSet(Limits{}).Read(bytes.NewReader(written(t, s, Version{})), at); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzJSONReader: for all bytes, it does not panic, and ends.
func FuzzJSONReader(f *testing.F) {
	var b bytes.Buffer
	_ = wholeSet(f, "1.1.1.1").WriteJSONAfter(&b, Version{}, at, nil)
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := NewJSONReader(bytes.NewReader(b))
		for err == nil {
			_, err = r.Next()
		}
		if errors.Is(err, io.EOF) && !errors.Is(err, ErrCut) && bytes.Count(b, []byte("\n")) < 1 {
			t.Fatal("a list without lines")
		}
	})
}
