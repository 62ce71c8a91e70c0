package enforcer

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/duration"
	"weir/internal/keys"
	"weir/pkg/enforcer/past"
)

// Bounds of exports.
const (
	maxExported  = 100_000 // events in one
	maxExporting = 16      // at a time; each has a page of events in memory, for as long as its client reads
)

// The media types of exports, by the form.
var exportTypes = map[string]string{"json": "application/x-ndjson", "csv": "text/csv; charset=utf-8", "ecs": "application/x-ndjson", "cef": "text/plain; charset=utf-8"}

// events is GET /v1/events: the history of the list, a page at a time, or as an export.
func (e *Enforcer) events(w http.ResponseWriter, r *http.Request) error {
	if _, err := e.Admit(r, keys.Read); err != nil {
		return err
	}
	q, form, err := e.readEventsRequest(r)
	if err != nil {
		return err
	}
	if e.config.Events == nil {
		return problemf(http.StatusNotFound, "%s", cmp.Or(e.config.NoEvents, "this enforcer keeps no index of events"))
	}

	if form != "" {
		leave, err := place(r, e.exporting, "export events")
		if err != nil {
			return err
		}
		defer leave()
		return e.export(w, r, q, form)
	}

	leave, err := place(r, e.finding, "look through the events")
	if err != nil {
		return err
	}
	defer leave()
	if q.Key, err = e.keyOfEvents(r.Context(), q.Key); err != nil {
		return err
	}
	page, err := e.eventsPage(r.Context(), q)
	if err != nil {
		return err
	}
	writeJSON(hurry(w), http.StatusOK, page)
	return nil
}

// keyOfEvents returns the key to search for. A key without events that may have a secret in it is searched for by its
// hash.
func (e *Enforcer) keyOfEvents(ctx context.Context, typed string) (string, error) {
	hidden := e.ruling.Load().Rules.HiddenKeys(typed)
	if typed == "" || len(hidden) == 0 {
		return typed, nil
	}
	for _, key := range append([]string{typed}, hidden...) {
		page, err := e.eventsPage(ctx, past.Query{Key: key, Limit: 1})
		if err != nil {
			return "", err
		}
		if len(page.Events) > 0 {
			return key, nil
		}
	}
	return typed, nil
}

// eventsPage asks for a page, and leaves half of the processors to checks.
func (e *Enforcer) eventsPage(ctx context.Context, q past.Query) (*past.Page, error) {
	e.turns.acquire()
	defer e.turns.release()
	page, err := e.config.Events.Search(ctx, q)
	switch {
	case errors.Is(err, past.ErrTooMany):
		return nil, problemf(http.StatusBadRequest, "%s", err)
	case err != nil:
		return nil, problemf(http.StatusServiceUnavailable, "%s", past.ErrNotReady)
	}
	return page, nil
}

// export answers with a stream of events. When there are more, the trailer Weir-Next has where they begin.
func (e *Enforcer) export(w http.ResponseWriter, r *http.Request, q past.Query, form string) (err error) {
	if q.Key, err = e.keyOfEvents(r.Context(), q.Key); err != nil {
		return err
	}
	left := cmp.Or(q.Limit, maxExported)
	q.Limit = min(left, past.MaxLimit)
	page, err := e.eventsPage(r.Context(), q)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", exportTypes[form])
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Trailer", "Weir-Next")
	w.WriteHeader(http.StatusOK)
	to := hurry(w)
	lines, err := past.NewWriter(to, form)
	for err == nil {
		if err = exportPage(lines, page); err != nil {
			break
		}
		left -= len(page.Events)
		if q.After = page.Next; q.After == "" || left == 0 {
			w.Header().Set("Weir-Next", page.Next)
			return nil
		}
		q.Limit = min(left, past.MaxLimit)
		page, err = e.eventsPage(r.Context(), q)
	}
	panic(http.ErrAbortHandler) // a part is not a valid answer
}

