package crowdsec

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// A timed writer records the deadline of each piece.
type timed struct {
	*httptest.ResponseRecorder
	by []time.Time
}

func (w *timed) SetWriteDeadline(by time.Time) error {
	w.by = append(w.by, by)
	return nil
}

// There are few places for answers, so each has a deadline that depends on its length, even when its reader takes very
// small pieces.
func TestAnAnswerHasAnEnd(t *testing.T) {
	w := &timed{ResponseRecorder: httptest.NewRecorder()}
	began := time.Now()
	o := newOutput(w, httptest.NewRequest(http.MethodGet, "/v1/decisions/stream", http.NoBody), false)
	o.until = began.Add(time.Second)
	const pieces = 4
	for range pieces {
		o.text(string(make([]byte, pieceBytes)))
		o.flush()
	}
	for i, by := range w.by {
		if want := began.Add(time.Duration(i+1) * time.Second); !by.Equal(want) {
			t.Errorf("piece %d has to be taken by %v, want %v", i, by.Sub(began), want.Sub(began))
		}
	}
	if len(w.by) != pieces {
		t.Errorf("%d of %d pieces have an end", len(w.by), pieces)
	}
	o.until = began.Add(time.Hour)
	o.flush()
	if last := w.by[len(w.by)-1]; last.After(time.Now().Add(piecePatient)) {
		t.Errorf("a piece may take until %v", last.Sub(began))
	}
}
