package inspect

import (
	"testing"

	"weir/pkg/hit"
)

// A hit with a value is shown with its hash, a command and a plain hit without.
func TestValuesOfHitsAreShown(t *testing.T) {
	w := hit.NewWriter()
	w.ResetValues([]string{"paths", "plain"}, []uint64{7, 0})
	w.AddValue(0, []byte("192.0.2.1"), 5, 0xabc)
	w.Add(1, []byte("192.0.2.1"), 5, 2)
	w.Unblock(0, []byte("192.0.2.1"), 5, "id")
	record, err := w.Append(nil, hit.Header{Source: "s", To: 1})
	if err != nil {
		t.Fatal(err)
	}
	var r hit.Reader
	if err := r.Reset(record); err != nil {
		t.Fatal(err)
	}
	b := newShownBatch(0, 1, &r)
	for n, want := range []string{"0000000000000abc", "", ""} {
		if b.Hits[n].Value != want {
			t.Errorf("hit %d has the value %q, want %q", n, b.Hits[n].Value, want)
		}
	}
}
