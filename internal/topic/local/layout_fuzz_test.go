package local

import (
	"bytes"
	"encoding/json"
	"testing"

	"weir/internal/topic"
)

// Any bytes may be on a disk: they are read without a panic, and what is read is written as the same bytes, or as bytes
// that are read the same.
func FuzzStored(f *testing.F) {
	m := topic.Message{Key: []byte("key"), Value: []byte("value")}
	f.Add(append(append(appendHead(nil, &m, head{1234, 5678}), m.Key...), m.Value...))
	f.Add(append(appendHead(nil, &topic.Message{Value: []byte{}}, head{-1, 0}), 0))
	f.Add(extent{1, 2, 3}.bytes())
	f.Add(last{7, true}.bytes())
	f.Add(appendCommit(nil, topic.Commit{Offset: -1, Metadata: "m"}))
	f.Add(commitKey("group", "topic", 3))
	f.Add([]byte(`{"number":1,"partitions":2,"settings":{"a":"b"}}`))
	f.Add(bytes.Repeat([]byte{0xff}, 30))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, h, err := readRecord(b, 3); err == nil {
			m := topic.Message{Key: r.Key, Value: r.Value}
			again := append(append(appendHead(nil, &m, h), m.Key...), m.Value...)
			r2, h2, err := readRecord(again, 3)
			if err != nil || h != h2 || !bytes.Equal(r.Key, r2.Key) || !bytes.Equal(r.Value, r2.Value) || (r.Key == nil) != (r2.Key == nil) || (r.Value == nil) != (r2.Value == nil) {
				t.Errorf("%x: %+v, %+v, %v", b, r, r2, err)
			}
			if len(again) > recordSize(&m) {
				t.Errorf("%d bytes, at most %d were expected", len(again), recordSize(&m))
			}
		}
		if e, err := readExtent(b); err == nil {
			if again, err := readExtent(e.bytes()); err != nil || again != e || e.start > e.end {
				t.Errorf("%x: %+v, %+v, %v", b, e, again, err)
			}
		}
		if l, err := readLast(b); err == nil {
			if again, err := readLast(l.bytes()); err != nil || again != l {
				t.Errorf("%x: %+v, %+v, %v", b, l, again, err)
			}
		}
		if c, err := readCommit(b); err == nil {
			if again, err := readCommit(appendCommit(nil, c)); err != nil || again != c {
				t.Errorf("%x: %+v, %+v, %v", b, c, again, err)
			}
		}
		if group, name, n, err := readCommitKey(b); err == nil {
			if again := commitKey(group, name, n); !bytes.Equal(again[2:], b[2:]) {
				t.Errorf("%x: %x", b, again)
			}
		}
		if d, err := readDescription(b); err == nil {
			text, _ := json.Marshal(d)
			if again, err := readDescription(text); err != nil || again.Number != d.Number || again.Partitions != d.Partitions {
				t.Errorf("%s: %s", b, text)
			}
		}
		if offset, err := offsetIn(b); err == nil && offset < 0 {
			t.Error(offset)
		}
		if end := SplitAt(b); end != nil && bytes.Compare(end, b) <= 0 {
			t.Errorf("a file that begins with %x ends at %x", b, end)
		}
	})
}
