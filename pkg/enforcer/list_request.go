package enforcer

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"weir/internal/duration"
	"weir/pkg/blocklist"
)

// A listRequest is a request for the list.
type listRequest struct {
	form    string // a media type
	since   bool   // only the changes after the version after
	after   blocklist.Version
	local   string // the orders waiting for the log that the client has
	wait    time.Duration
	rule    string
	top     int // 0 is all
	zipped  bool
	answers string            // the ETag that the client has
	most    int               // changes in the answer
	reached blocklist.Version // with them; zero for the complete list
}

const eventStream = "text/event-stream"

// Bounds of the parameters.
const (
	maxWait = time.Minute
	maxTop  = 100_000
)

func readListRequest(r *http.Request) (*listRequest, error) {
	values, err := parameters(r, []string{"after", "local", "wait", "rule", "top"})
	if err != nil {
		return nil, err
	}
	if values.Has("rule") && values.Get("rule") == "" {
		return nil, problemf(http.StatusBadRequest, "rule is empty: name one, or leave it out")
	}

	q := &listRequest{form: formOf(r.Header.Get("Accept")), since: values.Has("after"), local: values.Get("local"), rule: values.Get("rule"), most: manyChanges,
		answers: r.Header.Get("If-None-Match")}
	after := values.Get("after")
	// Browsers send it by themselves when they connect again.
	if q.form == eventStream {
		if last := r.Header.Get("Last-Event-ID"); last != "" {
			after, q.since = last, true
		}
	}

	// Changes are small, and a stream has to arrive at once.
	q.zipped = !q.since && q.form != eventStream && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
	if q.after, err = blocklist.ParseVersion(after); err != nil {
		return nil, problemf(http.StatusBadRequest, "%q is not a version of a list", after)
	}
	if err := q.readBounds(values.Get("wait"), values.Get("top")); err != nil {
		return nil, err
	}

	return q, q.check()
}

func (q *listRequest) readBounds(wait, top string) (err error) {
	if wait != "" {
		if q.wait, err = duration.Parse(wait); err != nil {
			return problemf(http.StatusBadRequest, "wait: %s", err)
		}
		q.wait = min(q.wait, maxWait)
	}

	if top == "" {
		return nil
	}
	if q.top, err = strconv.Atoi(top); err != nil || q.top < 1 || q.top > maxTop {
		return problemf(http.StatusBadRequest, "top is a number from 1 to %d, not %q", maxTop, top)
	}

	return nil
}

// check returns an error for parameters that exclude each other.
func (q *listRequest) check() error {
	if q.form == blocklist.ContentBinary && (q.rule != "" || q.top != 0) {
		return problemf(http.StatusBadRequest, "rule and top are for %s", blocklist.ContentJSON)
	}
	if q.top != 0 && (q.since || q.form == eventStream) {
		return problemf(http.StatusBadRequest, "top needs the complete list: leave after out")
	}
	return nil
}

// formOf returns the accepted form.
func formOf(accept string) string {
	for _, form := range []string{blocklist.ContentBinary, eventStream} {
		if strings.Contains(accept, form) {
			return form
		}
	}
	return blocklist.ContentJSON
}

// wanted returns the filter of entries; nil means all.
func (q *listRequest) wanted() func(*blocklist.Entry) bool {
	if q.rule == "" {
		return nil
	}
	return func(e *blocklist.Entry) bool { return e.Rule == q.rule }
}

// etag returns the ETag of an answer. It is weak: entries that end by themselves do not change it.
func (q *listRequest) etag(state blocklist.State, local string) string {
	return fmt.Sprintf(`W/"%s+%s %s %s %d"`, state.Version, local, q.form, q.rule, q.top)
}
