package past

import (
	"bytes"
	"testing"
)

// Reading stored bytes or a cursor does not panic. A cursor or an event that was read is written in the same way, and the
// event matches a query for its own key.
func FuzzStoredBytes(f *testing.F) {
	f.Add([]byte(`{"v":1,"id":"one","rule":"per-ip","key":"2001:db8::/64","fields":{"ip":"2001:db8::/64"},"from":"2026-03-03T08:00:00Z","until":"2026-03-03T08:10:00Z",` +
		`"decided":"2026-03-03T08:00:01Z","limit":"10/min","count":11,"level":1,"mode":"enforce","source":"verdict","by":"weir","why":"","event":"blocked","at":"2026-03-03T08:00:01Z"}`))
	f.Add([]byte(`{"v":1,"id":"","rule":"manual","key":"a/b","fields":{"key":"10.0.0.0/8","rule":"a"},"order":"pardon","source":"manual","event":"ordered","at":"2026-03-03T08:00:01Z"}`))
	f.Add(place{5, 7}.append(nil))
	f.Add(state{place{5, 7}, span{5, 9}, 3}.bytes())
	f.Add([]byte("\x01\x03abc{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, ok := readState(b); ok {
			if again, ok := readState(s.bytes()); !ok || again != s {
				t.Errorf("%+v, %+v", s, again)
			}
		}
		if h, ok := readHeader(b); ok && len(h.key)+len(h.line) > len(b) {
			t.Errorf("%+v", h)
		}
		if p, ok := placeOf(b); ok {
			q := Query{After: p.cursor()}
			if first, err := q.first(); err != nil || p.at <= maxAt && first != p {
				t.Errorf("%+v: %+v, %v", p, first, err)
			}
		}
		_ = (&Query{After: string(b)}).Check() // an error is right

		e, err := ReadEvent(b)
		if err != nil {
			return
		}
		h, ok := readHeader(e.stored(5))
		if !ok || h.kind != 5 || !bytes.Equal(h.line, b) {
			t.Errorf("%+v", h)
		}
		for _, list := range e.lists() {
			if len(list) < 2 || len(list) > 4*maxTerm+16 {
				t.Errorf("a list with a name of %d bytes", len(list))
			}
		}
		if len(e.unit()) > maxTerm || len(e.Identity()) > maxTerm {
			t.Error("a long key")
		}
		q := Query{Key: e.Key}
		if e.Key != "" && e.Key[len(e.Key)-1] != '*' && !q.Matches(e) {
			t.Errorf("%q does not match itself", e.Key)
		}
	})
}
