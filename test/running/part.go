package running

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/topic"
)

// A Part answers /status as a collector does.
type Part struct {
	*httptest.Server
	Says atomic.Pointer[string]
}

// NewPart runs a part that answers this text, until the test changes Says; an empty text is answered with 503.
func NewPart(t *testing.T, says string) *Part {
	p := &Part{}
	p.Says.Store(&says)
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if text := *p.Says.Load(); text != "" {
			_, _ = io.WriteString(w, text)
			return
		}
		http.Error(w, "starting", http.StatusServiceUnavailable)
	}))
	t.Cleanup(p.Close)
	return p
}

// Address is the host and port.
func (p *Part) Address() string { return strings.TrimPrefix(p.URL, "http://") }

// Within is the test's context with a limit.
func Within(t *testing.T, patience time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// Commit commits offsets as a member of the group, and leaves the group.
func Commit(t *testing.T, client topic.Log, group, name string, partitions int, offsets map[int]int64) {
	t.Helper()
	ctx, leave := context.WithCancel(Within(t, 2*time.Minute))
	defer leave()
	left := atomic.Int64{}
	left.Store(int64(partitions))
	err := client.RunGroup(ctx, topic.Group{Name: group, Topics: map[string]int{name: partitions}}, func(ctx context.Context, claim *topic.Claim) error {
		if offset, ok := offsets[claim.Partition]; ok {
			if err := claim.Commit(ctx, topic.Commit{Offset: offset}); err != nil {
				return err
			}
		}
		if left.Add(-1) == 0 {
			leave()
		}
		<-ctx.Done()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Redirect runs a server that redirects every request to another host, and returns its URL, and how many requests arrived
// there with an API key.
func Redirect(t *testing.T) (url string, leaked func() int32) {
	t.Helper()
	var keys atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Api-Key") != "" {
			keys.Add(1)
		}
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(other.Close)
	first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(first.Close)
	return first.URL, keys.Load
}