func exportPage(to *past.Writer, page *past.Page) error {
	for _, line := range page.Events {
		event, err := past.ReadEvent(line)
		if err != nil {
			return err
		}
		if err := to.Write(event); err != nil {
			return err
		}
	}
	return nil
}

// readEventsRequest reads a query, and the form of an export; it is empty for a page.
func (e *Enforcer) readEventsRequest(r *http.Request) (q past.Query, form string, err error) {
	values, err := parameters(r, []string{"key", "rule", "by", "event", "order", "since", "until", "at", "limit", "after", "format"})
	if err != nil {
		return q, "", err
	}
	for name := range values {
		if values.Get(name) == "" {
			return q, "", problemf(http.StatusBadRequest, "%s is empty: give a value, or leave it out", name)
		}
	}

	q = past.Query{Key: values.Get("key"), Rule: values.Get("rule"), By: values.Get("by"), Event: values.Get("event"), Order: values.Get("order"), After: values.Get("after")}
	if q.Event != "" && !slices.Contains(past.Events, q.Event) {
		return q, "", problemf(http.StatusBadRequest, "event is one of %s, not %q", strings.Join(past.Events, ", "), q.Event)
	}
	if q.Order != "" && !slices.Contains(past.Orders, q.Order) {
		return q, "", problemf(http.StatusBadRequest, "order is one of %s, not %q", strings.Join(past.Orders, ", "), q.Order)
	}
	if err := q.Check(); err != nil {
		return q, "", problemf(http.StatusBadRequest, "%s, not %q", err, q.After)
	}
	if form, err = exportForm(r, values); err != nil {
		return q, "", err
	}
	if err := e.readEventTimes(&q, values); err != nil {
		return q, "", err
	}
	return q, form, readEventsLimit(&q, values.Get("limit"), form)
}

func readEventsLimit(q *past.Query, text, form string) (err error) {
	most := past.MaxLimit
	if form != "" {
		most = maxExported
	} else {
		q.Limit = past.UsualLimit
	}
	if text == "" {
		return nil
	}
	if q.Limit, err = strconv.Atoi(text); err != nil || q.Limit < 1 || q.Limit > most {
		return problemf(http.StatusBadRequest, "limit is a number from 1 to %d, not %q", most, text)
	}
	return nil
}

// exportForm returns the form that is asked for by name, or by Accept.
func exportForm(r *http.Request, values url.Values) (string, error) {
	if form := values.Get("format"); form != "" {
		if !slices.Contains(past.Forms, form) {
			return "", problemf(http.StatusBadRequest, "format is one of %s, not %q", strings.Join(past.Forms, ", "), form)
		}
		return form, nil
	}
	switch accept := r.Header.Get("Accept"); {
	case strings.Contains(accept, "text/csv"):
		return "csv", nil
	case strings.Contains(accept, "application/x-ndjson"):
		return "json", nil
	}
	return "", nil
}

// readEventTimes reads since, until and at: instants, or durations before now.
func (e *Enforcer) readEventTimes(q *past.Query, values url.Values) error {
	now := e.config.Now()
	for name, to := range map[string]*int64{"since": &q.Since, "until": &q.Until, "at": &q.At} {
		text := values.Get(name)
		if text == "" {
			continue
		}
		at, err := readTime(name, text, now)
		if err != nil {
			return err
		}
		if *to = at.UnixMilli(); *to < 1 || at.Year() > 9999 {
			return problemf(http.StatusBadRequest, "%s is %q, which no event can have", name, text)
		}
	}
	if q.At != 0 && (q.Since != 0 || q.Until != 0) {
		return problemf(http.StatusBadRequest, "at asks for one instant: leave since and until out")
	}
	return nil
}

// readTime reads an instant, or a duration before now.
func readTime(name, text string, now time.Time) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	before, err := duration.Parse(text)
	if err != nil || before == duration.Forever {
		return time.Time{}, problemf(http.StatusBadRequest, "%s is a time such as 2026-03-03T08:00:00Z, or a duration before now such as 1h, not %q", name, text)
	}
	return now.Add(-before), nil
}
