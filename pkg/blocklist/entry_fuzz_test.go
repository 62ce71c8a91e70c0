package blocklist

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
)

// FuzzDecode: for all bytes,
//   - Decode does not panic, and its errors are ErrNewer and ErrDamaged;
//   - an entry that it reads is written again as the same bytes, under the same key;
//   - and is valid JSON.
func FuzzDecode(f *testing.F) {
	for _, e := range entries() {
		value, _ := e.Append(nil)
		f.Add(RecordKey(e.Rule, e.Key), value)
	}
	f.Add([]byte("manual/ip/203.0.113.7"), []byte{1})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		e, err := Decode(key, value)
		if err != nil {
			if !errors.Is(err, ErrNewer) && !errors.Is(err, ErrDamaged) {
				t.Fatal(err)
			}
			return
		}
		again, err := e.Append(nil)
		if err != nil || !bytes.Equal(again, value) || !bytes.Equal(RecordKey(e.Rule, e.Key), key) {
			t.Fatalf("%v\ngot  %x\nwant %x", err, again, value)
		}
		if text, err := json.Marshal(e); err != nil || !json.Valid(text) {
			t.Fatalf("%s, %v", text, err)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	value, _ := entry().Append(nil)
	key := RecordKey("per-ip", "203.0.113.7")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(key, value); err != nil {
			b.Fatal(err)
		}
	}
}
