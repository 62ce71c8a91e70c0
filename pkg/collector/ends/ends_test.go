package ends

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/pkg/inline"
	"weir/test/metric"
)

func idsOf(n int) (ids []inline.ID) {
	for range n {
		ids = append(ids, inline.NewID(1))
	}
	return ids
}

// A listener is an enforcer that keeps what it was given, and may fail.
type listener struct {
	mu    sync.Mutex
	fails bool
	ids   []inline.ID
	calls int
}

func (l *listener) end(_ context.Context, ids []inline.ID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	if len(ids) == 0 || len(ids) > mostTogether {
		return errors.New("not so many")
	}
	if l.fails {
		return errors.New("away")
	}
	l.ids = append(l.ids, ids...)
	return nil
}

func (l *listener) set(fails bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fails = fails
}

// Each enforcer gets all attempts in their order. One that is away gets those that fit into its queue, once it is back,
// and holds up no other. The rest is sent at the end.
func TestEachEnforcerGetsAllEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		well, away, metrics := &listener{}, &listener{fails: true}, prometheus.NewRegistry()
		s := New([]Target{{"well", well.end}, {"away", away.end}}, nil, metrics)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { s.Run(ctx); close(ended) }()

		all := idsOf(mostQueued + 1000)
		for at := 0; at < len(all); at += 64 {
			s.Put(all[at:min(at+64, len(all))])
			synctest.Wait()
		}
		if !slices.Equal(well.ids, all) {
			t.Errorf("%d of %d came", len(well.ids), len(all))
		}
		lost, _ := metric.Value(t, metrics, "weir_collector_ends_lost_total")
		if lost == 0 || lost > 1000 {
			t.Errorf("%v are lost", lost)
		}

		away.set(false)
		time.Sleep(2 * again)
		synctest.Wait()
		if kept := len(all) - int(lost); len(away.ids) != kept || !slices.Equal(away.ids[:1000], all[:1000]) {
			t.Errorf("%d of %d came after the fault", len(away.ids), kept)
		}

		away.set(true)
		last := idsOf(10)
		s.Put(last)
		synctest.Wait()
		away.set(false)
		cancel()
		<-ended
		if got := away.ids[len(away.ids)-10:]; !slices.Equal(got, last) {
			t.Error("what was queued at the end did not come")
		}
	})
}

// An enforcer that does not answer at the end does not hold up the process for long. The log says what it did not get.
func TestTheEndDoesNotWaitForAnEnforcer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		s := New([]Target{{"away", func(ctx context.Context, _ []inline.ID) error { <-ctx.Done(); return context.Cause(ctx) }}}, slog.New(slog.NewTextHandler(&log, nil)), nil)
		ctx, cancel := context.WithCancel(t.Context())
		s.Put(idsOf(300))
		began := time.Now()
		time.AfterFunc(time.Minute, cancel)
		s.Run(ctx)
		if took := time.Since(began); took > time.Minute+2*closePatience {
			t.Errorf("it took %s", took)
		}
		if want := "enforcer=away number=300"; !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %s:\n%s", want, &log)
		}
	})
}

func TestAnEnforcerOverHTTP(t *testing.T) {
	var asked []string
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, r.Method+" "+r.URL.Path+" "+r.Header.Get("X-Api-Key")+" "+string(body))
		if status == http.StatusTemporaryRedirect {
			w.Header().Set("Location", "http://localhost:1/v1/settle")
		}
		w.WriteHeader(status)
		io.WriteString(w, `{"ended":1}`+strings.Repeat("x", 10_000))
	}))
	defer server.Close()
	one := inline.NewID(1)
	key := func() (string, error) { return "the key", nil }
	to := Enforcer{URL: server.URL + "/", Key: key, Client: server.Client()}.Target()
	if err := to.End(t.Context(), []inline.ID{one}); err != nil {
		t.Error(err)
	}
	if want := `POST /v1/settle the key {"ended":["` + one.String() + `"]}`; len(asked) != 1 || asked[0] != want {
		t.Errorf("%q, want %s", asked, want)
	}
	for _, status = range []int{http.StatusUnauthorized, http.StatusServiceUnavailable, http.StatusTemporaryRedirect} {
		if err := to.End(t.Context(), []inline.ID{one}); err == nil || len(err.Error()) > 600 || strings.Contains(err.Error(), "the key") {
			t.Errorf("%d: %v", status, err)
		}
	}
	to = Enforcer{URL: server.URL, Key: func() (string, error) { return "", errors.New("no such file") }, Client: server.Client()}.Target()
	if err := to.End(t.Context(), []inline.ID{one}); err == nil || len(asked) != 4 {
		t.Errorf("without the key: %v", err)
	}
}
