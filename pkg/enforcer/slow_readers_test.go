package enforcer

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"weir/pkg/blocklist"
)

// changed returns a list with n changes, and its version before them.
func changed(t *testing.T, n int) (*blocklist.Set, blocklist.Version) {
	t.Helper()
	set := list(t)
	before := set.Version()
	all := make([]blocklist.Change, n)
	for i := range all {
		all[i] = changeOf(t, int64(i+1), ofIP(fmt.Sprintf("198.%d.%d.%d", i>>16, i>>8&255, i&255)))
	}
	if err := set.Apply(time.Now().UnixMilli(), all...); err != nil {
		t.Fatal(err)
	}
	return set, before
}

// pullAll asks for the changes after a version until there are no more, as the documents say: after each answer with
// its Weir-Version. It returns the answers' numbers of entries.
func pullAll(t *testing.T, r *running, after string, keys map[string]bool) (counts []int) {
	t.Helper()
	for {
		got := r.get("/v1/blocklist?after=" + after)
		header, entries := readLines(t, strings.NewReader(got.body))
		next := got.Header.Get("Weir-Version")
		if next != header.Version.String() {
			t.Fatalf("Weir-Version is %s, and the list's version %s", next, header.Version)
		}
		if len(entries) == 0 {
			return counts
		}
		counts, after = append(counts, len(entries)), next
		for _, e := range entries {
			keys[e.Key] = true
		}
	}
}

// A client that asks with the Weir-Version of its last answer gets all changes, however many there are.
func TestWeirVersionIsThatOfTheAnswer(t *testing.T) {
	const n = 20_000
	set, before := changed(t, n)
	r := start(t, set, func(c *Config) { c.Keys = nil })
	keys := map[string]bool{}
	if counts := pullAll(t, r, before.String(), keys); len(keys) != n || len(counts) != 2 {
		t.Errorf("%d of %d entries, in answers of %d", len(keys), n, counts)
	}
}

// Any number of clients may read changes slowly: only a few have many of them in memory.
func TestFewCatchUpAtATime(t *testing.T) {
	const n = 500
	set, before := changed(t, n)
	r := start(t, set, func(c *Config) { c.Keys = nil })
	leave := takeAll(t, r.catchingUp)
	keys := map[string]bool{}
	if counts := pullAll(t, r, before.String(), keys); len(keys) != n || len(counts) != 4 || counts[0] != fewChanges {
		t.Errorf("while others catch up, %d entries in answers of %d", len(keys), counts)
	}
	got := r.get("/v1/blocklist?after="+before.String(), "Accept", blocklist.ContentBinary)
	if read, err := blocklist.NewReader(strings.NewReader(got.body)); err != nil || read.Header.Version.String() != got.Header.Get("Weir-Version") || read.Header.Version.Offset != fewChanges {
		t.Errorf("in the binary form: %+v, %v", read.Header, err)
	}
	leave()
	if counts := pullAll(t, r, before.String(), map[string]bool{}); len(counts) != 1 {
		t.Errorf("with a place: %d", counts)
	}
	if taken := r.catchingUp.Taken(); taken != maxCatchingUp-1 {
		t.Errorf("%d places are taken", taken)
	}
}

// A measuringWriter notes the longest write, and ends its request after the last of the entries, or a write that is too
// long.
type measuringWriter struct {
	*httptest.ResponseRecorder
	longest, entries, last int
	end                    context.CancelFunc
}

func (m *measuringWriter) Write(b []byte) (int, error) {
	m.longest = max(m.longest, len(b))
	if m.entries += strings.Count(string(b), "event: entry"); m.entries == m.last || m.longest > longestPiece {
		m.end()
	}
	return len(b), nil
}

const longestPiece = 20 << 10

// A stream keeps few events in memory for a client that reads slowly, however many changes there are.
func TestAStreamWritesPieces(t *testing.T) {
	const n = 2000
	set, before := changed(t, n)
	r := start(t, set, func(c *Config) { c.Keys = nil })
	ctx, cancel := context.WithCancel(t.Context())
	w := &measuringWriter{ResponseRecorder: httptest.NewRecorder(), last: n, end: cancel}
	request := httptest.NewRequest(http.MethodGet, "http://localhost/v1/blocklist?after="+before.String(), http.NoBody).WithContext(ctx)
	request.Header.Set("Accept", eventStream)
	r.ServeHTTP(w, request)
	if w.entries != n || w.longest > longestPiece {
		t.Errorf("%d entries, the longest write has %d bytes", w.entries, w.longest)
	}
}
