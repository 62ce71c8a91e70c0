package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/command"
	"weir/cmd/weir/internal/output"
	"weir/test/port"
	"weir/test/running"
)

func answer(status int, retryAfter string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Retry-After", retryAfter)
		w.WriteHeader(status)
		io.WriteString(w, `{"detail": "there is no room"}`)
	}
}

func hangUp(http.ResponseWriter) { panic(http.ErrAbortHandler) }

// send waits for room, sends again and reports it when no answer came, and ends with any other error.
func TestHTTPSinkTriesAgain(t *testing.T) {
	for name, test := range map[string]struct {
		answers  []func(http.ResponseWriter)
		err      string
		repeated int64
		tried    int
	}{
		"taken":     {nil, "", 0, 1},
		"full":      {[]func(http.ResponseWriter){answer(429, "0"), answer(429, "")}, "", 0, 3},
		"no answer": {[]func(http.ResponseWriter){hangUp, answer(503, "0")}, "", 2, 3},
		"no key":    {[]func(http.ResponseWriter){answer(401, "")}, "answers 401 Unauthorized: there is no room", 0, 1},
		"too large": {[]func(http.ResponseWriter){answer(413, "")}, "answers 413 ", 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := running.NewCollector(test.answers...)
			defer s.Close()
			h := newHTTPSink(s.URL+"/v1/requests", "secret")
			err := errors.Join(h.add(t.Context(), []byte("line")), h.flush(t.Context()), h.flush(t.Context()))
			taken := s.Received()
			if test.err == "" && (err != nil || taken != "line\n" || s.Keys[0] != "secret") || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
				t.Errorf("%v, %q", err, taken)
			}
			if h.was.Repeated < test.repeated || test.repeated == 0 && h.was.Repeated > 0 || s.Tried < test.tried {
				t.Errorf("repeated %d, tried %d", h.was.Repeated, s.Tried)
			}
			if h.close(false) != nil || test.err == "" && (h.result().Unread["time"] != 1 || h.result().Uncounted["match"] != 2) {
				t.Errorf("%+v", h.result())
			}
		})
	}
}

// A failing collector answers 500 and counts how often.
type failing struct{ tried int64 }

func (f *failing) RoundTrip(*http.Request) (*http.Response, error) {
	f.tried++
	recorder := httptest.NewRecorder()
	answer(http.StatusInternalServerError, "")(recorder)
	return recorder.Result(), nil
}

// A failing body is sent for half a minute, less and less often, and may have been counted each time.
func TestHTTPSinkGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		collector := &failing{}
		h := newHTTPSink("http://collector/v1/requests", "")
		h.client.Transport = collector
		began := time.Now()
		err := errors.Join(h.add(t.Context(), []byte("line")), h.flush(t.Context()))
		if err == nil || !strings.Contains(err.Error(), "there is no room; tried for 30s") {
			t.Error(err)
		}
		if took := time.Since(began); took < sendPatience || took > sendPatience+lastPause || collector.tried < 15 || collector.tried > 25 || h.was.Repeated != collector.tried-1 {
			t.Errorf("tried %d times in %v, repeated %d", collector.tried, took, h.was.Repeated)
		}
	})
}

