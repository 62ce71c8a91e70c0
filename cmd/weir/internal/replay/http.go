package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/ask"
	"weir/internal/origin"
)

const (
	bodyBytes    = 256 << 10        // a body is sent when it has reached this size
	postPatience = 60 * time.Second // for one answer: the collector waits half of it for Kafka
	sendPatience = 30 * time.Second // for a collector that does not answer at all
	firstPause   = 100 * time.Millisecond
	lastPause    = 2 * time.Second
	longestPause = time.Minute // a longer Retry-After is shortened to this
)

// An httpSink posts lines to a collector's http source, one body after the other. It posts a body again as long as the
// collector answers that it has no room (429), and for half a minute to a collector that does not answer.
type httpSink struct {
	url, key string
	client   *http.Client
	patience time.Duration
	body     bytes.Buffer
	lines    int64
	was      sinkResult
}

func newHTTPSink(url, key string) *httpSink {
	return &httpSink{url: url, key: key, client: origin.Stay(&http.Client{Timeout: postPatience}), patience: sendPatience,
		was: sinkResult{Unread: map[string]int64{}, Uncounted: map[string]int64{}}}
}

func (h *httpSink) add(ctx context.Context, line []byte) error {
	h.body.Write(line)
	h.body.WriteByte('\n')
	h.lines++
	if h.body.Len() < bodyBytes {
		return nil
	}
	return h.flush(ctx)
}

// An attempt is the result of posting a body once.
type attempt struct {
	err     error         // nil when the collector took the body
	again   bool          // the body may be posted again
	full    bool          // the collector has no room
	unknown bool          // the body may have been counted
	after   time.Duration // the pause that the collector asks for
}

// flush posts the body until the collector takes it.
func (h *httpSink) flush(ctx context.Context) error {
	if h.lines == 0 {
		return nil
	}
	pause, since := firstPause, time.Now()
	for {
		a := h.post(ctx)
		switch {
		case a.err == nil:
			h.body.Reset()
			h.lines = 0
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !a.again:
			return a.err
		case a.full: // it answers, so the patience begins again
			since = time.Now()
		case time.Since(since) > h.patience:
			return fmt.Errorf("%w; tried for %s", a.err, h.patience)
		}

		if a.unknown {
			h.was.Repeated += h.lines
		}
		if err := waitUntil(ctx, time.Now().Add(max(pause, a.after)), func() error { return nil }); err != nil {
			return err
		}

		pause = min(2*pause, lastPause)
	}
}

func (h *httpSink) post(ctx context.Context) attempt {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url, bytes.NewReader(h.body.Bytes()))
	if err != nil {
		return attempt{err: err}
	}

	request.Header.Set("Content-Type", "text/plain")
	if h.key != "" {
		request.Header.Set("X-Api-Key", h.key)
	}

	answer, err := h.client.Do(request)
	if err != nil {
		away := errors.Is(err, origin.ErrRedirect) // and stays away
		return attempt{err: fmt.Errorf("sending to %s: %w", h.url, exit.Cause(err)), again: !away, unknown: !away && !ask.NotSent(err)}
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	if err != nil {
		return attempt{err: fmt.Errorf("sending to %s: %w", h.url, exit.Cause(err)), again: true, unknown: true}
	}

	return h.judge(answer, text)
}

// judge interprets an answer.
func (h *httpSink) judge(answer *http.Response, text []byte) attempt {
	if answer.StatusCode/100 == 2 || answer.StatusCode == http.StatusBadRequest && saysUnread(text) {
		h.tally(text)
		return attempt{}
	}
	a := attempt{err: fmt.Errorf("%s answers %s%s", h.url, answer.Status, ask.Detail(text)), after: retryAfter(answer.Header.Get("Retry-After"))}
	switch {
	case answer.StatusCode == http.StatusTooManyRequests:
		a.again, a.full = true, true
	case answer.StatusCode >= 500:
		a.again, a.unknown = true, true
	}
	return a
}

// saysUnread reports whether the collector has taken a body and could not read any of its lines.
func saysUnread(text []byte) bool {
	var says struct{ Unread map[string]int64 }
	return json.Unmarshal(text, &says) == nil && len(says.Unread) > 0
}

// tally counts the lines that the collector could not read or did not count.
func (h *httpSink) tally(text []byte) {
	var says struct{ Unread, Uncounted map[string]int64 }
	if json.Unmarshal(text, &says) != nil {
		return
	}
	for reason, n := range says.Unread {
		h.was.Unread[reason] += n
	}
	for reason, n := range says.Uncounted {
		h.was.Uncounted[reason] += n
	}
}

// retryAfter reads the header's seconds or date.
func retryAfter(text string) time.Duration {
	if seconds, err := strconv.Atoi(text); err == nil && seconds >= 0 {
		return min(time.Duration(min(seconds, 3600))*time.Second, longestPause)
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, min(time.Until(at), longestPause))
	}
	return 0
}

func (h *httpSink) close(bool) error {
	h.client.CloseIdleConnections()
	return nil
}

func (h *httpSink) result() sinkResult { return h.was }
