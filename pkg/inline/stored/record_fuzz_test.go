package stored

import (
	"bytes"
	"testing"
)

// Any bytes are an error, or a record that is written and read as it is.
func FuzzReadRecord(f *testing.F) {
	for _, r := range []record{{}, {parts: []part{{1_700_000_000_000, 1, false}, {5, 1 << 40, true}}}, {parts: []part{{1, 2, false}}, names: []string{"kquota\x00a", "", "kb\x00"}}} {
		f.Add(r.bytes())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := readRecord(b)
		if err != nil {
			return
		}
		again, err := readRecord(r.bytes())
		if err != nil || !bytes.Equal(again.bytes(), r.bytes()) {
			t.Fatalf("%+v is read again as %+v, %v", r, again, err)
		}
	})
}