func TestHTTPSinkGivesUpOnTheAbsent(t *testing.T) {
	h := newHTTPSink("http://"+port.Reserve(t, "127.0.0.1"), "")
	h.patience = 150 * time.Millisecond
	err := errors.Join(h.add(t.Context(), []byte("line")), h.flush(t.Context()))
	if err == nil || !strings.Contains(err.Error(), "connection refused; tried for 150ms") || h.was.Repeated > 0 {
		t.Error(err, h.was.Repeated)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.flush(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestRetryAfter(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 0, "2": 2 * time.Second, "-1": 0, "x": 0, "99999999999": longestPause, "86400": longestPause,
		"Mon, 02 Jan 2006 15:04:05 GMT": 0} {
		if got := retryAfter(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// A bodySink records each flush with its time and lines.
type bodySink struct {
	start time.Time
	text  strings.Builder
	lines int
	log   []string
}

func (b *bodySink) add(_ context.Context, line []byte) error {
	fmt.Fprintf(&b.text, "%s\n", line)
	b.lines++
	return nil
}

func (b *bodySink) flush(context.Context) error {
	if b.lines > 0 {
		b.log = append(b.log, fmt.Sprintf("%d by %s", b.lines, time.Since(b.start)))
		b.lines = 0
	}
	return nil
}

func (b *bodySink) close(bool) error   { return nil }
func (b *bodySink) result() sinkResult { return sinkResult{} }

const twoMinutes = `203.0.113.7 - - [03/Mar/2026:08:00:00 +0000] "GET /a HTTP/1.1" 200 1
# a comment
203.0.113.7 - - [03/Mar/2026:08:01:00 +0000] "GET /b HTTP/1.1" 200 1
203.0.113.7 - - [03/Mar/2026:08:00:30 +0000] "GET /late HTTP/1.1" 200 1
203.0.113.7 - - [03/Mar/2026:08:02:00 +0000] "GET /c HTTP/1.1" 200 1
`

// Lines are sent at the log's own pace times the factor, and moved times keep their distances.
func TestPace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(file, []byte(twoMinutes), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		speed string
		now   bool
		log   string
		times string // of the lines, from the start
	}{
		{"max", false, "[5 by 0s]", ""},
		{"x60", false, "[2 by 0s 2 by 1s 1 by 2s]", ""},
		{"x0.5", true, "[2 by 0s 2 by 2m0s 1 by 4m0s]", "[0s 2m0s 1m0s 4m0s]"},
		{"2/s", true, "[1 by 0s 1 by 500ms 1 by 1s 1 by 1.5s 1 by 2s]", "[0s 1s 1s 2s]"},
		{"1000/s", false, "[1 by 0s 4 by 5ms]", ""},
	} {
		synctest.Test(t, func(t *testing.T) { // whose clock begins at a whole second
			pace, err := parseSpeed(test.speed)
			if err != nil {
				t.Fatal(err)
			}
			s := &sendCommand{now: test.now, pace: pace, read: command.Reading{Format: "auto", Envelope: "auto"}}
			in := &sendInput{path: file, timed: pace.factor > 0 || test.now}
			if err := in.look(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			to := &bodySink{start: time.Now()}
			r := &replay{to: to, pace: pace, now: test.now, progress: output.NewProgress(io.Discard, "sending")}
			if err := errors.Join(r.file(t.Context(), in), to.flush(t.Context()), r.outcome()); err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(to.log); got != test.log {
				t.Errorf("%s: %s, want %s", test.speed, got, test.log)
			}
			if got := fmt.Sprint(timesSince(t, to.start, to.text.String())); test.now && got != test.times {
				t.Errorf("%s: times %s, want %s", test.speed, got, test.times)
			}
			if !test.now && to.text.String() != twoMinutes {
				t.Errorf("%s: lines changed", test.speed)
			}
		})
	}
}

// timesSince returns the times of the lines that have one.
func timesSince(t *testing.T, start time.Time, text string) (times []time.Duration) {
	for line := range strings.Lines(text) {
		if _, rest, ok := strings.Cut(line, "["); ok {
			at, err := time.Parse("02/Jan/2006:15:04:05 -0700", rest[:26])
			if err != nil {
				t.Fatal(err)
			}
			times = append(times, at.Sub(start.Truncate(time.Second)))
		}
	}
	return times
}

func TestSpeed(t *testing.T) {
	for text, want := range map[string]speed{"max": {}, "500/s": {perSecond: 500}, "0.5/s": {perSecond: 0.5}, "x1": {factor: 1}, "x0.25": {factor: 0.25}} {
		if got, err := parseSpeed(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "500", "0/s", "-1/s", "x0", "x-1", "xNaN", "NaN/s", "Inf/s", "xInf", "10x", "fast"} {
		if _, err := parseSpeed(text); !exit.IsWrong(err) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Lines that are too long are left out and reported; memory does not grow with them.
func TestLongLines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(file, []byte("one\n"+strings.Repeat("x", 3*maxLine)+"\ntwo\r\n\n"+strings.Repeat("y", maxLine-1)+"\n"+strings.Repeat("z", 2*maxLine)), 0o644); err != nil {
		t.Fatal(err)
	}
	to := &bodySink{}
	r := &replay{to: to, progress: output.NewProgress(io.Discard, "sending")}
	if err := r.file(t.Context(), &sendInput{path: file}); err != nil {
		t.Fatal(err)
	}
	if got := to.text.String(); got != "one\ntwo\n"+strings.Repeat("y", maxLine-1)+"\n" || r.sent.Lines != 3 {
		t.Errorf("%d lines, %d bytes", r.sent.Lines, len(got))
	}
	if err := r.outcome(); err == nil || err.Error() != "2 lines not sent, the first: "+file+":2: the line is too long" {
		t.Error(err)
	}
}
