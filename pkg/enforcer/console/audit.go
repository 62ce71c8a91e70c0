package console

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"weir/internal/keytext"
	"weir/internal/limited"
	"weir/pkg/blocklist"
)

// An eventsView is a page of events.
type eventsView struct {
	Events []*eventView
	Next   string
	Oldest string
	Behind int
}

// An eventView is an event, as pages show it.
type eventView struct {
	At, Key, Link, Rule, By, Why, What, Class, Until string
}

// events asks the enforcer for events, or returns in a sentence why it has none.
func (c *Console) events(r *http.Request, v *visitor, query url.Values) (_ *eventsView, why string) {
	answer := c.ask(r, v, http.MethodGet, "/v1/events", query, nil)
	var known struct {
		Events []json.RawMessage
		Next   string
		Oldest string
		Behind int
	}
	if answer.status != http.StatusOK || json.Unmarshal(answer.body.Bytes(), &known) != nil {
		return nil, sentence(keytext.Shown(answer.detail()))
	}
	shown := &eventsView{Next: known.Next, Oldest: keytext.Shown(known.Oldest), Behind: known.Behind}
	for _, text := range known.Events {
		var e blocklist.Entry
		var what struct {
			Event string
			At    time.Time
		}
		if json.Unmarshal(text, &e) == nil && json.Unmarshal(text, &what) == nil {
			shown.Events = append(shown.Events, viewOfEvent(&e, what.Event, what.At))
		}
	}
	return shown, ""
}

func viewOfEvent(e *blocklist.Entry, what string, at time.Time) *eventView {
	key := e.Target()
	if e.Order == blocklist.OrderPardon {
		key = e.Fields["key"]
	}
	shown := &eventView{At: at.UTC().Format(time.RFC3339), Key: keytext.Shown(key), Link: keyLink(key), Rule: keytext.Shown(e.Rule), By: keytext.Shown(e.By), Why: reasonOf(e)}
	if e.Source == blocklist.Verdict {
		shown.Why = whyOf(e)
	}
	if e.Until != blocklist.Never {
		shown.Until = instant(e.Until)
	}
	shown.What, shown.Class = capital(keytext.Shown(what)+" "), "bad"
	switch {
	case what == blocklist.EventLifted || what == blocklist.EventEnded || e.Order == blocklist.OrderAllow || e.Order == blocklist.OrderPause:
		shown.Class = "good"
	case e.Mode == blocklist.Shadow:
		shown.Class = "shadow"
	}
	switch {
	case what == blocklist.EventOrdered && e.Order == blocklist.OrderPardon:
		shown.What, shown.Class = "Unblocked", "good"
	case what == blocklist.EventOrdered:
		shown.What = map[blocklist.Kind]string{blocklist.OrderBlock: "Blocked", blocklist.OrderAllow: "Allowed", blocklist.OrderPause: "Paused",
			blocklist.OrderConfirm: "Guard confirmed"}[e.Order]
	case what == blocklist.EventLifted && e.Order == blocklist.OrderPause:
		shown.What = "Resumed"
	case what == blocklist.EventLifted && e.Order == blocklist.OrderConfirm:
		shown.What = "Confirmation ended"
	case what == blocklist.EventLifted && e.Order == blocklist.OrderAllow:
		shown.What = "Allow ended"
	case what == blocklist.EventBlocked && e.Mode == blocklist.Shadow && e.Guarded:
		shown.What = "Guarded"
	case what == blocklist.EventBlocked && e.Mode == blocklist.Shadow:
		shown.What = "Would block"
	}
	shown.What = strings.TrimSpace(shown.What)
	return shown
}

// An auditView is what the page Audit shows.
type auditView struct {
	Missing  string // why there are no events; empty where there may be
	List     []*eventView
	Oldest   string
	Behind   int
	Key, By  string
	Rules    []choice
	Events   []choice
	Since    []choice
	Exports  []choice
	Older    string
	Filtered bool
}

// auditParameters are those of the page that it passes on.
var auditParameters = []string{"key", "by", "rule", "event", "since", "after"}

// audit is the page of what happened.
func (c *Console) audit(w http.ResponseWriter, r *http.Request, v *visitor) error {
	query := url.Values{}
	for _, name := range auditParameters {
		if value := strings.TrimSpace(r.URL.Query().Get(name)); value != "" {
			query.Set(name, value)
		}
	}
	shown := &auditView{Key: query.Get("key"), By: query.Get("by"), Rules: c.ruleChoices(query.Get("rule")), Filtered: len(query) > 0}
	shown.Events = choices(query.Get("event"), "", "all events", "ordered", "ordered by people", "lifted", "lifted by people", "blocked", "blocked by rules", "extended", "extended", "corrected", "corrected", "ended", "ended")
	shown.Since = choices(query.Get("since"), "", "any time", "15m", "last 15 minutes", "1h", "last hour", "24h", "last day", "168h", "last week")
	known, why := c.events(r, v, query)
	if shown.Missing = why; known != nil {
		shown.List, shown.Oldest, shown.Behind = known.Events, known.Oldest, known.Behind
		if known.Next != "" {
			next := clone(query)
			next.Set("after", known.Next)
			shown.Older = root + "audit?" + next.Encode()
		}
	}
	for _, form := range []string{"csv", "json", "ecs", "cef"} {
		export := clone(query)
		export.Del("after")
		export.Set("format", form)
		shown.Exports = append(shown.Exports, choice{Value: root + "events?" + export.Encode(), Text: strings.ToUpper(form)})
	}
	c.render(w, r, http.StatusOK, "audit", &view{Title: "Audit", Active: "audit", Visitor: v, Body: shown})
	return nil
}

func clone(values url.Values) url.Values {
	next := url.Values{}
	for name, all := range values {
		next[name] = slices.Clone(all)
	}
	return next
}

// export passes a download on to the API.
func (c *Console) export(w http.ResponseWriter, r *http.Request, v *visitor) error {
	format := r.URL.Query().Get("format")
	if !slices.Contains([]string{"csv", "json", "ecs", "cef"}, format) {
		return problem{http.StatusBadRequest, "The format is csv, json, ecs or cef."}
	}
	to := &download{ResponseWriter: limited.Answer(w), name: "weir-events." + format}
	c.config.API.ServeHTTP(to, c.request(r, v, http.MethodGet, "/v1/events", r.URL.Query(), nil))
	if to.refused.status != 0 {
		return problem{to.refused.status, sentence(to.refused.detail())}
	}
	return nil
}

// A download is a file for the browser, unless the API refuses it.
type download struct {
	http.ResponseWriter
	name    string
	refused answer
}

// WriteHeader begins the file, or keeps the refusal.
func (d *download) WriteHeader(status int) {
	if status != http.StatusOK {
		d.refused.WriteHeader(status)
		return
	}
	d.Header().Set("Content-Disposition", `attachment; filename="`+d.name+`"`)
	d.ResponseWriter.WriteHeader(status)
}

// Write writes to the file, or to the refusal.
func (d *download) Write(b []byte) (int, error) {
	if d.refused.status != 0 {
		return d.refused.Write(b)
	}
	return d.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (d *download) Unwrap() http.ResponseWriter { return d.ResponseWriter }
