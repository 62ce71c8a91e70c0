package aggregator

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/store"
	"weir/internal/topic"
)

// A hung store answers no reading before its context ends.
type hung struct{ store.Store }

func (h hung) Read(ctx context.Context, _ int, _ store.Space, _ [][]byte) ([][]byte, store.Fence, error) {
	<-ctx.Done()
	return nil, store.Fence{}, ctx.Err()
}

// ask asks for a path over HTTP while the partition turns, and returns the answer and how long the longest turn took.
func (l *lab) ask(p *partition, path string) (answer *httptest.ResponseRecorder, longest time.Duration) {
	l.t.Helper()
	l.agg.hold(p)
	mux := http.NewServeMux()
	l.agg.Handle(mux.Handle)
	answered := make(chan *httptest.ResponseRecorder, 1)
	go func() {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequestWithContext(l.t.Context(), http.MethodGet, path, http.NoBody))
		answered <- w
	}()
	for {
		synctest.Wait()
		select {
		case answer = <-answered:
			return answer, longest
		default:
		}
		begun := time.Now()
		l.hits("192.0.2.9", 1)
		l.turn(p)
		longest = max(longest, time.Since(begun))
		time.Sleep(10 * time.Millisecond)
	}
}

// A question about a key that is not in memory waits for the store for a short time, and keys in memory are counted on.
func TestAHungStoreDelaysOnlyTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 1, newMemoryStore())
		p := l.takes()
		l.hits("192.0.2.1", 3)
		l.crowd(p)
		l.hits("192.0.2.9", 1)
		l.settle(p)
		answer, _ := l.ask(p, "/v1/keys?rule=few&key=192.0.2.1")
		if answer.Code != http.StatusOK || !strings.Contains(answer.Body.String(), `"where":"cold"`) || !strings.Contains(answer.Body.String(), `"newest":"2024-01-01`) {
			t.Errorf("%d: %s", answer.Code, answer.Body)
		}
		p.own.Store = hung{p.own.Store}
		begun := time.Now()
		answer, longest := l.ask(p, "/v1/keys?rule=few&key=192.0.2.1")
		if answer.Code != http.StatusServiceUnavailable || !strings.Contains(answer.Body.String(), "the store does not answer") {
			t.Errorf("%d: %s", answer.Code, answer.Body)
		}
		if waited := time.Since(begun); longest > 0 || waited > 2*coldPatience {
			t.Errorf("the longest turn took %v, the answer %v", longest, waited)
		}
		if answer, _ := l.ask(p, "/v1/keys?rule=few&key=192.0.2.9"); answer.Code != http.StatusOK || !strings.Contains(answer.Body.String(), `"where":"hot"`) {
			t.Errorf("%d: %s", answer.Code, answer.Body)
		}
		p.own.Calls.Wait()
	})
}

// A question to an idle partition does not wait until its fetch returns; neither for a key in memory nor for one in the store.
func TestAnIdlePartitionAnswersAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 1, newMemoryStore())
		p := l.takes()
		l.hits("192.0.2.1", 3)
		l.crowd(p)
		l.hits("192.0.2.9", 1)
		l.settle(p)
		l.log.instead = func(ctx context.Context) ([]topic.Record, error) { // nothing comes, as a broker says it
			select {
			case <-time.After(500 * time.Millisecond):
			case <-ctx.Done():
			}
			return nil, ctx.Err()
		}
		l.agg.hold(p)
		mux := http.NewServeMux()
		l.agg.Handle(mux.Handle)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for ctx.Err() == nil {
				_ = p.turn(ctx)
			}
		}()
		for _, path := range []string{"/v1/keys?rule=few&key=192.0.2.9", "/v1/keys?rule=few&key=192.0.2.1", "/v1/top"} {
			time.Sleep(720 * time.Millisecond)
			synctest.Wait()
			begun := time.Now()
			w := httptest.NewRecorder()
			mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
			if waited := time.Since(begun); w.Code != http.StatusOK || waited > 0 {
				t.Errorf("%s: %d after %v: %s", path, w.Code, waited, w.Body)
			}
		}
		cancel()
		<-ended
		p.own.Calls.Wait()
	})
}
